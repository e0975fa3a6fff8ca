"""The unchanged program, again and again, on real threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.hunters.real_threads import goes_wrong

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["NAME", "NEEDS", "hunt"]

NAME = "repeat"
NEEDS = None


def hunt(path: Path, _seed: int, note: Callable[[], None]) -> bool:
    """Run until a fault appears."""
    note()
    while not goes_wrong(path):
        note()
    return True
