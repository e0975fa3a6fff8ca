"""`SocketState`: whether a socket is open, and the device that owns it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from bus.errors import BusyError
from queuebroker.errors import BrokerClosedError
from queuebroker.waiting.parking import Pending, WaitList

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SocketState", "Waiting"]

T = TypeVar("T")
# A wait, for threads and for coroutines: the list, the attempt under the lock, and the
# check without it; see `queuebroker.waiting.parking.wait_for`.
Waiting: TypeAlias = tuple[WaitList, "Callable[[], T | Pending]", "Callable[[], bool]"]


class SocketState:
    """Whether a socket is open, and the device that owns it; under the node's lock.

    Attributes:
        owner: the device that owns the socket now; "" for none (BP-14).
        closed: True once the socket is closed.
        is_abandoned: True in a fork's child, whose parent has the connections.
    """

    __slots__ = ("closed", "is_abandoned", "owner")

    def __init__(self) -> None:
        self.owner: str = ""
        self.closed: bool = False
        self.is_abandoned: bool = False

    def check(self, act: str, owner: str | None = None) -> None:
        """Raise an error if the caller must not use the socket.

        act: for the message of the error.
        owner: the caller, if only the owner may do this; "" for none.

        Raises:
            BrokerClosedError: the socket is closed.
            BusyError: another owner has it.
        """
        if self.closed:
            raise BrokerClosedError(f"cannot {act}: this socket is closed")
        if owner is not None and self.owner != owner:
            raise BusyError(
                f"this socket, by {self.owner}; close that, or use another socket"
            )

    def waiting(
        self,
        waiters: WaitList,
        take: Callable[[], T | Pending],
        ready: Callable[[], bool],
        act: str,
        owner: str | None = None,
    ) -> Waiting[T]:
        """Return the arguments of `wait_for` for a wait that the end ends.

        take: called under the lock, after `check`; returns PENDING to wait on.
        ready: returns True if ``take`` need not wait; called without the lock.
        """

        def attempt() -> T | Pending:
            self.check(act, owner)
            return take()

        return waiters, attempt, lambda: self.closed or ready()
