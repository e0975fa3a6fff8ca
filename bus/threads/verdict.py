"""`Verdict`: what others say of something that a process, or a task, wants to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queuebroker import _sync
from queuebroker.parking import taken_lock

if TYPE_CHECKING:
    import _thread

    from bus.errors import BusError

__all__ = ["Verdict"]


class Verdict:
    """Said once, by whoever is first; waited for by one who asked, once."""

    __slots__ = ("_said", "_woken")

    def __init__(self) -> None:
        # Empty, or what was said: put in by one step of the interpreter, so that no
        # interrupt leaves it half said. That the other one is woken may be lost; then
        # it wakes at its deadline.
        self._said: Final[dict[str, tuple[BusError | None]]] = {}
        self._woken: Final[_thread.LockType] = taken_lock()

    @property
    def settled(self) -> bool:
        """Whether it is known."""
        return bool(self._said)

    def settle(self, error: BusError | None = None) -> bool:
        """Say that it may be so, or why not; False if that was said before."""
        word = (error,)
        if self._said.setdefault("it", word) is not word:
            return False
        self._woken.release()
        return True

    def wait(self, deadline: float) -> None:
        """Wait until it is known, or time is up: then it counts as yes.

        Raises:
            BusError: it may not be so.
        """
        if not self.settled:
            _sync.park(self._woken, lambda: self.settled, deadline)
        (error,) = self._said.setdefault("it", (None,))
        if error is not None:
            raise error
