"""Notes what operations came to, as `specs.models` and a linearizability checker read.

Not `queuebroker.testing.History`: the models tell outcomes apart by Python's own
exceptions and by names of classes, and what is tested here has names of its own.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Recorded", "Recorder"]


class BrokerClosedError(Exception):
    """Stands in the record for whatever an implementation calls it."""


@attrs.frozen
class Recorded:
    """One operation that came back.

    args: as the model takes them, which is not always as they were given.
    began, ended: numbers of these two events in the whole history.
    """

    name: str
    args: tuple[Any, ...]
    began: int
    ended: float
    result: Any = None
    error: BaseException | None = None
    pending: bool = False  # as every model asks; what does not come back is not noted

    def __str__(self) -> str:
        call = f"{self.name}({', '.join(map(repr, self.args))})"
        if self.error is not None:
            return f"{call} raised {type(self.error).__name__}"
        return f"{call} = {self.result!r}"


class Recorder:
    """Operations of any number of threads, numbered as they begin and end.

    closed_error: what the implementation raises for a closed broker, if anything.
    """

    def __init__(self, closed_error: type[Exception] | None = None) -> None:
        self._closed_error = closed_error
        # Drawing from it and appending to a list are atomic: no lock is needed.
        self._numbers = itertools.count(1)
        self.operations: list[Recorded] = []

    def call(
        self,
        name: str,
        args: tuple[Any, ...],
        function: Callable[..., Any],
        *given: Any,
    ) -> Any:
        """Make the call and note it under ``name`` and ``args``; None if it raised."""
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
