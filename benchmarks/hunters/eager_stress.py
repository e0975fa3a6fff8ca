"""`stress`, while the interpreter switches threads as often as possible."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks.hunters import stress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["NAME", "NEEDS", "hunt"]

NAME = "repeat, setswitchinterval(1e-6)"
NEEDS = None


def hunt(path: Path, seed: int, note: Callable[[], None]) -> bool:
    """Run until a fault appears. The process ends afterwards: nothing is restored."""
    sys.setswitchinterval(1e-6)
    return stress.hunt(path, seed, note)
