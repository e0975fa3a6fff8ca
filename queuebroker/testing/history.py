"""`History`: a record of operations, with their beginnings, ends and outcomes.

Events are numbered in the order in which they happen. Under the explorer that order is
exact, since one task runs at a time. Between real threads an operation's numbers are
drawn before it begins and after it has ended. So if the numbers order two operations,
that order is the real one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, TypeVar

import attrs

from queuebroker import _sync
from queuebroker.closable import Uncopyable

__all__ = ["PENDING", "Call", "History"]

PENDING: Final = math.inf  # the end of an operation that has not returned

T = TypeVar("T")


@attrs.frozen
class Call:
    """One call, from its beginning to its end.

    thread: the name of the thread that made it.
    name, args: the operation and its arguments.
    began, ended: numbers of these events; ``ended`` is `PENDING` if the call has not
      returned: then it may or may not have had its effect.
    result: the value it returned, if any. error: the exception it raised, if any.
    at_s: the time of its beginning, on the (virtual) monotonic clock.
    """

    thread: str
    name: str
    args: tuple[Any, ...]
    began: int
    ended: float = PENDING
    result: Any = None
    error: BaseException | None = None
    at_s: float = 0.0

    @property
    def pending(self) -> bool:
        """True if it has not returned."""
        return self.ended == PENDING

    def __str__(self) -> str:
        call = f"{self.thread}: {self.name}({', '.join(map(repr, self.args))})"
        if self.pending:
            return f"{call} has not come back"
        if self.error is not None:
            return f"{call} raised {type(self.error).__name__}"
        return f"{call} = {self.result!r}"


class History(Uncopyable):
    """Operations on one object, as seen by the threads that make them.

    ::

        history = History()
        history.call("put", queue.put, item)

    Any number of threads may record at once: the numbers come from one atomic counter,
    and a list's append is atomic too.
    """

    _in_place_of_copy: ClassVar[str] = "pass on its operations"

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._begun: dict[int, Call] = {}
        self._ended: list[Call] = []

    def call(self, name: str, function: Callable[..., T], *args: Any) -> T:
        """Call ``function(*args)``, and record it as the operation ``name(*args)``.

        The result is returned, and an exception is raised again. An exception that is
        no `Exception` leaves the operation pending: it was interrupted at an unknown
        point.
        """
        operation = Call(
            thread=_sync.current_thread().name,
            name=name,
            args=args,
            began=_sync.draw(self._numbers),
            at_s=_sync.monotonic(),
        )
        self._begun[operation.began] = operation
        try:
            result = function(*args)
        except Exception as error:
            self._end(operation, error=error)
            raise
        self._end(operation, result=result)
        return result

    def _end(
        self,
        operation: Call,
        *,
        result: object = None,
        error: BaseException | None = None,
    ) -> None:
        ended = _sync.draw(self._numbers)
        self._ended.append(
            attrs.evolve(operation, ended=ended, result=result, error=error)
        )
        del self._begun[operation.began]

    @property
    def operations(self) -> list[Call]:
        """All operations, in the order in which they began."""
        pending = list(self._begun.values())
        ended = list(self._ended)
        known = {operation.began for operation in ended}
        pending = [one for one in pending if one.began not in known]
        return sorted(ended + pending, key=lambda operation: operation.began)

    def __iter__(self) -> Iterator[Call]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)
