"""`Story`: the events of a run in order, for debugging."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Story"]


class Story:
    """Lines with time and process; kept only on request, since most runs pass."""

    def __init__(self, *, verbose: bool) -> None:
        self.verbose = verbose
        self.lines: list[str] = []

    def tell(self, now: float, who: str, what: Callable[[], str]) -> None:
        """Add a line."""
        if self.verbose:
            self.lines.append(f"{now:9.4f}  {who:8} {what()}")
