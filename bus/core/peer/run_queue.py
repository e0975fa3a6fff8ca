"""`RunQueue`: the message runs that wait for the link to another process.

It knows neither the link nor the flow control: its caller states how many messages and
bytes may leave it.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

from bus.core.peer.outbound_run import commands_in
from bus.events import BusReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bus.config import BusConfig
    from bus.core.peer.outbound_run import OutboundRun
    from bus.core.peer.relay_counters import RelayCounters
    from bus.core.peer.relay_peer import RelayPeer
    from bus.message import Incoming

__all__ = ["RunQueue"]


class RunQueue:
    """A queue of message runs for one task, or for the audience, of a process.

    The exchange's lock guards it.

    peer: the process that hosts the task.
    counters: counters of the outcomes of the messages posted here.
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
        self.counters: Final = counters
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
        self.counters.post(count)
        self.queued += count
        self.queued_bytes += sum([outbound_run.size for outbound_run in outbound_runs])
        self.peer.count_queued(outbound_runs[0], count)

    def _prepend(self, first: Sequence[OutboundRun]) -> None:
        """Put runs of several tasks in front of the queue."""
        self._note_deadlines(first)
        self.peer.active[self] = None
        self.queue.extendleft(reversed(first))
        for outbound_run in first:
            self.counters.post(len(outbound_run.bodies))
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
