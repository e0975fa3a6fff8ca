"""A record of operations in the form of `specs.models` and a linearizability checker.

Not `queuebroker.testing.History`: the models distinguish outcomes by Python's own
exceptions and by names of classes, and an implementation under test has its own names.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Recorded", "Recorder"]


class BrokerClosedError(Exception):
    """The recorded form of an implementation's own error for a closed broker."""


@attrs.frozen
class Recorded:
    """One operation that returned or raised.

    args: in the form of the model, which may differ from those given.
    began, ended: numbers of these two events in the whole history.
    """

    name: str
    args: tuple[Any, ...]
    began: int
    ended: float
    result: Any = None
    error: BaseException | None = None
    pending: bool = False  # every model reads it; an unfinished call is not recorded

    def __str__(self) -> str:
        call = f"{self.name}({', '.join(map(repr, self.args))})"
        if self.error is not None:
            return f"{call} raised {type(self.error).__name__}"
        return f"{call} = {self.result!r}"


class Recorder:
    """A record of the operations of threads, numbered as they begin and end.

    closed_error: the exception class of the implementation for a closed broker, if any.
    """

    def __init__(self, closed_error: type[Exception] | None = None) -> None:
        self._closed_error = closed_error
        # Taking a number and appending to a list are atomic: no lock is needed.
        self._numbers = itertools.count(1)
        self.operations: list[Recorded] = []

    def call(
        self,
        name: str,
        args: tuple[Any, ...],
        function: Callable[..., Any],
        *given: Any,
    ) -> Any:
        """Make the call and record it as ``name`` and ``args``; None if it raised."""
        began = next(self._numbers)
        result, error = None, None
        try:
            result = function(*given)
        except Exception as raised:  # noqa: BLE001 - the model judges it
            error = raised
            if self._closed_error and isinstance(raised, self._closed_error):
                error = BrokerClosedError(*raised.args)
        ended = next(self._numbers)
        recorded = Recorded(name, args, began, ended, result, error)
        self.operations.append(recorded)
        return result
