"""`Relay`: represents, in one process, a task of another process (BUS-RELAY-1).

Messages posted to a relay wait in its queue until they may be sent on the link. The
relay keeps each message until the task has extracted it from its FIFO. So the state of
every message is always known: queued, under way, or extracted (BUS-RELAY-9).
"""

from __future__ import annotations

import enum
import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from bus.kernel.peer.run_queue import RelayCounters, RunQueue
from bus.kernel.tasks.runs import commands_in
from bus.kernel.timers import Deadlines
from bus.model.events import BusReason
from bus.model.message import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bus.kernel.peer.run_queue import End, RelayPeer
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.tasks.runs import OutboundRun
    from bus.kernel.trace import Trace
    from bus.kernel.wire import Characteristics
    from bus.model.config import BusConfig
    from bus.model.message import Incoming

__all__ = ["AUDIENCE", "Dismissal", "Relay", "RelayState"]

AUDIENCE: Final = 0  # the relay number for all subscribers in one process
# A constant: on 3.11 the look-up of an enum member goes through its `__getattr__`.
_COMMAND: Final = Kind.COMMAND


class RelayState(enum.Enum):
    """The treatment of a relay by lookups by name."""

    UNNAMED = "unnamed"  # takes only answers (BUS-RELAY-5)
    NAMED = "named"  # found by its name
    SUPERSEDED = "superseded"  # replaced; the new holder must not overtake it


class Dismissal(enum.Enum):
    """Progress of the request to release a relay (BUS-DEREG-13)."""

    NONE = "none"
    ASKED = "asked"  # DISMISS was sent; no reply yet
    REVOKED = "revoked"  # asked, but the peer has relied on the relay since


class Relay(RunQueue):
    """Messages of this process for one task of another process, in order.

    It is the queue of the messages that wait for the link, and keeps those under way.

    characteristics: of the task; None for the `AUDIENCE` of a process.
    entry: the routing table entry that leads to the relay.
    provisional: True if only third parties have reported the task: its own process has
      not yet introduced it on the link between the two.
    since: creation time, in seconds.
    opened: True once the messages sent to the name before all those posted here are at
      the front of the queue.
    client: the account of the task for local senders; set by the driver.
    unacked: runs sent and not yet extracted, each with the number of its first message;
      under_way: the number of messages in them; unacked_bytes: the total length of
      their bodies.
    asked: extracted commands that have no answer yet, by the asking task and the number
      of the request. Requests of deregistered tasks are removed.
    withdrawn: commands removed from the queue, for the present holder of the name.
    users: registered tasks of this process that have sent to the task or received from
      it. A notification counts only if it wants an answer.
    dismissal: the state of the request to release this relay.
    gap: notifications of the task that its process dropped and that no notification
      received here has reported yet (BUS-FLOW-3).

    Invariants:
    I1. numbers in ``unacked`` rise. It holds no more messages and bytes than the window
        allows, except that the last message may exceed the bytes.
    I2. commands are queued or withdrawn only while the state is not `UNNAMED`.
    I3. ``counters.posted == counters.ended + present`` (BUS-FLOW-7).
    I4. each key of ``_unanswered`` belongs to a message in ``unacked``. So no answer,
        however late or malformed, makes it grow (BUS-ENT-17).
    """

    __slots__ = (
        "_asked_until",
        "_unanswered",
        "asked",
        "characteristics",
        "client",
        "dismissal",
        "entry",
        "gap",
        "number",
        "opened",
        "provisional",
        "since",
        "state",
        "unacked",
        "unacked_bytes",
        "under_way",
        "users",
        "withdrawn",
    )

    def __init__(
        self,
        peer: RelayPeer,
        characteristics: Characteristics | None,
        now: float,
        *,
        config: BusConfig,
    ) -> None:
        counters = peer.notifications if characteristics is None else RelayCounters()
        super().__init__(peer, counters, config=config)
        self.characteristics: Final = characteristics
        self.number: Final = (
            AUDIENCE if characteristics is None else characteristics.relay
        )
        self.entry: Any = None
        self.client: Any = None
        self.state: RelayState = RelayState.UNNAMED
        self.provisional: bool = False
        self.since: Final = now
        self.opened: bool = True
        self.unacked: deque[tuple[int, OutboundRun]] = deque()
        self.under_way: int = 0
        self.unacked_bytes: int = 0
        self.asked: dict[tuple[Entry, int], Incoming] = {}
        self._asked_until: Final[Deadlines[tuple[Entry, int]]] = Deadlines(
            self._deadline_of
        )
        self.withdrawn: list[Incoming] = []
        self.users: set[Entry] = set()
        self.dismissal: Dismissal = Dismissal.NONE
        self.gap: int = 0
        # Requests under way that have no answer yet, with the keys of `asked`.
        self._unanswered: dict[tuple[Entry, int], Incoming] = {}

    @property
    def busy(self) -> bool:
        """True if any message is queued, under way, withdrawn, or awaits an answer."""
        return bool(self.queue or self.unacked or self.asked or self.withdrawn)

    def open(self, first: list[OutboundRun]) -> None:
        """Put earlier messages in front of the queue, and open the relay."""
        self._prepend(first)
        self.opened = True

    def pump(self) -> None:
        """Send as much of the queue as the window and the stream allow (BUS-RELAY-11).

        A message waits until everything that its sender posted earlier in another queue
        for the same process is sent (BUS-MSG-15). Other senders do not wait for it.
        """
        if not self.opened:
            return
        if self.number != AUDIENCE and not self.peer.notifying:
            while self.queue:
                bytes_left = self.config.window_bytes - self.unacked_bytes
                run = self._take_run(self.room, bytes_left)
                if not run:
                    break
                self._send(run)
            return
        held, behind, at = set[int](), 0, 0
        while at < len(self.queue) and (room := self.room) > 0:
            outbound_run = self.queue[at]
            if outbound_run.relay in held or self.peer.holds_back(self, outbound_run):
                if self.number == AUDIENCE and outbound_run.relay not in held:
                    behind += self.peer.notified(outbound_run.relay)
                    if behind == self.queued:
                        return  # no other sender has a notification here
                held.add(outbound_run.relay)
                at += 1
                continue
            if self.number == AUDIENCE:
                fit = outbound_run.count_up_to(self.peer.message_bytes_max)
                if not fit:
                    # Drop it only when its turn comes: the drop must be reported by the
                    # sender's next notification, not by an earlier one (OPEN-6).
                    self._drop(self._take_fitting(at, 1), BusReason.TOO_LONG)
                    continue
                room = min(room, fit)
            bytes_left = self.config.window_bytes - self.unacked_bytes
            self._send([self._take_fitting(at, room, bytes_left)])

    @property
    def room(self) -> int:
        """The number of messages to send now; an empty window takes any length."""
        room = self.peer.session.room
        if not self.unacked:
            return min(room, self.config.window)
        if self.unacked_bytes >= self.config.window_bytes:
            return 0
        return min(room, self.config.window - self.under_way)

    def _send(self, run: list[OutboundRun]) -> None:
        """Send runs of one sender that were removed from the queue."""
        peer, first = self.peer, run[0]
        peer.announce(first.source, first.relay)
        if first.kind is Kind.NOTIFICATION:
            peer.send_gap(first)
        stays = not peer.is_leaving(first.relay)
        if stays:
            self.users.add(first.source)
        for outbound_run in run:
            if outbound_run.trace is not None:
                outbound_run.trace.record_sent()
            message = outbound_run.message
            if message is not None and message.wants_reply and stays:
                self._unanswered[outbound_run.source, outbound_run.id] = message
        self.unacked += zip(peer.session.send(self.number, run), run, strict=True)
        count = sum([len(outbound_run.bodies) for outbound_run in run])
        size = sum([outbound_run.size for outbound_run in run])
        self.under_way += count
        self.unacked_bytes += size
        self.queued -= count
        self.queued_bytes -= size
        peer.uncount_queued(first, count)

    def send_at_once(self, outbound_run: OutboundRun) -> None:
        """Record that one message, which was never queued, is under way.

        The queue must be empty, and the window must have room for the message.
        """
        peer, message = self.peer, outbound_run.message
        outgoing = peer.session.outgoing
        number = outgoing.next
        after = number + 1
        kept = ((number, after, (number, self.number, outbound_run)),)
        unacked = ((number, outbound_run),)
        counters = self.counters
        # No calls below: an interrupt finds either all of these changes or none.
        peer.active[self] = None
        outgoing.kept += kept
        outgoing.next = after
        self.unacked += unacked
        self.under_way += 1
        self.unacked_bytes += outbound_run.size
        if message is not None and message.wants_reply:
            self._unanswered[outbound_run.source, outbound_run.id] = message
        counters.posted += 1

    def withdraw(self) -> None:
        """Withdraw the commands that are not yet under way, in order."""
        removed = [each for each in self.queue if each.is_command]
        commands = commands_in(removed)
        others = deque(each for each in self.queue if not each.is_command)
        # No call between these lines: an interrupt finds both changes or none.
        self.withdrawn += commands
        self.queue = others
        for each in removed:
            self._uncount(each)

    def revoke_dismissal(self) -> None:
        """Revoke a request for the release: the peer relies on this relay again."""
        if self.dismissal is Dismissal.ASKED:
            self.dismissal = Dismissal.REVOKED

    def on_departure(self, task: Entry) -> None:
        """Record that a task of this process has deregistered and awaits no answer."""
        self.users.discard(task)
        for requests in (self.asked, self._unanswered):
            for key in [each for each in requests if each[0] is task]:
                del requests[key]

    @property
    def in_transit(self) -> int:
        """The number of messages queued, withdrawn, or under way."""
        return self.queued + self.under_way + len(self.withdrawn)

    def on_extracted(self, number: int) -> None:
        """Record that the task has extracted all messages up to a number."""
        taken = commands = 0
        while self.unacked and self.unacked[0][0] <= number:
            first, outbound_run = self.unacked.popleft()
            if first + len(outbound_run.bodies) > number + 1:
                rest = outbound_run.part(number + 1 - first)
                self.unacked.appendleft((number + 1, rest))
                outbound_run = outbound_run.part(0, number + 1 - first)
            self.under_way -= len(outbound_run.bodies)
            self.unacked_bytes -= outbound_run.size
            taken += len(outbound_run.bodies)
            if not outbound_run.is_command:
                continue
            commands += len(outbound_run.bodies)
            message = outbound_run.message
            if message is not None and message.wants_reply:
                key = (outbound_run.source, outbound_run.id)
                if key in self._unanswered:
                    if message._deadline is not None:
                        self.peer.message_alarm.by(message._deadline)
                        self._asked_until.add((key, message._deadline))
                    del self._unanswered[key]
                    self.asked[key] = message
        self.counters.taken += taken
        self.counters.commands_taken += commands

    def on_all_extracted(self) -> None:
        """Record that the task has extracted all messages that are under way."""
        asked, commands, taken = self._unanswered, 0, self.under_way
        if asked:
            until = [(key, message._deadline) for key, message in asked.items()]
            for _, at in until:
                self.peer.message_alarm.by(at)
            self._asked_until.add(*((key, at) for key, at in until if at is not None))
        for _, outbound_run in self.unacked:
            if outbound_run.kind is _COMMAND:
                commands += len(outbound_run.bodies)
        rest: deque[tuple[int, OutboundRun]] = deque()
        counters = self.counters
        # No calls below: an interrupt finds either all of these changes or none.
        self.unacked = rest
        self.under_way = self.unacked_bytes = 0
        counters.taken += taken
        counters.commands_taken += commands
        if asked:
            self.asked |= asked
            self._unanswered = {}

    def is_unanswered(self, asker: Entry, number: int) -> bool:
        """Return True if a request to the task is still unanswered."""
        key = (asker, number)
        return key in self.asked or key in self._unanswered

    def on_answer(self, asker: Entry, number: int) -> None:
        """Record that the task has answered a request.

        The answer usually comes before the acknowledgement that the task extracted
        the request. It may also come after the asking task has stopped waiting.
        """
        key = (asker, number)
        if self._unanswered.pop(key, None) is None:
            self.asked.pop(key, None)

    def take_unsent(self, how: End = "returned") -> list[Incoming]:
        """Remove and return the commands not under way, in order; drop the rest.

        how: the counter to which the commands are added.
        """
        withdrawn, self.withdrawn = self.withdrawn, []
        outbound_runs = self._take(commands_only=False)
        commands = withdrawn + commands_in(outbound_runs)
        self.counters.end(how, len(commands))
        self.counters.end("dropped", _count_dropped(outbound_runs))
        for trace in _dropped(outbound_runs):
            trace.record_discarded(BusReason.UNWANTED)
        return commands

    def take_unacked(self, *, lost: bool = False) -> list[Incoming]:
        """Remove and return the commands under way, in order, to be sent elsewhere.

        All other messages are dropped. lost: True if it is unknown which of the
        messages were extracted; then all are counted as in doubt.
        """
        outbound_runs = [outbound_run for _, outbound_run in self.unacked]
        if lost:
            self.counters.end("in_doubt", self.under_way)
        else:
            dropped = _count_dropped(outbound_runs)
            self.counters.end("dropped", dropped)
            self.counters.end("returned", self.under_way - dropped)
        self.unacked.clear()
        self.under_way = self.unacked_bytes = 0
        self._unanswered.clear()
        for trace in _dropped(outbound_runs):
            if lost:
                trace.record_lost(BusReason.PROCESS_LOST)
            else:
                trace.record_discarded(BusReason.UNWANTED)
        return commands_in(outbound_runs)

    def take_refused(self, number: int) -> OutboundRun | None:
        """Remove and return the message under way with a number; None if none has it.

        The addressee's process has refused it (BUS-MSG-20).
        """
        for at, (first, outbound_run) in enumerate(self.unacked):
            index = number - first
            if not 0 <= index < len(outbound_run.bodies):
                continue
            refused = outbound_run.part(index, index + 1)
            rest = []
            if index:
                rest.append((first, outbound_run.part(0, index)))
            if index + 1 < len(outbound_run.bodies):
                rest.append((number + 1, outbound_run.part(index + 1)))
            del self.unacked[at]
            for each in reversed(rest):
                self.unacked.insert(at, each)
            self.under_way -= 1
            self.unacked_bytes -= refused.size
            self._unanswered.pop((refused.source, refused.id), None)
            self.counters.end("failed", 1)
            return refused
        return None

    def abandon(self) -> None:
        """Count and trace the remaining messages as undelivered; end the relay."""
        self.counters.end("dropped", self.queued)
        self.counters.end("in_doubt", self.under_way)
        for trace in _dropped(self.queue):
            trace.record_discarded(BusReason.PROCESS_LOST)
        for trace in _dropped(outbound_run for _, outbound_run in self.unacked):
            trace.record_lost(BusReason.PROCESS_LOST)

    def expire(self, now: float) -> list[Incoming]:
        """Remove and return the expired commands; forget the expired requests."""
        for key in self._asked_until.due(now):
            del self.asked[key]
        return self._take_expired(now)

    def next_deadline(self) -> float | None:
        """Return when `expire` may have work to do, in seconds; None for never."""
        waiting = self._expire_at if self.queue else math.inf
        asked = self._asked_until.next()
        at = waiting if asked is None else min(waiting, asked)
        return None if at == math.inf else at

    def _deadline_of(self, key: tuple[Entry, int]) -> float | None:
        message = self.asked.get(key)
        return None if message is None else message._deadline


def _count_dropped(outbound_runs: Iterable[OutboundRun]) -> int:
    """Return how many messages are not commands."""
    return sum([len(each.bodies) for each in outbound_runs if not each.is_command])


def _dropped(outbound_runs: Iterable[OutboundRun]) -> Iterator[Trace]:
    """Yield the traces of the messages that are not commands."""
    for each in outbound_runs:
        if each.trace is not None and not each.is_command:
            yield each.trace
