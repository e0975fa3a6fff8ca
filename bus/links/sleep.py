"""How the thread that owns the links sleeps: parked, or at the kernel's sockets.

Between threads somebody who sends wakes who sleeps. Between processes nobody can: the
thread itself turns the driver of the sockets, so that what comes is read by the thread
that deals with it, and no other has to be woken for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from queuebroker import _sync
from queuebroker.bell import Bell
from queuebroker.waiting import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bus.threads.inbox import Inbox
    from queuebroker.message_queue import MessageQueue
    from queuebroker.sockets import Driver

__all__ = ["ParkedSleep", "PolledSleep", "Sleep"]

_GOODBYE_S: Final = 0.5  # for what is on its way out at the end


class Sleep(Protocol):
    """One thread's; every method is for that thread."""

    def until(
        self,
        queues: Sequence[MessageQueue],
        inbox: Inbox,
        look: Callable[[], bool],
        deadline: float | None,
    ) -> None:
        """Sleep until ``look()``, or time is up.

        That is looked at whenever something was posted to the inbox, or may have
        happened to one of the queues.

        deadline: on the monotonic clock in seconds; None for never.
        """

    def join(self, helpers: Iterable[_sync.Thread]) -> None:
        """Wait until those have ended who make links."""

    def close(self) -> None:
        """Let go of what it sleeps with, once what was sent is out."""


class ParkedSleep:
    """For queues between threads: listed in each, and in the inbox."""

    __slots__ = ()

    def until(
        self,
        queues: Sequence[MessageQueue],
        inbox: Inbox,
        look: Callable[[], bool],
        deadline: float | None,
    ) -> None:
        selection = Selection(queues)
        bell = selection.enlist(Bell)
        try:
            with inbox.lock:
                inbox.arrived.enlist(bell)
            # Looked at again: who sent before this was listed could not see it.
            if not look():
                _sync.park(bell.lock, look, deadline)
        finally:
            with inbox.lock:
                inbox.arrived.leave(bell)
            selection.withdraw()

    def join(self, helpers: Iterable[_sync.Thread]) -> None:
        for helper in helpers:
            helper.join()

    def close(self) -> None:
        """Nothing: what was sent between threads has arrived."""


class PolledSleep:
    """For queues between processes, all of them served by one driver."""

    __slots__ = ("_bell", "_driver")

    def __init__(self, driver: Driver) -> None:
        self._driver: Final = driver
        self._bell: Final = _DriverBell(driver)

    def until(
        self,
        queues: Sequence[MessageQueue],  # noqa: ARG002 # the driver knows of all
        inbox: Inbox,
        look: Callable[[], bool],
        deadline: float | None,
    ) -> None:
        bell, poll, rest_s = self._bell, self._driver.poll, None
        while rest_s != 0:
            # Anew each time that it was rung: it is rung by nobody again, and it may
            # have been for what was seen to before this slept.
            bell.rung = False
            with inbox.lock:
                inbox.arrived.enlist(bell)
            try:
                # Also if there is something to do: else who posts without end would
                # keep this thread from ever reading.
                due = look()
                while True:
                    rest_s = 0 if due else _rest_s(deadline)
                    poll(rest_s)
                    due = due or look()
                    # Else a socket took or gave a part of a long frame; mostly so.
                    if due or bell.rung or rest_s == 0:
                        break
            finally:
                with inbox.lock:
                    inbox.arrived.leave(bell)
            if due:
                return

    def join(self, helpers: Iterable[_sync.Thread]) -> None:
        for helper in helpers:
            while helper.is_alive():  # it may wait for what only the driver tells it
                self._driver.poll(0.01)

    def close(self) -> None:
        deadline = _sync.monotonic() + _GOODBYE_S
        while self._driver.sockets and (rest_s := _rest_s(deadline)):
            self._driver.poll(rest_s)
        self._driver.close()


class _DriverBell:
    """A parker that wakes who turns a driver."""

    __slots__ = ("_driver", "rung")

    def __init__(self, driver: Driver) -> None:
        self._driver: Final = driver
        self.rung: bool = False

    def locked(self) -> bool:
        """Whether it was not rung since it was listed last."""
        return not self.rung

    def release(self) -> None:
        """Ring it; twice does no harm."""
        self.rung = True
        self._driver.call(_nothing)


def _nothing() -> None:
    """Be what a driver is asked to do that shall only wake up."""


def _rest_s(deadline: float | None) -> float | None:
    """Return for how long to sleep; 0 once time is up."""
    return None if deadline is None else max(0.0, deadline - _sync.monotonic())
