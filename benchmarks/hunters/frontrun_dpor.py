"""frontrun with its default, systematic search (dynamic partial order reduction)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.hunters.parked import hunt_with

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["LAUNCHER", "NAME", "NEEDS", "hunt"]

NAME = "frontrun, dpor"
NEEDS = "frontrun"
LAUNCHER = "frontrun"


def hunt(path: Path, _seed: int, note: Callable[[], None]) -> bool:
    """Explore until frontrun finds a fault, reports none, or gives up."""
    return hunt_with(path, note, strategy="dpor")
