"""A call made in a thread of its own, and its outcome.

That thread alone writes it; other threads read it after `done`, which is set last.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Call"]


class Call:
    """One call, still waiting or ended with a value or an error.

    text: the call as shown in a failure, such as ``accept(1)``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._function, self._args, self._kwargs = function, args, kwargs
        self.text = _spell(function, args, kwargs)
        self.value: Any = None
        self.error: Exception | None = None
        self.done = False

    def run(self) -> None:
        """Make the call; only an `Exception` is kept, others reach the driver."""
        try:
            self.value = self._function(*self._args, **self._kwargs)
        except Exception as error:  # noqa: BLE001 - the program judges what it may be
            self.error = error
        self.done = True

    def told(self) -> str:
        """Describe the outcome, for a message."""
        if not self.done:
            return f"{self.text} still waits"
        if self.error is not None:
            kind = type(self.error).__name__
            return f"{self.text} raised {kind}: {self.error}{_place(self.error)}"
        return f"{self.text} returned {_short(self.value)}"


def _spell(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str:
    name = getattr(function, "__name__", type(function).__name__).strip("_")
    given = [_short(arg) for arg in args]
    given += [f"{key}={_short(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(given)})"


def _place(error: Exception) -> str:
    """Return the place of the raise: a reader needs that line, not ours."""
    frames = traceback.extract_tb(error.__traceback__)
    if len(frames) < 2:  # in C, called from `Call.run`
        return ""
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:30]}...{text[-7:]}"
