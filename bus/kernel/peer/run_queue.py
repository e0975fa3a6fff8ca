"""`RunQueue`: the message runs that wait for the link to another process.

It knows neither the link nor the flow control: its caller states how many messages and
bytes may leave it.

`AnswerBacklog` is the bound on the answers that wait for one process: windows limit
requests, but not a peer that sends requests and reads no answers.

`RelayPeer` is the interface of a peer to the relays of its tasks; `Peer` implements it.
A peer has relays, and each relay calls its peer; so `relay` need not import `peer`.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, get_args

from msgspec import Struct

from bus.kernel import constants
from bus.kernel.tasks.runs import commands_in
from bus.model.events import BusReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence

    from bus.kernel.peer.session import Session
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.tasks.runs import OutboundRun
    from bus.kernel.timers import Alarm
    from bus.model.config import BusConfig
    from bus.model.message import Incoming
    from bus.model.registration import Key

__all__ = ["ENDS", "AnswerBacklog", "End", "RelayCounters", "RelayPeer", "RunQueue"]

End: TypeAlias = Literal["taken", "dropped", "returned", "failed", "in_doubt"]

ENDS: Final[tuple[End, ...]] = get_args(End)


class RelayCounters(Struct, eq=False):
    """The counters of one relay, or the sums of those of several relays.

    At every step, ``posted == ended +`` the number of messages present in the relays.

    posted: messages of all kinds; a message posted again counts again.
    taken: messages extracted by their addressees; commands_taken: the commands among
      these.
    dropped: messages dropped in favour of newer ones, or because they were unwanted.
    returned: messages sent elsewhere. failed: messages that expired, found no room, or
      had no reachable addressee.
    in_doubt: messages that may or may not have been extracted.
    """

    posted: int = 0
    taken: int = 0
    commands_taken: int = 0
    dropped: int = 0
    returned: int = 0
    failed: int = 0
    in_doubt: int = 0

    @property
    def ended(self) -> int:
        """The number of messages that are no longer in relays."""
        return sum([getattr(self, end) for end in ENDS])

    def add(self, *others: RelayCounters) -> RelayCounters:
        """Add all counters of other relays, and return the sums."""
        for name in self.__struct_fields__:
            counts = [getattr(each, name) for each in (self, *others)]
            setattr(self, name, sum(counts))
        return self

    def end(self, how: End, count: int) -> None:
        """Count messages that are no longer in a relay."""
        setattr(self, how, getattr(self, how) + count)


class _Relay(Protocol):
    def waiting_answers(self) -> tuple[int, int]:
        """Return how many answers are queued, and their total length in bytes."""


class AnswerBacklog:
    """The answers that may wait in the relays of one process.

    An answer on the fast path never waits there, so it is not counted.

    ``_count`` and ``_size`` are upper bounds: the answers posted since the waiting ones
    were last counted, plus those that waited then, in number and bytes. The exchange's
    lock guards both.
    """

    __slots__ = ("_count", "_relays", "_size")

    def __init__(self, relays: Mapping[int, _Relay]) -> None:
        self._relays: Final = relays
        self._count = self._size = 0

    def count(self, size: int) -> bool:
        """Count an answer of `size` bytes; return False if too many wait."""
        self._count += 1
        self._size += size
        if not self._is_over():
            return True
        # Most answers have been sent by now, so the recount is rare.
        waiting = [each.waiting_answers() for each in self._relays.values()]
        self._count = sum([count for count, _ in waiting])
        self._size = sum([size for _, size in waiting])
        return not self._is_over()

    def _is_over(self) -> bool:
        return (
            self._count > constants.BACKLOG_FRAMES
            or self._size > constants.BACKLOG_BYTES
        )

    def clear(self) -> None:
        """Forget all answers, since their relays are released."""
        self._count = self._size = 0


class RelayPeer(Protocol):
    """The process behind a relay; `Peer` describes each member.

    A relay calls the methods under the exchange's lock, which guards both.
    """

    message_bytes_max: int
    flooded: bool
    active: dict[Any, None]

    @property
    def key(self) -> Key:
        """Its machine and its name."""

    @property
    def session(self) -> Session:
        """The traffic to and from it."""

    @property
    def message_alarm(self) -> Alarm:
        """The alarm that is set for each deadline of a message in a relay."""

    @property
    def notifications(self) -> RelayCounters:
        """Counters of notifications only."""

    @property
    def relays(self) -> MutableMapping[int, Any]:
        """The relays of its tasks here, by the numbers it assigned."""

    @property
    def answers(self) -> AnswerBacklog:
        """The bound on the answers queued for it."""

    @property
    def notifying(self) -> bool:
        """True if a notification waits for the link; it may delay other messages."""

    def remove_relay(self, number: int) -> object:
        """Remove the relay of one of its tasks, if there is one, and return it."""

    def announce(self, task: Entry, relay: int) -> None:
        """Introduce a task to the peer, unless the peer knows it."""

    def number_of_departed(self, task: Entry, new: Callable[[], int]) -> int:
        """Return the relay number of a deregistered task with messages for the peer."""

    def is_leaving(self, relay: int) -> bool:
        """Return True if messages of a deregistered task still wait for the link."""

    def report_departure(self, relay: int, *, final: bool) -> None:
        """Report a local task's deregistration and last extraction (BUS-DEREG-4)."""

    def notified(self, relay: int) -> int:
        """Return how many notifications of a local task wait for the link."""

    def holds_back(self, relay: object, outbound_run: OutboundRun) -> bool:
        """Return True if an earlier message of the same sender waits elsewhere."""

    def count_queued(self, outbound_run: OutboundRun, count: int = 1) -> None:
        """Count messages like `outbound_run` that now wait for the link."""

    def uncount_queued(self, outbound_run: OutboundRun, count: int = 1) -> None:
        """Uncount messages that no longer wait."""

    def count_dropped(self, oldest: OutboundRun) -> None:
        """Count dropped notifications, their task's oldest ones (BUS-FLOW-3)."""

    def send_gap(self, notification: OutboundRun) -> None:
        """Send a GAP before a task's next notification if any was dropped before it."""


class RunQueue:
    """A queue of message runs for one task, or for the audience, of a process.

    The exchange's lock guards it.

    peer: the process that hosts the task.
    counters: counters of the outcomes of the messages posted here. After the removal of
      a relay, those of all removed relays of its process.
    queue: message runs not yet sent on a link; queued: the number of messages in them;
      queued_bytes: the total length of their bodies.

    Invariant: each message in ``queue`` is counted in ``queued`` and by the peer. A run
    that is being sent is counted until it is under way.
    """

    __slots__ = (
        "_expire_at",
        "config",
        "counters",
        "peer",
        "queue",
        "queued",
        "queued_bytes",
    )

    def __init__(
        self, peer: RelayPeer, counters: RelayCounters, *, config: BusConfig
    ) -> None:
        self.peer: Final = peer
        self.counters: RelayCounters = counters
        self.config: Final = config
        self.queue: deque[OutboundRun] = deque()
        self.queued: int = 0
        self.queued_bytes: int = 0
        # No queued message expires before this time, in seconds. The message that would
        # may have been sent since: `_take_expired` then finds the next one.
        self._expire_at: float = math.inf

    def append(self, outbound_runs: Sequence[OutboundRun]) -> None:
        """Append runs of one task and of one kind to the queue."""
        self._note_deadlines(outbound_runs)
        self.peer.active[self] = None
        self.queue += outbound_runs
        count = sum([len(outbound_run.bodies) for outbound_run in outbound_runs])
        self.counters.posted += count
        self.queued += count
        self.queued_bytes += sum([outbound_run.size for outbound_run in outbound_runs])
        self.peer.count_queued(outbound_runs[0], count)

    def _prepend(self, first: Sequence[OutboundRun]) -> None:
        """Put runs of several tasks in front of the queue."""
        self._note_deadlines(first)
        self.peer.active[self] = None
        self.queue.extendleft(reversed(first))
        for outbound_run in first:
            self.counters.posted += len(outbound_run.bodies)
            self.queued += len(outbound_run.bodies)
            self.queued_bytes += outbound_run.size
            self.peer.count_queued(outbound_run, len(outbound_run.bodies))

    def _note_deadlines(self, outbound_runs: Iterable[OutboundRun]) -> None:
        at = self._expire_at if self.queue else math.inf
        for each in outbound_runs:
            if each.deadline is not None and each.deadline < at:
                at = each.deadline
        self.peer.message_alarm.by(at)
        self._expire_at = at

    def _take_run(self, room: int, bytes_left: int) -> list[OutboundRun]:
        """Remove and return the leading runs of one sender that fit.

        room: the number of messages that may be sent now. bytes_left: how many bytes
          may be sent; the last message may exceed them, unless none are left.
        """
        queue = self.queue
        number = queue[0].relay
        if (
            self.queued <= room
            and self.queued_bytes <= bytes_left
            and all(each.relay == number for each in queue)
        ):
            # The usual case: everything fits, and there is only one sender.
            run = list(queue)
            queue.clear()
            return run
        run = []
        while room > 0 and queue and queue[0].relay == number:
            if bytes_left <= 0 and run:
                break
            outbound_run = self._take_fitting(0, room, bytes_left)
            run.append(outbound_run)
            room -= len(outbound_run.bodies)
            bytes_left -= outbound_run.size
        return run

    def _take_fitting(
        self, at: int, room: int, bytes_left: float = math.inf
    ) -> OutboundRun:
        """Remove and return a run, or as many of its messages as may be sent now."""
        outbound_run = self.queue[at]
        fits = room
        if outbound_run.size > bytes_left:
            fits = 0
            for body in outbound_run.bodies[:room]:
                if bytes_left <= 0 and fits:
                    break
                bytes_left -= len(body)
                fits += 1
        if fits < len(outbound_run.bodies):
            self.queue[at] = outbound_run.part(fits)
            return outbound_run.part(0, fits)
        del self.queue[at]
        return outbound_run

    def drop_excess(self) -> None:
        """Drop the oldest notifications beyond the bounds (BUS-FLOW-3).

        A single one may have any length.
        """
        while self.queued > 1:
            many = self.queued - self.config.task_fifo_messages
            long = self.queued_bytes - self.config.task_fifo_bytes
            if many <= 0 and long <= 0:
                return
            self._drop_oldest(many, long, self.queued - 1)

    def _drop_oldest(self, messages: int, size: int, most: int) -> None:
        """Drop that many messages and bytes of the oldest run, as far as it has them.

        In one step: many single ones would each copy the rest of a long run.

        most: the maximum number of messages to drop.
        """
        count = 0
        for body in self.queue[0].bodies[:most]:
            if count >= messages and size <= 0:
                break
            count += 1
            size -= len(body)
        self._drop(self._take_fitting(0, count), BusReason.OLDEST)

    def _drop(self, notifications: OutboundRun, reason: BusReason) -> None:
        """Record the drop of dequeued notifications, the oldest of their sender."""
        self.peer.count_dropped(notifications)
        self.counters.end("dropped", len(notifications.bodies))
        self._uncount(notifications)
        if notifications.trace is not None:
            notifications.trace.record_discarded(reason)

    def take_oversized(self) -> list[tuple[Incoming, int]]:
        """Remove the commands too long for the peer; return each with its length."""
        found: list[tuple[Incoming, int]] = []
        queue = list(self.queue)
        self.queue.clear()
        for outbound_run in queue:
            if not outbound_run.is_command:
                self.queue.append(outbound_run)
                continue
            fit, long = outbound_run.split_by_length(self.peer.message_bytes_max)
            if fit is not None:
                self.queue.append(fit)
            if long is not None:
                self._uncount(long)
                lengths = map(len, long.bodies)
                found += zip(long.commands(), lengths, strict=True)
        self.counters.end("failed", len(found))
        return found

    def drop_oldest_command(self) -> list[Incoming]:
        """Remove and return the oldest queued command, if there is one."""
        for at, outbound_run in enumerate(self.queue):
            if outbound_run.is_command:
                oldest = outbound_run.part(0, 1)
                if oldest is outbound_run:
                    del self.queue[at]
                else:
                    self.queue[at] = outbound_run.part(1)
                self._uncount(oldest)
                commands = oldest.commands()
                self.counters.end("failed", len(commands))
                return commands
        return []

    def forbid(self, is_forbidden: Callable[[OutboundRun], bool]) -> None:
        """Drop the queued messages that the peer must not receive (BUS-SEC-1)."""
        for outbound_run in self._remove(is_forbidden):
            self.counters.end("dropped", len(outbound_run.bodies))
            if outbound_run.trace is not None:
                outbound_run.trace.record_discarded(BusReason.DENIED)

    def waiting_answers(self) -> tuple[int, int]:
        """Return how many answers are queued, and their total length in bytes."""
        waiting = [each for each in self.queue if not each.is_command]
        return len(waiting), sum([each.size for each in waiting])

    def _take_expired(self, now: float) -> list[Incoming]:
        """Remove and return the expired commands."""
        if now < self._expire_at or not self.queue:
            return []
        late = self._remove(
            lambda each: each.deadline is not None and each.deadline <= now
        )
        self._expire_at = math.inf
        self._note_deadlines(self.queue)
        commands = commands_in(late)
        self.counters.end("failed", len(commands))
        return commands

    def _take(self, *, commands_only: bool) -> list[OutboundRun]:
        return self._remove(lambda each: not commands_only or each.is_command)

    def _remove(self, is_over: Callable[[OutboundRun], bool]) -> list[OutboundRun]:
        """Remove and return the runs for which a pure function returns True."""
        removed = [each for each in self.queue if is_over(each)]
        if removed:
            self.queue = deque(each for each in self.queue if not is_over(each))
        for each in removed:
            self._uncount(each)
        return removed

    def _uncount(self, outbound_run: OutboundRun) -> None:
        self.queued -= len(outbound_run.bodies)
        self.queued_bytes -= outbound_run.size
        self.peer.uncount_queued(outbound_run, len(outbound_run.bodies))
