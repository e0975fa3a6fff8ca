"""`DropLedger`: the messages that a node has dropped, counted and reported."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import attrs

from bus.pattern.drop_reason import DropReason
from bus.pattern.pipe import Pipe
from queuebroker import _sync

__all__ = ["Drop", "DropLedger"]

_log: Final = logging.getLogger("bus.pattern")


@attrs.frozen
class Drop:
    """Messages that were dropped; see `on_drop` of the sockets.

    pipe: the id of the connection; 0 if there was none.
    reason: why.
    count: how many.
    """

    pipe: int
    reason: DropReason
    count: int


class DropLedger:
    """The drops of one node.

    Args:
        lock: the lock of the node.
        on_drop: called after messages were dropped, in any thread, without the lock. A
          call may send: the drops that it causes are reported after its return.

    Attributes:
        totals: the messages dropped so far, by reason.
    """

    __slots__ = ("_lock", "_on_drop", "_reporters", "_unreported", "totals")

    def __init__(
        self,
        lock: AbstractContextManager[bool, None],
        on_drop: Callable[[Drop], object] | None,
    ) -> None:
        self._lock: Final = lock
        self._on_drop: Final = on_drop
        self.totals: Final[defaultdict[DropReason, int]] = defaultdict(int)
        # By the id of the pipe and the reason: the drops that `on_drop` has not seen.
        unreported: defaultdict[tuple[int, DropReason], int] = defaultdict(int)
        self._unreported: Final = unreported
        # The threads that call `on_drop` now. Each adds and removes only itself.
        self._reporters: Final[set[int]] = set()

    def add_locked(self, pipe: Pipe | None, reason: DropReason, count: int = 1) -> None:
        """Count dropped messages."""
        # No Python code runs within a count, and so no signal handler that drops.
        self.totals[reason] += count
        if pipe is not None:
            pipe.dropped[reason] += count
            pipe.report_soon_locked()
        if self._on_drop is not None:
            self._unreported[0 if pipe is None else pipe.id, reason] += count

    def report(self) -> None:
        """Call ``on_drop`` for the drops since the last call; without the lock."""
        on_drop = self._on_drop
        if on_drop is None or not self._unreported:
            return
        thread = _sync.get_ident()
        # A call within `on_drop` leaves its drops to this loop: a callback that sends
        # without a peer would else call itself. Each check follows a removal, so the
        # loop also reports a drop that a signal handler causes just before it.
        while self._unreported and thread not in self._reporters:
            try:
                self._reporters.add(thread)
                self._report_oldest(on_drop)
            finally:
                self._reporters.discard(thread)

    def _report_oldest(self, on_drop: Callable[[Drop], object]) -> None:
        with self._lock:
            if not self._unreported:
                return  # another thread reports it
            pipe, reason = oldest = next(iter(self._unreported))
            count = self._unreported.pop(oldest)
        try:
            on_drop(Drop(pipe, reason, count))
        except Exception:  # noqa: BLE001 # of the application
            _log.exception("on_drop of a socket has raised an error")
