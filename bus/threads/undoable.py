"""`undoable`: a decision of a process manager that an interrupt may cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.local.process_manager import ProcessManager

__all__ = ["undoable"]

T = TypeVar("T")


def undoable(manager: ProcessManager, event: Callable[[], T]) -> T:
    """Call ``event``, a decision; called under the lock of the exchange.

    If an interrupt ends the decision before its actions are queued, the parked messages
    that it removed for them are put back. The next decision on them repeats the one
    cut off, so that each sender gets its outcome.
    """
    parked = manager.parked
    if parked.removals:
        manager.restore()  # a second interrupt has ended the call below
    parked.removals = ()
    try:
        result = event()
        # For the events that queue no actions; others have done this with that.
        parked.removals = None
    except BaseException:
        manager.restore()
        raise
    return result
