"""`LoanRequest`: the request of a task for a loan, which the comm thread answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.errors import ArenaFullError

__all__ = ["LoanRequest"]


class LoanRequest:
    """A request for a writable view of a buffer in the arena (MC-41).

    Args:
        size: in bytes.
        waits: True if it may wait until the arena has room.
        then: called once, in the comm thread or in one that acts for it, with the view;
          with an error, if there is no room; or with None, if no arena is in use.

    Attributes:
        size, waits, then: the same.
        withdrawn: True once nobody waits for the answer.
    """

    __slots__ = ("size", "then", "waits", "withdrawn")

    def __init__(
        self,
        size: int,
        then: Callable[[memoryview | ArenaFullError | None], object],
        *,
        waits: bool,
    ) -> None:
        self.size: Final = size
        self.waits: Final = waits
        self.then: Final = then
        self.withdrawn: bool = False
