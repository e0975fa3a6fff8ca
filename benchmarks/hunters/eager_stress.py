"""The same, while the interpreter switches threads as often as it can."""

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
    """Run until it goes wrong. The process is left afterwards: nothing is put back."""
    sys.setswitchinterval(1e-6)
    return stress.hunt(path, seed, note)
