"""`MonitorLeases`: the frame monitor's listeners, and their leases (OPEN-12).

A task listens by a command ``{"frames": [...]}`` to the inspector of the process, with
the names of frame types, or none for all. The answer holds the frames noted since its
last such command, and the number of frames left out. ``{"frames": None}`` ends the
lease. It also ends after `LEASE_S` seconds without a command, since a listener may be
killed.

Any process that may join the bus may ask, as for everything that an inspector reports.
The contents of messages are never reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from bus.core.remote.frame_monitor import LEASE_S, LISTENERS_MAX, FrameMonitor
from bus.core.wire import FrameType
from bus.message import NOREPLY
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.message import Incoming
    from bus.threads.exchange import Exchange
    from bus.threads.thread_manager import ThreadManager

__all__ = ["MonitorLeases"]

_TYPES: Final = frozenset(FrameType.__members__)


class MonitorLeases:
    """The frame monitor of a process; it is on the links while any task listens.

    Args:
        exchange: the exchange of the process.
        manager: the manager of the thread in which all methods run.
    """

    __slots__ = ("_exchange", "_manager", "_monitor", "_reviewing")

    def __init__(self, exchange: Exchange, manager: ThreadManager) -> None:
        self._exchange: Final = exchange
        self._manager: Final = manager
        self._monitor: FrameMonitor | None = None  # made for the first listener
        # True while a review of the leases is scheduled.
        self._reviewing: bool = False

    def answer(self, message: Incoming, types: object, *, closed: bool) -> Any:
        """Return the answer to a command: the frames noted since the last one.

        closed: as `Inspector.closed`.
        """
        if types is None:
            if self._monitor is not None:
                self._monitor.leave(message._source.id)
                self._update_monitor()
            return {}
        if not _is_legal(types):
            message.respond(error="frames must be None or a list of frame types")
            return NOREPLY
        if closed:
            return {"frames": (), "left_out": 0}
        if self._monitor is None:
            comm = self._exchange.comm
            assert comm is not None
            self._monitor = FrameMonitor(comm.remote, _sync.wall_ns)
        heard = self._monitor.take_frames(message._source.id, types, _sync.monotonic())
        if heard is None:
            message.respond(error=f"its frames already have {LISTENERS_MAX} listeners")
            return NOREPLY
        self._update_monitor()
        if not self._reviewing:
            self._reviewing = True
            self._manager.call_at(_sync.monotonic() + LEASE_S, self._review)
        return heard

    def _update_monitor(self) -> None:
        """Put the monitor on the links, or take it off."""
        comm, monitor = self._exchange.comm, self._monitor
        assert comm is not None
        assert monitor is not None
        comm.watcher = None if monitor.idle else monitor

    def _review(self) -> None:
        """Remove the listeners whose lease has run out."""
        assert self._monitor is not None
        again_at = self._monitor.review(_sync.monotonic())
        self._update_monitor()
        self._reviewing = again_at is not None
        if again_at is not None:
            self._manager.call_at(again_at, self._review)


def _is_legal(types: object) -> TypeGuard[Sequence[str]]:
    return isinstance(types, Sequence) and all(
        isinstance(each, str) and each in _TYPES for each in types
    )
