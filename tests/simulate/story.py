"""`Story`: what happened in a run, in order, for whoever has to find out why."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Story"]


class Story:
    """Lines with time and process; kept only if asked for, since most runs are well."""

    def __init__(self, *, told: bool) -> None:
        self.told = told
        self.lines: list[str] = []

    def tell(self, now: float, who: str, what: Callable[[], str]) -> None:
        """Add a line."""
        if self.told:
            self.lines.append(f"{now:9.4f}  {who:8} {what()}")
