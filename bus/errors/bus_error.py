"""`BusError`: the root of all errors of the bus."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["BusError"]

Error = TypeVar("Error", bound="BusError")


class BusError(Exception):
    """Root of every exception this package defines."""

    def __init__(self, *args: object) -> None:
        # `inspect.signature` finds none in a constructor of the interpreter.
        super().__init__(*args)

    # `Exception.__reduce__` would call the class with `args`, which is the text; these
    # constructors take the data.
    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, vars(self))


def _restore(kind: type[Error], args: tuple[Any, ...], state: dict[str, Any]) -> Error:
    """Rebuild an error that was pickled or copied, notes included."""
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error
