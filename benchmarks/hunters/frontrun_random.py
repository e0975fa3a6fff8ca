"""frontrun at random, with a higher limit on the length of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.hunters.parked import hunt_with

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["LAUNCHER", "NAME", "NEEDS", "hunt"]

NAME = "frontrun, random"
NEEDS = "frontrun"
LAUNCHER = "frontrun"


def hunt(path: Path, seed: int, note: Callable[[], None]) -> bool:
    """Explore until frontrun finds a fault, reports none, or gives up."""
    return hunt_with(
        path, note, strategy="random", seed=seed, max_attempts=1_000_000, max_ops=10_000
    )
