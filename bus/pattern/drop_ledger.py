"""`DropLedger`: the messages that a node has dropped, counted and reported."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from bus.pattern.drop_reason import DropReason
    from bus.pattern.pipe import Pipe

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
        on_drop: called after messages were dropped, in any thread, without the lock.

    Attributes:
        totals: the messages dropped so far, by reason.
    """

    __slots__ = ("_lock", "_on_drop", "_unreported", "totals")

    def __init__(
        self,
        lock: AbstractContextManager[bool, None],
        on_drop: Callable[[Drop], object] | None,
    ) -> None:
        self._lock: Final = lock
        self._on_drop: Final = on_drop
        self.totals: Final[Counter[DropReason]] = Counter()
        # By the id of the pipe and the reason: the drops that `on_drop` has not seen.
        self._unreported: Final[Counter[tuple[int, DropReason]]] = Counter()

    def add_locked(self, pipe: Pipe | None, reason: DropReason, count: int = 1) -> None:
        """Count dropped messages."""
        self.totals[reason] += count
        if pipe is not None:
            pipe.dropped[reason] += count
            pipe.report_soon_locked()
        if self._on_drop is not None:
            self._unreported[0 if pipe is None else pipe.id, reason] += count

    def report(self) -> None:
        """Call ``on_drop`` for the drops since the last call; without the lock."""
        if self._on_drop is None or not self._unreported:
            return
        with self._lock:
            unreported = [*self._unreported.items()]
            self._unreported.clear()
        for (pipe, reason), count in unreported:
            try:
                self._on_drop(Drop(pipe, reason, count))
            except Exception:  # noqa: BLE001 # of the application
                _log.exception("on_drop of a socket has raised an error")
