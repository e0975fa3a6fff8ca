"""`PeerPipes`: the connections of a node, and those of them that carry messages."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from bus.pattern.drop_reason import DropReason
from queuebroker.errors import MessageTooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.pattern.drop_ledger import DropLedger
    from bus.pattern.message_run import MessageRun
    from bus.pattern.pipe import Pipe
    from queuebroker.sockets.quick_sends import FlushSoon

__all__ = ["PeerPipes"]


class PeerPipes:
    """The pipes of one node; under the node's lock, but for the attributes.

    Of several pipes to the same node, the first carries all messages (BP-16). The
    others are on standby.

    Args:
        pipes_max: the number of pipes at a time; None for any.
        ledger: counts the messages that are dropped here.

    Attributes:
        active: the pipes that carry messages.
        flush_soon: has another thread call a function soon; None unless many messages
          at once are faster on all of these (`Carrier.flush_soon`).
    """

    __slots__ = ("_all", "_ledger", "_pipes_max", "active", "flush_soon")

    def __init__(self, pipes_max: int | None, ledger: DropLedger) -> None:
        self.active: tuple[Pipe, ...] = ()
        self.flush_soon: FlushSoon | None = None
        self._all: Final[dict[int, Pipe]] = {}
        self._pipes_max: Final = pipes_max
        self._ledger: Final = ledger

    def __iter__(self) -> Iterator[Pipe]:
        return iter([*self._all.values()])

    @property
    def is_full(self) -> bool:
        """True if there must be no further pipe."""
        return self._pipes_max is not None and len(self._all) >= self._pipes_max

    def add(self, pipe: Pipe) -> None:
        """Add a pipe."""
        self._all[pipe.id] = pipe
        self._arrange()

    def remove(self, pipe: Pipe, reason: DropReason) -> bool:
        """Remove a pipe, and drop its unsent messages; return False if it is not here.

        A second call drops those that a write had in hand at the first one.

        reason: why these messages are dropped.
        """
        if discarded := pipe.carrier.queue.discard():
            self._ledger.add_locked(pipe, reason, discarded)
        if pipe.id not in self._all:
            return False
        self._arrange(without=pipe)
        del self._all[pipe.id]  # last, so that an interrupted call can be repeated
        return True

    def clear(self) -> None:
        """Forget all pipes."""
        self._all.clear()
        self._arrange()

    def _arrange(self, without: Pipe | None = None) -> None:
        """Choose the pipes that carry messages."""
        active: dict[int, Pipe] = {}
        for pipe in [each for each in self._all.values() if each is not without]:
            first = active.setdefault(pipe.id if pipe.node is None else pipe.node, pipe)
            pipe.is_standby = first is not pipe
        self.active = tuple(active.values())
        flushers = [pipe.carrier.flush_soon for pipe in self.active]
        self.flush_soon = flushers[0] if flushers and None not in flushers else None

    def put(self, run: MessageRun, came_by: int = 0) -> None:
        """Queue messages for all peers but the one that they came by (BP-8).

        A native peer gets none that began there, nor any by a second path from there.
        """
        count = len(run.bodies)
        if not self.active:
            self._ledger.add_locked(None, DropReason.NO_PEER, count)
            return
        came_from = self._all[came_by].node if came_by in self._all else None
        for pipe in self.active:
            if pipe.id == came_by or (
                pipe.node is not None and pipe.node in (run.origin, came_from)
            ):
                continue
            pipe.sent += count
            self._queue(pipe, run)

    def _queue(self, pipe: Pipe, run: MessageRun) -> None:
        count = len(run.bodies)
        try:
            queued = pipe.carrier.put(run)
        except MessageTooLargeError:
            # A message of 4 GiB, which a device may forward from a peer of another
            # library, has no native frame.
            self._ledger.add_locked(pipe, DropReason.TOO_LONG, count)
            return
        if queued < count:
            self._ledger.add_locked(pipe, DropReason.SEND_QUEUE, count - queued)

    def progress(self) -> list[tuple[Pipe, int, int]]:
        """Return for `complete` how many messages each pipe has been given so far."""
        return [(pipe, pipe.sent, pipe.queued_or_dropped) for pipe in self.active]

    def complete(
        self, run: MessageRun, before: list[tuple[Pipe, int, int]], others: int
    ) -> None:
        """Queue the rest of messages for all peers, after an interrupted `put`.

        before: the `progress` before it.
        others: the number of messages put meanwhile, by a signal handler.
        """
        for pipe, sent, processed in before:
            pipe.sent = sent + len(run.bodies) + others
            # The handler may have been interrupted, too.
            done = max(0, pipe.queued_or_dropped - processed - others)
            if done < len(run.bodies):
                self._queue(pipe, run.part(done))

    def has_room(self, size: int) -> bool:
        """Return True if a peer would get a message of ``size`` bytes."""
        return any(pipe.carrier.queue.has_room(size) for pipe in self.active)

    @property
    def are_idle(self) -> bool:
        """True if no message to a peer waits, or is on its way to a native one."""
        return all(pipe.carrier.is_idle for pipe in self.active)

    def flush(self) -> None:
        """Pass on queued messages without waiting; without the lock."""
        pipes = self.active
        try:
            for pipe in pipes:
                pipe.carrier.queue.flush()
        except BaseException:
            # A callback of a peer in this process may have raised `SystemExit`. That
            # costs no other peer a message (BP-4).
            with ExitStack() as rest:
                for pipe in pipes:
                    rest.callback(pipe.carrier.queue.flush)
            raise
