"""`InboundCommands`: received commands of a batch, on their way to their task.

Most batches hold commands of one task for one other task, which are then looked up only
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace

from bus.core.local.inbound_run import InboundRun
from bus.core.local.trace import Trace
from bus.core.wire import NO_DEADLINE, RAW, WANTS_REPLY
from bus.events import BusReason
from bus.message import Incoming, Kind
from bus.payload import decode
from bus.rights import not_granted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bus.core.local.actions import Action, Post
    from bus.core.local.routing_table import Entry
    from bus.core.local.trace import TraceSink
    from bus.core.peer.peer import Peer
    from bus.core.streams.receipts import Receipt
    from bus.core.wire import Batch, Run
    from bus.payload import Payload

__all__ = [
    "DeniedCommands",
    "InboundCommands",
    "arrived",
    "numbered",
    "numbered_singly",
    "unpacked",
]


class InboundCommands:
    """Successive commands from one task for another.

    They are added to ``post``, which joins the actions with its first command.
    """

    __slots__ = ("_expect", "_post", "_receipt", "_source", "_todo", "_trace_sink")

    def __init__(
        self,
        source: Entry,
        post: Post,
        receipt: Receipt,
        expect: Callable[[int, int], object],
        todo: list[Action],
        trace_sink: TraceSink | None,
    ) -> None:
        self._source: Final = source
        self._post: Final = post
        self._receipt: Final = receipt
        self._expect: Final = expect
        self._todo: Final = todo
        self._trace_sink: Final = trace_sink

    def add(self, number: int, run: Run, now: float) -> None:
        """Add the commands of a received run.

        Raises:
            WireError: the body of a command is not a payload.
        """
        left, bodies = run.milliseconds_left, run.bodies
        deadline = None if left == NO_DEADLINE else now + left / 1000
        target, messages = self._post.entry, self._post.messages
        begun = bool(messages)
        if len(bodies) > 1 and run.flags == RAW:
            payloads = cast("Sequence[bytes]", bodies)  # RAW bodies are payloads
            messages.append(
                InboundRun(
                    target, self._source, payloads, self._receipt, number, deadline
                )
            )
        else:
            messages += [
                Incoming(
                    Kind.COMMAND,
                    unpacked(run, body),
                    None,
                    self._source,
                    target,
                    None,
                    len(body),
                    deadline,
                    self._receipt,
                    each,
                    run.id,
                    wants_reply=bool(run.flags & WANTS_REPLY),
                )
                for each, body in enumerate(bodies, number)
            ]
            last = messages[-1]
            if run.mid and self._trace_sink is not None and type(last) is Incoming:
                last._trace = arrived(
                    self._trace_sink,
                    run,
                    self._source,
                    target.id.number,
                    len(bodies[-1]),
                )
        self._expect(number, len(bodies))
        if not begun:
            self._todo.append(self._post)


class DeniedCommands:
    """Commands from a process that has no right to send them (BUS-SEC-1).

    They count as extracted, so that no other message waits for them. Commands that want
    an answer get an error. A process that respects its rights sends such commands only
    before it has received the report of those rights.

    answer: `OutboundMessages.answer`.
    """

    __slots__ = ("_answer", "_peer", "_source", "_target", "_trace_sink")

    def __init__(
        self,
        peer: Peer,
        source: Entry,
        target: Entry,
        answer: Callable[..., object],
        trace_sink: TraceSink | None,
    ) -> None:
        self._peer: Final = peer
        self._source: Final = source
        self._target: Final = target
        self._answer: Final = answer
        self._trace_sink: Final = trace_sink

    def add(self, number: int, run: Run, now: float) -> None:
        """Reject the commands of a received run."""
        source, target, peer = self._source, self._target, self._peer
        for each, body in enumerate(run.bodies, number):
            peer.receipts(target).expect(each)
            peer.on_extracted(run.to, each, now, size=len(body))
            if run.mid and self._trace_sink is not None:
                trace = arrived(
                    self._trace_sink, run, source, target.id.number, len(body)
                )
                trace.record_discarded(BusReason.DENIED)
            if run.flags & WANTS_REPLY:
                question = Incoming(
                    Kind.COMMAND, _source=source, _to=target, _id=run.id, payload=None
                )
                why = str(not_granted("command", target.name))
                self._answer(question, error=why)


def arrived(
    trace_sink: TraceSink, run: Run, source: Entry, destination: int, size: int
) -> Trace:
    """Record the arrival of a message; return the trace for its further steps."""
    trace = Trace(
        trace_sink,
        run.kind,
        source.id.number,
        size,
        mid=run.mid,
        hop=run.hop + 1,
    )
    trace.destination = destination
    trace.record_arrived()
    return trace


def unpacked(run: Run, body: bytes | memoryview) -> Payload:
    """Return the payload of a message.

    Raises:
        WireError: the body is not a payload.
    """
    return body if run.flags & RAW else decode(body)


def numbered(batch: Batch) -> Iterator[tuple[int, Run]]:
    """Yield the runs of a batch, each with the number of its first message."""
    number = batch.first
    for run in batch.runs:
        yield number, run
        number += len(run.bodies)


def numbered_singly(batch: Batch) -> Iterator[tuple[int, Run]]:
    """Yield the messages of a batch as runs of one, each with its number."""
    for first, run in numbered(batch):
        for number, body in enumerate(run.bodies, first):
            yield number, replace(run, bodies=(body,))
