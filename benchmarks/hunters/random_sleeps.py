"""`stress`, with a short sleep before half of the program's lines, at random."""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from benchmarks.hunters import stress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

__all__ = ["NAME", "NEEDS", "hunt"]

NAME = "repeat, random sleeps"
NEEDS = None

_SLEEP_S_MAX = 0.001


def hunt(path: Path, seed: int, note: Callable[[], None]) -> bool:
    """Run until a fault appears. The process ends afterwards: nothing is restored."""
    rng = random.Random(seed)

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        if frame.f_code.co_filename != str(path):
            return None
        if event == "line" and rng.random() < 0.5:
            time.sleep(rng.random() * _SLEEP_S_MAX)
        return trace

    threading.settrace(trace)
    sys.settrace(trace)
    return stress.hunt(path, seed, note)
