"""`OutboundMessages`: outbound messages to tasks of other processes.

Each message is in exactly one place, even if links and processes fail: parked, queued
in a relay, under way, or with its addressee.

`UndeliveredMessages` decides on those whose relay ends before they are extracted. If
its relay is released, a message never put on a link is sent elsewhere. A message put on
a link and not extracted is sent elsewhere if its addressee deregistered cleanly and
reported its last extraction (BUS-DEREG-4). It is in doubt if the addressee's process is
lost (BUS-MOVE-8). It fails if that process refuses it (BUS-MSG-20).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.errors import (
    BusFullError,
    ExpiredError,
    InDoubtError,
    MessageTooLargeError,
    PeerLostError,
    UnreachableError,
)
from bus.kernel.peer.relay import AUDIENCE, Relay
from bus.kernel.streams.incoming_stream import Acknowledgement
from bus.kernel.tasks.runs import OutboundRun, commands_of, pack_answer, pack_payload
from bus.kernel.wire import FAILED, RAW, WANTS_REPLY, Reason
from bus.model.error_text import error_text_of
from bus.model.message import Incoming, Kind
from bus.model.payload import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bus.errors import BusError
    from bus.kernel.peer.peer import Peer
    from bus.kernel.relays import Relays
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.topology import Topology
    from bus.kernel.trace import Trace
    from bus.kernel.wire import Ack, Batch, Error, Unrelay
    from bus.model.payload import Payload

__all__ = ["OutboundMessages", "UndeliveredMessages"]


class OutboundMessages:
    """The outbound messages to other processes: posted, answered, and extracted.

    turns: assigns each message its turn; see `OutboundRun`.
    """

    __slots__ = ("_manager", "_relays", "_topology", "turns")

    def __init__(
        self, topology: Topology, manager: ProcessManager, relays: Relays
    ) -> None:
        self._topology: Final = topology
        self._manager: Final = manager
        self._relays: Final = relays
        self.turns = itertools.count(1)

    # Sending.

    def post(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        """Send commands to a relay; those it has no room for fail (BUS-FLOW-1)."""
        relay: Relay = entry.mailbox
        at = 0
        while at < len(messages):
            room = self._room(relay)
            if not room:
                self._topology.fail(messages[at:], self._full_error(relay))
                return
            # Take messages of one sender, and no more than fit. The next pass asks for
            # room again: posting these may have sent some.
            source = messages[at]._source
            end = min(len(messages), at + room)
            stop = at + 1
            while stop < end and messages[stop]._source is source:
                stop += 1
            self._post(relay, self._outbound_runs(relay, source, messages[at:stop]))
            at = stop

    def post_alike(
        self,
        entry: Entry,
        source: Entry,
        payloads: Sequence[bytes],
        size: int,
        deadline: float | None,
    ) -> None:
        """Send commands of one task that differ only in their bytes; see `post`.

        size: their total length in bytes. The caller has counted it already, and a
          second pass over many messages would cost more than the rest of this method.
        deadline: when they are no longer worth delivering, in seconds.
        """
        relay: Relay = entry.mailbox
        while payloads:
            room = self._room(relay)
            if not room:
                refused = commands_of(source, entry.name, payloads, deadline)
                self._topology.fail(refused, self._full_error(relay))
                return
            some, payloads = payloads, ()
            if len(some) > room:
                some, payloads = some[:room], some[room:]
                size = sum(map(len, some))
            outbound_run = OutboundRun(
                Kind.COMMAND,
                source,
                self._number(relay, source),
                0,
                RAW,
                next(self.turns),
                deadline,
                some,
                size,
                name=entry.name,
            )
            self._post(relay, [outbound_run])
            size = sum(map(len, payloads))

    def _room(self, relay: Relay) -> int:
        """Return how many messages may be posted now; may drop the oldest command."""
        room = self._topology.config.task_fifo_messages - relay.queued
        if room > 0:
            return room
        if relay.entry.overflow != "drop-oldest":
            return 0
        self._topology.fail(relay.drop_oldest_command(), self._full_error(relay))
        return 1

    def _no_memory(self, size: int) -> MessageTooLargeError:
        limit = self._topology.config.message_bytes_max
        why = "this process has no memory to encode it"
        return MessageTooLargeError(size, limit, why)

    def _full_error(self, relay: Relay) -> BusFullError:
        limit = self._topology.config.task_fifo_messages
        return BusFullError(f"the relay of {relay.entry.name!r}", limit)

    def _post(self, relay: Relay, outbound_runs: Sequence[OutboundRun]) -> None:
        relay.append(outbound_runs)
        self._report_departures(relay, outbound_runs)
        self._pump(relay)

    def _pump(self, relay: Relay) -> None:
        """Send the messages that may be sent; fail those too long for the peer.

        The check is here because the peer's limit is unknown until a link has stated
        it, and nothing is sent before that.
        """
        most = relay.peer.message_bytes_max
        less = most < self._topology.config.message_bytes_max
        if less and relay.queued_bytes > most:
            for message, length in relay.take_oversized():
                self._topology.fail([message], MessageTooLargeError(length, most))
        relay.pump()

    def open(self, entry: Entry, messages: Iterable[Incoming]) -> None:
        """Open a relay; first send it the messages that waited for its name."""
        relay: Relay = entry.mailbox
        outbound_runs = [
            outbound_run
            for message in messages
            for outbound_run in self._outbound_runs(relay, message._source, [message])
        ]
        # Messages posted meanwhile keep their turns. The earlier messages of the same
        # sender need turns as early: otherwise each would wait for the other, with a
        # notification in between.
        turns = {each.relay: each.turn for each in reversed(relay.queue)}
        if turns:
            outbound_runs = [
                replace(each, turn=turns.get(each.relay, each.turn))
                for each in outbound_runs
            ]
        relay.open(outbound_runs)
        self._report_departures(relay, outbound_runs)
        self._pump(relay)

    def answer(
        self,
        question: Incoming,
        payload: Payload = None,
        *,
        error: str | None = None,
    ) -> bool:
        """Send the answer to a remote request; False if its relay was released."""
        relay: Relay = question._source.mailbox
        if relay.peer.relays.get(relay.number) is not relay:
            return False
        outbound_run = self._answer_outbound_run(question, payload, error)
        relay.append((outbound_run,))
        relay.pump()
        if not relay.peer.answers.count(outbound_run.size):
            relay.peer.flooded = True
        return True

    def _answer_outbound_run(
        self, question: Incoming, payload: Payload, error: str | None
    ) -> OutboundRun:
        relay: Relay = question._source.mailbox
        command = question.kind is Kind.COMMAND
        # If the task has left, its number stays until all its answers are sent. A task
        # of another bus has had a proxy since the question came.
        source = self._relays.with_number(self._relays.proxies.sender(question._to))
        own, most = (
            self._topology.config.message_bytes_max,
            relay.peer.message_bytes_max,
        )
        flags, body = pack_answer(payload, error, own)
        if flags != FAILED and len(body) > most:
            too_long = MessageTooLargeError(len(body), most)
            flags, body = pack_answer(None, error_text_of(too_long), own)
        trace: Trace | None = None
        if question._trace is not None:
            traced = question._trace.answer_payload(
                (source.name, relay.entry.name),
                payload,
                None if flags & RAW else body,
                str(decode(body)) if flags == FAILED else None,
            )
            trace = question._trace.answer(source.id.number, len(body), traced)
            trace.record_accepted(relay.entry.id.number)
        return OutboundRun(
            kind=Kind.COMMAND_RESPONSE if command else Kind.NOTIFICATION_RESPONSE,
            source=source,
            relay=source.relay,
            id=question._id,
            flags=flags,
            turn=next(self.turns),
            deadline=None,
            bodies=(body,),
            size=len(body),
            trace=trace,
        )

    def notify(
        self,
        subscribers: Iterable[Peer],
        source: Entry,
        payload: Payload,
        question: int,
        trace: Trace | None = None,
        gap: int = 0,
    ) -> None:
        """Send a notification once to each process that subscribes to its sender.

        question: the number of the sender's wait for answers; 0 for none.
        gap: how many of the sender's notifications just before this one were dropped on
          their way to this process.
        """
        try:
            flags, body = pack_payload(payload)
        except MemoryError:
            flags, body = RAW, None
        outbound_run = OutboundRun(
            kind=Kind.NOTIFICATION,
            source=source,
            relay=self._relays.with_number(source).relay,
            id=question,
            flags=flags | WANTS_REPLY if question else flags,
            turn=next(self.turns),
            deadline=None,
            bodies=(body or b"",),
            size=len(body or b""),
            gap=gap,
        )
        if body is None:
            for peer in subscribers:
                peer.count_dropped(outbound_run)  # the next one reports the gap
            return
        self._notify(subscribers, outbound_run, trace)

    def notify_alike(
        self,
        subscribers: Iterable[Peer],
        source: Entry,
        payloads: Sequence[bytes],
        size: int,
        gap: int,
    ) -> None:
        """Send notifications of one task that differ only in their bytes; see `notify`.

        size: their total length in bytes.
        """
        outbound_run = OutboundRun(
            kind=Kind.NOTIFICATION,
            source=source,
            relay=self._relays.with_number(source).relay,
            id=0,
            flags=RAW,
            turn=next(self.turns),
            deadline=None,
            bodies=payloads,
            size=size,
            gap=gap,
        )
        self._notify(subscribers, outbound_run, None)

    @staticmethod
    def _notify(
        subscribers: Iterable[Peer], outbound_run: OutboundRun, trace: Trace | None
    ) -> None:
        for peer in subscribers:
            each = outbound_run
            if trace is not None:
                each = replace(outbound_run, trace=trace.for_subscriber())
                assert each.trace is not None
                each.trace.record_accepted(peer.session.incarnation)
            peer.audience.append((each,))
            peer.audience.pump()
            peer.audience.drop_excess()

    def _number(self, relay: Relay, source: Entry) -> int:
        """Return the relay number by which the peer knows the sender."""
        if source in self._manager.table:
            return self._relays.with_number(source).relay
        # The sender has deregistered, and its number was released.
        return relay.peer.number_of_departed(source, self._relays.new_number)

    def _outbound_runs(
        self, relay: Relay, source: Entry, messages: Iterable[Incoming]
    ) -> list[OutboundRun]:
        """Pack commands of one task, one run for each."""
        source = self._relays.proxies.sender(source)
        number = self._number(relay, source)
        command, turns = Kind.COMMAND, self.turns
        outbound_runs = []
        for message in messages:
            try:
                flags, body = pack_payload(message.payload)
            except MemoryError:
                self._topology.fail([message], self._no_memory(message._size))
                continue
            outbound_runs.append(
                OutboundRun(  # positional arguments are faster; in the class's order
                    command,
                    source,
                    number,
                    message._id,
                    flags | WANTS_REPLY if message.wants_reply else flags,
                    next(turns),
                    message._deadline,
                    (body,),
                    len(body),
                    message,
                    trace=message._trace,
                )
            )
        return outbound_runs

    def _report_departures(
        self, relay: Relay, outbound_runs: Iterable[OutboundRun]
    ) -> None:
        """Send UNRELAY for deregistered senders, once these messages are sent."""
        for outbound_run in outbound_runs:
            if outbound_run.source not in self._manager.table:
                relay.peer.report_departure(outbound_run.relay, final=False)

    # Acknowledgements.

    def on_ack(self, peer: Peer, ack: Ack, _: float) -> None:
        """Forget received and extracted messages; send more into the freed room."""
        if ack.epoch != peer.session.epoch:
            return
        peer.session.on_ack(ack)
        for number, extracted in ack.extracted:
            if number == AUDIENCE:
                peer.audience.on_extracted(extracted)
            else:
                self._on_extracted(peer, number, extracted)
        self.pump(peer)

    def on_ack_in(self, peer: Peer, batch: Batch) -> None:
        """Handle the acknowledgement in a message frame (`Batch.acknowledged`)."""
        if not batch.acknowledged:
            return
        has = Acknowledgement(batch.acknowledged + 1)
        peer.session.outgoing.acknowledge(has)
        if batch.extracted and batch.runs:
            self._on_extracted(peer, batch.runs[0].source, batch.extracted)
        self.pump(peer)

    def _on_extracted(self, peer: Peer, number: int, extracted: int) -> None:
        relay = peer.relays.get(number)
        if relay is not None:
            if relay.provisional:
                relay.provisional = False  # it extracted a message
                if not relay.users:  # the sender has left meanwhile
                    self._relays.on_changed(relay)
            relay.on_extracted(extracted)
            self._relays.release_drained(relay)

    def pump(self, peer: Peer) -> None:
        """Send all messages that may be sent to a peer."""
        while peer.waiting:
            notifications = peer.audience.queued
            for relay in peer.active_relays():
                if relay.queue:
                    self._pump(relay)
            if peer.audience.queued == notifications:
                return  # otherwise messages behind the sent notifications may follow

    # Departures.

    def on_departure(self, task: Entry, *, final: bool) -> None:
        """Inform all peers that a task deregistered, and of its last extraction."""
        if task.relay:
            self._relays.forget_task(task)
            for peer in self._topology.peers.values():
                peer.report_departure(task.relay, final=final)
                for relay in peer.all_relays():
                    relay.on_departure(task)


class UndeliveredMessages:
    """The messages for relays that end: each is sent elsewhere, fails, or is in doubt.

    It keeps no state: the relays hold the messages until then.
    """

    __slots__ = ("_manager", "_relays", "_topology")

    def __init__(
        self, topology: Topology, manager: ProcessManager, relays: Relays
    ) -> None:
        self._topology: Final = topology
        self._manager: Final = manager
        self._relays: Final = relays
        topology.message_alarm = topology.timers.alarm(self._expire)

    def on_unrelay(self, peer: Peer, frame: Unrelay, _: float) -> None:
        """Release the relay of a task that deregistered cleanly (BUS-DEREG-4).

        If messages of the task are still to come, they need the relay for a while.
        """
        depart = peer.relays.get if frame.more else peer.depart
        relay = depart(frame.relay)
        if relay is None:
            return
        self._topology.todo += self._manager.audiences.on_disappeared(relay.entry.id)
        relay.on_extracted(frame.extracted)
        again = [*relay.take_unacked(), *relay.take_unsent()]
        self._relays.release(relay, again, final=frame.final)

    def on_refused(self, peer: Peer, frame: Error) -> None:
        """Fail a message that the process of its addressee refused (BUS-MSG-20)."""
        for relay in list(peer.relays.values()):
            refused = relay.take_refused(frame.message)
            if refused is None:
                continue
            error: BusError = UnreachableError(relay.entry.name, frame.text)
            if frame.reason is Reason.BUSY:
                limit = peer.message_bytes_max
                error = MessageTooLargeError(refused.size, limit, frame.text)
            self._topology.fail(refused.commands(), error)
            self._relays.release_drained(relay)
            return

    def lose(self, peer: Peer) -> None:
        """Fail or return the messages of a lost or restarted process (BUS-MOVE-8)."""
        for relay in list(peer.relays.values()):
            name = relay.entry.name
            doubtful = relay.take_unacked(lost=True)
            asked = list(relay.asked.values())
            self._topology.fail(doubtful, InDoubtError(name))
            self._topology.fail(asked, PeerLostError(name))
            relay.asked.clear()
            self._relays.release(relay, relay.take_unsent(), final=False)
        peer.forget()

    def fail_unreachable(self, peer: Peer) -> None:
        """Fail the unsent commands for a process that no link can reach."""
        for relay in peer.relays.values():
            unsent = relay.take_unsent("failed")
            error = UnreachableError(relay.entry.name, "no process answers")
            self._topology.fail(unsent, error)

    # Time.

    def _expire(self, now: float) -> float | None:
        """Fail the commands that expired in a relay.

        Return when the next one expires, in seconds; None for never.
        """
        times = []
        for peer in self._topology.peers.values():
            for relay in peer.active_relays():
                if relay is not peer.audience:
                    error = ExpiredError(relay.entry.name)
                    self._topology.fail(relay.expire(now), error)
                    times.append(relay.next_deadline())
        return min([at for at in times if at is not None], default=None)
