"""`ArrivingCommands`: commands of a batch on their way to the task they are for.

Mostly those of one batch come from one task and are for one other; who these are is
looked up once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace

from bus.core.command_run import CommandRun
from bus.core.trace import Trace
from bus.core.wire import NO_DEADLINE, RAW, WANTS_REPLY
from bus.events import BusReason
from bus.message import Incoming, Kind
from bus.payload import decode
from bus.rights import not_granted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bus.core.actions import Action, Post
    from bus.core.peer import Peer
    from bus.core.receipts import Receipt
    from bus.core.routing_table import Entry
    from bus.core.trace import Witness
    from bus.core.wire import Batch, Run
    from bus.payload import Payload

__all__ = [
    "ArrivingCommands",
    "DeniedCommands",
    "arrived",
    "numbered",
    "numbered_singly",
    "unpacked",
]


class ArrivingCommands:
    """Commands that came one after the other from one task for another one.

    They join ``post``, which is to be done as soon as there is one.
    """

    __slots__ = ("_expect", "_post", "_receipt", "_source", "_todo", "_witness")

    def __init__(
        self,
        source: Entry,
        post: Post,
        receipt: Receipt,
        expect: Callable[[int, int], object],
        todo: list[Action],
        witness: Witness | None,
    ) -> None:
        self._source: Final = source
        self._post: Final = post
        self._receipt: Final = receipt
        self._expect: Final = expect
        self._todo: Final = todo
        self._witness: Final = witness

    def add(self, number: int, run: Run, now: float) -> None:
        """Note some that came.

        Raises:
            WireError: the body of one is no payload.
        """
        left, bodies = run.milliseconds_left, run.bodies
        deadline = None if left == NO_DEADLINE else now + left / 1000
        target, messages = self._post.entry, self._post.messages
        begun = bool(messages)
        if len(bodies) > 1 and run.flags == RAW:
            payloads = cast("Sequence[bytes]", bodies)  # as they stand
            messages.append(
                CommandRun(
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
            if run.mid and self._witness is not None and type(last) is Incoming:
                last._trace = arrived(
                    self._witness, run, self._source, target.id.number, len(bodies[-1])
                )
        self._expect(number, len(bodies))
        if not begun:
            self._todo.append(self._post)


class DeniedCommands:
    """Commands that came from a process which must not send them (BUS-SEC-1).

    They count as taken, so that nothing else waits for them. Who asks is told; a
    process that keeps to what it is told sends none but those that cross with that.

    answer: `Correspondence.answer`.
    """

    __slots__ = ("_answer", "_peer", "_source", "_target", "_witness")

    def __init__(
        self,
        peer: Peer,
        source: Entry,
        target: Entry,
        answer: Callable[..., object],
        witness: Witness | None,
    ) -> None:
        self._peer: Final = peer
        self._source: Final = source
        self._target: Final = target
        self._answer: Final = answer
        self._witness: Final = witness

    def add(self, number: int, run: Run, now: float) -> None:
        """Refuse some that came."""
        source, target, peer = self._source, self._target, self._peer
        for each, body in enumerate(run.bodies, number):
            peer.receipts(target).expect(each)
            peer.took(run.to, each, now, size=len(body))
            if run.mid and self._witness is not None:
                trace = arrived(self._witness, run, source, target.id.number, len(body))
                trace.discarded(BusReason.DENIED)
            if run.flags & WANTS_REPLY:
                question = Incoming(
                    Kind.COMMAND, _source=source, _to=target, _id=run.id, payload=None
                )
                why = str(not_granted("command", target.name))
                self._answer(question, error=why)


def arrived(
    witness: Witness, run: Run, source: Entry, destination: int, size: int
) -> Trace:
    """Tell that a message came, and return what else is to be told of it."""
    trace = Trace(
        witness,
        run.kind,
        source.id.number,
        size,
        mid=run.mid,
        destination=destination,
        hop=run.hop + 1,
    )
    trace.arrived()
    return trace


def unpacked(run: Run, body: bytes | memoryview) -> Payload:
    """Return the payload of a message.

    Raises:
        WireError: the body is none.
    """
    return body if run.flags & RAW else decode(body)


def numbered(batch: Batch) -> Iterator[tuple[int, Run]]:
    """Return the runs of a batch, each with the number of its first message."""
    number = batch.first
    for run in batch.runs:
        yield number, run
        number += len(run.bodies)


def numbered_singly(batch: Batch) -> Iterator[tuple[int, Run]]:
    """Return the messages of a batch as runs of one, each with its number."""
    for first, run in numbered(batch):
        for number, body in enumerate(run.bodies, first):
            yield number, replace(run, bodies=(body,))
