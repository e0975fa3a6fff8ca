"""`InboundMessages`: messages of other processes, from their frame to their task.

The numbers of its stream ensure that each message is accepted once. It is then given to
its addressee. A message from or to a deregistered task is a stray. Extractions by tasks
are recorded here too, so that the sender's process is informed.

`InboundCommands` are the commands of one batch. Most batches hold commands of one task
for one other task, which are then looked up only once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace

from bus.errors import BusError, MessageTooLargeError, RemoteError, WireError
from bus.kernel import constants
from bus.kernel.peer.relay import AUDIENCE, Relay
from bus.kernel.relays import Proxy
from bus.kernel.streams.incoming_streams import IncomingStreams, Refusal
from bus.kernel.streams.receipts import Receipt
from bus.kernel.tasks.actions import Answer, Post
from bus.kernel.tasks.runs import InboundRun
from bus.kernel.trace import Trace
from bus.kernel.wire import (
    FAILED,
    FOLLOWS,
    NO_DEADLINE,
    RAW,
    TEXT_MAX,
    WANTS_REPLY,
    Bodies,
    Error,
    Gap,
    Reason,
    Run,
    Unrelay,
)
from bus.model.error_text import error_text_of
from bus.model.events import BusReason
from bus.model.message import Incoming, Kind
from bus.model.payload import decode, own_copy
from bus.model.rights import not_granted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bus.kernel.messages.outbound_messages import OutboundMessages
    from bus.kernel.peer.peer import Peer
    from bus.kernel.relays import Relays
    from bus.kernel.streams.incoming_stream import IncomingStream
    from bus.kernel.streams.receipts import Taken
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.topology import Topology
    from bus.kernel.trace import TraceSink
    from bus.kernel.wire import Batch, OpenStream
    from bus.model.payload import Payload

__all__ = [
    "DeniedCommands",
    "InboundCommands",
    "InboundMessages",
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


# Ranges of missing numbers kept for each stream (AMO-14).
_MISSING_RANGES_MAX: Final = 1024


class InboundMessages:
    """All messages from other processes to this one.

    strays: the number of messages from or to a task that had deregistered.
    """

    __slots__ = (
        "_alarm",
        "_outbound_messages",
        "_relays",
        "_streams",
        "_topology",
        "strays",
    )

    def __init__(
        self, topology: Topology, relays: Relays, outbound_messages: OutboundMessages
    ) -> None:
        self._topology: Final = topology
        self._relays: Final = relays
        self._outbound_messages: Final = outbound_messages
        self._streams: Final[IncomingStreams[tuple[int, Run]]] = IncomingStreams(
            topology.me.incarnation,
            window=constants.STREAM_WINDOW,
            ranges_max=_MISSING_RANGES_MAX,
            life_s=constants.ENDED_STREAM_S,
            ended_max=constants.ENDED_STREAMS_MAX,
            horizons=topology.horizons,
        )
        self._alarm: Final = topology.timers.alarm(self._streams.expire)
        topology.newest_epoch = self._streams.newest_epoch
        self.strays: int = 0

    def on_link_open(self, peer: Peer, frame: OpenStream) -> None:
        """Resume a process's stream on a new link; the peer is still the same.

        Raises:
            WireError: the frame is of an old epoch.
        """
        sender = peer.name
        opened = self._streams.open(sender, frame.epoch, frame.first)
        if opened.refusal is not None:
            raise WireError(
                f"OPEN_STREAM of an old epoch: {frame.epoch}, known is {opened.epoch}"
            )
        if opened.resumed:
            self._topology.complain(
                f"{sender} continues epoch {frame.epoch}: numbers below "
                f"{opened.has.next} are refused, since they may have been delivered "
                "before this process was restarted (AMO-20)"
            )
        peer.session.open(frame, opened.has)
        peer.bound = True

    def stream(self, peer: Peer, epoch: int) -> IncomingStream[tuple[int, Run]] | None:
        """Return the stream of a peer's epoch; None unless it is open."""
        return self._streams.find_open(peer.name, epoch)

    def on_batch(  # noqa: PLR0912 # one loop: a call per message would cost more
        self, peer: Peer, batch: Batch, now: float
    ) -> None:
        """Accept messages; give each new one to its addressee.

        Raises:
            WireError: they are of another epoch, or break the order of their stream.
        """
        session, sender, streams = peer.session, peer.name, self._streams
        if batch.epoch != session.their_epoch:
            raise WireError(f"MSG of epoch {batch.epoch}, not {session.their_epoch}")
        count = batch.count
        heading = (sender, batch.epoch, batch.incarnation, batch.first)
        runs: Iterable[tuple[int, Run]]
        if streams.accept_next(*heading, count, batch.floor):
            runs, batch_end = numbered(batch), batch.first + count - 1
        else:
            singly = list(numbered_singly(batch))
            accepted = streams.accept(*heading, singly, batch.floor)
            if isinstance(accepted, Refusal):
                raise WireError(f"MSG is refused: {accepted.value}")
            if len(accepted) < count:
                peer.acks.repeat()
            runs = accepted
            # In rising order (AMO-10): the last one is the greatest.
            batch_end = accepted[-1][0] if accepted else 0
        self._raise_horizon(sender, batch.epoch, batch_end)
        peer.acks.on_received(streams.acknowledgement(sender))
        # Most batches are successive commands of one task for another, so the tasks are
        # looked up only where one of them changes.
        kind, to, by, commands = Kind.COMMAND, AUDIENCE, AUDIENCE, None
        for number, run in runs:
            try:
                if run.flags & FOLLOWS:
                    raise MemoryError("no memory for the body")
                if run.kind is Kind.NOTIFICATION:
                    commands = None
                    self._notify(peer, number, run, now)
                    continue
                if run.kind is not kind:
                    commands = None
                    for at in range(len(run.bodies)):
                        self._deliver(peer, number + at, run, run.bodies[at], now)
                    continue
                if commands is None or run.to != to or run.source != by:
                    to, by = run.to, run.source
                    commands = self._commands(peer, run)
                if commands is not None:
                    commands.add(number, run, now)
            except WireError:
                raise
            except Exception as error:  # noqa: BLE001 # it ends these messages alone
                commands = None
                self._refuse(peer, number, run, error, now)

    def _refuse(
        self, peer: Peer, number: int, run: Run, error: Exception, now: float
    ) -> None:
        """Refuse messages that this process cannot take (BUS-MSG-20).

        They are accepted, so none is sent again.

        error: the reason, most often that there is no memory.
        """
        count = len(run.bodies)
        short = isinstance(error, MemoryError)
        why = "its process has no memory for it"
        if not short:
            why = f"its process failed: {error_text_of(error)}"[:TEXT_MAX]
        self._topology.complain(f"a message of {peer.name} is refused: {why}")
        if run.kind is Kind.NOTIFICATION:
            peer.acks.on_extracted(AUDIENCE, number + count - 1, now, 0)
            relay = peer.relays.get(run.source)
            if relay is not None:
                relay.gap += count
        elif run.kind is Kind.COMMAND:
            # The numbers are not expected here, so no later receipt covers them before
            # the sender has read these frames.
            reason = Reason.BUSY if short else Reason.UNREACHABLE
            for each in range(number, number + count):
                peer.session.send_control(Error(reason=reason, text=why, message=each))
        else:
            self._deliver(peer, number, run, None, now)

    def _raise_horizon(self, sender: str, epoch: int, number: int) -> None:
        """Have a horizon stored, unless all messages up to ``number`` are covered.

        The action precedes those that hand the messages over, and the acknowledgement:
        actions are performed in order, and its failure ends them.
        """
        horizons = self._topology.horizons
        if horizons is None or not number:
            return
        raised = horizons.raise_over(sender, epoch, number)
        if raised is not None:
            self._topology.todo.append(raised)

    def _commands(
        self, peer: Peer, run: Run
    ) -> InboundCommands | DeniedCommands | None:
        """Begin to deliver commands like these; None if they have no addressee."""
        ends = self._ends(peer, run, len(run.bodies))
        if ends is None:
            return None
        relay, target = ends
        if isinstance(target, Proxy):
            raise WireError(f"MSG has a COMMAND for {run.to}, which is a proxy")
        if not peer.rights.may_command(target.name):
            self._topology.complain(
                f"{peer.name} may not command {target.name!r}: access is denied"
            )
            answer, trace_sink = (
                self._outbound_messages.answer,
                self._topology.trace_sink,
            )
            return DeniedCommands(peer, relay.entry, target, answer, trace_sink)
        todo = self._topology.todo
        last = todo[-1] if todo else None
        if not isinstance(last, Post) or last.entry is not target:
            last = Post(target, [])
        receipts = peer.receipts(target)
        receipt = Receipt(peer, peer.session.their_epoch, run.to, receipts)
        return InboundCommands(
            relay.entry, last, receipt, receipts.expect, todo, self._topology.trace_sink
        )

    def _ends(self, peer: Peer, run: Run, count: int) -> tuple[Relay, Entry] | None:
        """Return the sender's relay and the addressee of messages; None without both.

        count: how many messages to count as strays then.
        """
        if run.to == AUDIENCE:
            raise WireError(f"MSG has a {run.kind.name} for relay {run.to}")
        relay = peer.relays.get(run.source)
        target = self._relays.task(run.to)
        if target is None or relay is None:
            self.strays += count
            if target is None and not peer.is_unrelay_pending(run.to):
                # It deregistered before this session, in which it extracted nothing.
                peer.session.send_control(Unrelay(relay=run.to, extracted=0))
            return None
        relay.users.add(target)
        return relay, target

    def _deliver(
        self,
        peer: Peer,
        number: int,
        run: Run,
        body: bytes | memoryview | None,
        now: float,
    ) -> None:
        """Deliver an answer.

        body: None if this process cannot take it; the caller gets an error.
        """
        ends = self._ends(peer, run, 1)
        if ends is None:
            return
        relay, target = ends
        source: Entry = relay.entry
        payload = None if body is None else unpacked(run, body)
        size = 0 if body is None else len(body)
        peer.receipts(target).expect(number)
        peer.on_extracted(run.to, number, now, size=size)
        final = run.kind is Kind.COMMAND_RESPONSE
        if not self._was_asked(peer, relay, target, run):
            self.strays += 1
            return
        if final:
            relay.on_answer(target, run.id)
        failed = bool(run.flags & FAILED)
        error: BusError | None = None
        if body is None:
            limit = self._topology.config.message_bytes_max
            got = int.from_bytes(run.bodies[0]) if run.flags & FOLLOWS else 0
            why = "the process of the caller has no memory for the answer"
            error = MessageTooLargeError(got or len(run.bodies[0]), limit, why)
        elif failed:
            error = RemoteError(source.address.module, str(payload))
        self._topology.todo.append(
            Answer(
                target.task if isinstance(target, Proxy) else target,
                run.id,
                source.address,
                None if error else payload,
                error,
                final,
                self._trace_arrival(run, source, target.id.number, size),
            )
        )

    @staticmethod
    def _was_asked(peer: Peer, relay: Relay, target: Entry, run: Run) -> bool:
        """Return True if the remote task may answer.

        With all rights it always may, except for the answer to a proxy.
        """
        if isinstance(target, Proxy):
            # Its task counts its questions on all buses: without this check a peer of
            # one bus could answer a question that was asked on another.
            command = run.kind is Kind.COMMAND_RESPONSE
            return command and relay.is_unanswered(target, run.id)
        if peer.rights.whole:
            return True
        if run.kind is Kind.COMMAND_RESPONSE:
            return relay.is_unanswered(target, run.id)
        return peer.rights.may_subscribe(target.name)

    def _trace_arrival(
        self, run: Run, source: Entry, destination: int, size: int
    ) -> Trace | None:
        trace_sink = self._topology.trace_sink
        if trace_sink is None or not run.mid:
            return None
        return arrived(trace_sink, run, source, destination, size)

    def _notify(self, peer: Peer, number: int, run: Run, now: float) -> None:
        """Give notifications to all local subscribers of their sender (BUS-RELAY-7)."""
        if run.to != AUDIENCE:
            raise WireError(f"MSG has a NOTIFICATION for relay {run.to}")
        bodies, count = run.bodies, len(run.bodies)
        size = (
            bodies.lengths.total
            if isinstance(bodies, Bodies)
            else sum(map(len, bodies))
        )
        peer.acks.on_extracted(AUDIENCE, number + count - 1, now, size)
        relay = peer.relays.get(run.source)
        if relay is None:
            self.strays += count
            return
        # A message that reports a gap is delivered alone.
        alone = int(relay.gap > 0) if count > 1 and run.flags == RAW else count
        for body in bodies[:alone]:
            self._notify_alone(relay, run, body)
        if alone < count:
            payloads = cast("Sequence[bytes]", bodies[alone:] if alone else bodies)
            for each in self._relays.audience(relay):
                inbound_run = InboundRun(
                    each.entry,
                    relay.entry,
                    payloads,
                    None,
                    number + alone,
                    None,
                    each.subscriptions,
                )
                self._topology.todo.append(Post(each.entry, [inbound_run]))

    def _notify_alone(self, relay: Relay, run: Run, body: bytes | memoryview) -> None:
        """Give one notification of a run to all local subscribers of its sender."""
        payload = unpacked(run, body)
        me = self._topology.me.incarnation
        trace = self._trace_arrival(run, relay.entry, me, len(body))
        if trace is not None:
            trace.record_delivered()
        gap, relay.gap = relay.gap, 0
        answerable = bool(run.flags & WANTS_REPLY)
        for host, each in enumerate(self._relays.audience(relay)):
            if answerable:
                user = self._relays.proxies.sender(each.entry)
                if user.table is not None:
                    relay.users.add(user)  # needed for its answer, however late
            incoming = Incoming(
                kind=Kind.NOTIFICATION,
                # Make all copies before any is posted: a callback may change its own.
                payload=own_copy(payload) if host else payload,
                subscriptions=each.subscriptions,
                gap=gap,
                wants_reply=answerable,
                _source=relay.entry,
                _id=run.id,
                _to=each.entry,
                _size=len(body),
                _trace=None if trace is None else trace.for_subscriber(),
            )
            self._topology.todo.append(Post(each.entry, [incoming]))

    @staticmethod
    def on_gap(peer: Peer, frame: Gap, _: float) -> None:
        """Add to the gap that the task's next notification reports."""
        relay = peer.relays.get(frame.relay)
        if relay is not None:
            relay.gap += frame.count

    def on_extracted(self, messages: Iterable[Taken], now: float) -> None:
        """Record that tasks extracted or dropped messages from links (BUS-RELAY-9)."""
        for receipt, number, count, size in messages:
            peer: Peer = receipt.peer
            if receipt.epoch == peer.session.their_epoch:
                peer.on_extracted(receipt.relay, number, now, count=count, size=size)

    def settle_receipts(self, is_idle: Callable[[Entry], bool], now: float) -> bool:
        """Settle the receipts after an internal error; see `Peer.settle_receipts`.

        An error may have lost the record that a task extracted a message. The sender
        would count that message, and all later ones, as under way without end.

        is_idle: returns True if a task has no message to handle.
        """

        def may_settle(relay: int) -> bool:
            task = self._relays.task(relay)
            return task is not None and not isinstance(task, Proxy) and is_idle(task)

        settled = True
        for peer in self._topology.peers.values():
            settled = peer.settle_receipts(may_settle, now) and settled
        return settled

    def on_process_lost(self, peer: Peer, now: float) -> None:
        """End the stream of a process that is lost or was restarted."""
        self._alarm.by(now + constants.ENDED_STREAM_S)
        self._streams.end(peer.name, now)
