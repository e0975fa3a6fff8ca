"""`Verdict`: the decision of another process on a join or on the name of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queuebroker import _sync
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    import _thread

    from bus.errors import BusError

__all__ = ["Verdict"]


class Verdict:
    """A decision that is settled once, by the first caller, and has one waiter."""

    __slots__ = ("_decision", "_woken")

    def __init__(self) -> None:
        # Empty, or the decision. `dict.setdefault` is one step of the interpreter, so
        # no interrupt leaves it half settled. An interrupt may lose the wake-up; then
        # the waiter wakes at its deadline.
        self._decision: Final[dict[str, tuple[BusError | None]]] = {}
        self._woken: Final[_thread.LockType] = taken_lock()

    @property
    def settled(self) -> bool:
        """True once the decision is known."""
        return bool(self._decision)

    def settle(self, error: BusError | None = None) -> bool:
        """Grant, or refuse with an error; return False if it is already settled."""
        word = (error,)
        if self._decision.setdefault("it", word) is not word:
            return False
        self._woken.release()
        return True

    def wait(self, deadline: float) -> None:
        """Wait for the decision until a deadline; then settle it as granted.

        Raises:
            BusError: the decision is a refusal.
        """
        if not self.settled:
            _sync.park(self._woken, lambda: self.settled, deadline)
        (error,) = self._decision.setdefault("it", (None,))
        if error is not None:
            raise error
