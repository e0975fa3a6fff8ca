"""`TaskLoans`: the buffers of the arena that tasks of this process write in place.

A task gets a writable view. When it sends the message, the payload is a read-only view
of the same bytes, which stays in this process until no code, no queue and no relay
needs the message any more. The loan lasts as long as any of these views (MC-35), so its
buffer is not used for other bytes meanwhile.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Final

from bus.multicast.lent_view import lend

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.multicast.arena import Arena
    from bus.multicast.arena_loan import ArenaLoan

__all__ = ["TaskLoans"]


class TaskLoans:
    """The loans of an arena to tasks, by their views.

    All methods but `has_ended` are for the holder of the lock of `LinkMemory`. Loans
    end in any thread.

    Args:
        arena: the arena.
        on_ended: as for `LentBodies`.
    """

    __slots__ = ("_arena", "_ended", "_loans", "_on_ended")

    def __init__(self, arena: Arena, on_ended: Callable[[], object]) -> None:
        self._arena: Final = arena
        self._on_ended: Final = on_ended
        # By the `id` of the object behind the views: each view of a view has the same.
        self._loans: Final[dict[int, _TaskLoan]] = {}
        # Appended to in any thread; see `SlabMappings`.
        self._ended: Final[deque[_TaskLoan]] = deque()

    @property
    def has_ended(self) -> bool:
        """True if `take_back` has something to do."""
        return bool(self._ended)

    def lend(self, size: int) -> memoryview:
        """Return a writable view of a buffer; the loan ends with the last view of it.

        Raises:
            ArenaFullError: there is no room.
        """
        self.take_back()
        loan = self._arena.lend(size)
        memory = self._arena.memory(loan.slab)
        made: list[_TaskLoan] = []
        try:
            view = lend(
                memory,
                loan.at,
                size,
                self._on_ended,
                watch=lambda behind: made.append(_TaskLoan(behind, self._ended.append)),
                writable=True,
            )
        except MemoryError:
            self._arena.take_back(loan)
            raise
        [watched] = made
        watched.loan, watched.key = loan, id(view.obj)
        self._loans[watched.key] = watched
        return view

    def find(self, body: memoryview) -> ArenaLoan | None:
        """Return the loan that a body is a view of; None if it is none."""
        found = self._loans.get(id(body.obj))
        # The object of another view may have the id of one that is gone.
        return None if found is None or found() is None else found.loan

    def take_back(self) -> None:
        """End the loans of which no view is left."""
        while self._ended:
            ended = self._ended.popleft()
            if self._loans.get(ended.key) is ended:
                del self._loans[ended.key]
            self._arena.take_back(ended.loan)


class _TaskLoan(weakref.ref[object]):
    """A loan, by the object behind its views.

    loan: as the arena counts it. key: the ``id`` of ``obj`` of its views.
    """

    __slots__ = ("key", "loan")

    key: int
    loan: ArenaLoan
