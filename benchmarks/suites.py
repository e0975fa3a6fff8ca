"""The suites by name, for ``python -m benchmarks NAME``.

A suite is a function that takes an `Effort` and returns its contests. It is imported
only on demand, so that a suite runs even if the packages of another are missing.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable

import attrs

from benchmarks.contest import ROUNDS_MIN, Contest

__all__ = ["SUITES", "Effort", "Suite", "load"]

# Name to module and function.
SUITES = {
    "users": "benchmarks.users:suite",
    "threads": "benchmarks.threads:suite",
    "rendezvous": "benchmarks.rendezvous:suite",
    "journal": "benchmarks.journal:suite",
    "sockets": "benchmarks.sockets:suite",
    "processes": "benchmarks.processes:suite",
    "machines": "benchmarks.machines:suite",
    "scale": "benchmarks.scale:suite",
    "durable": "benchmarks.durable:suite",
    "multicast": "benchmarks.multicast:suite",
    "pattern": "benchmarks.pattern:suite",
}


@attrs.frozen
class Effort:
    """The amount of work of a run.

    rounds: the number of turns of each contestant.
    round_s: the target duration of one turn of a throughput figure, in seconds.
    scale: the factor for fixed amounts (round trips, idle pairs).
    limit_s: the target duration of the whole suite, in seconds. If it is finite, each
      figure has one rival, and all are measured on two processors alone.
    """

    rounds: int
    round_s: float
    scale: float
    limit_s: float = math.inf

    @classmethod
    def of(cls, *, quick: bool) -> Effort:
        """Return the effort of a quick look, or of figures worth keeping."""
        if quick:
            return cls(rounds=ROUNDS_MIN, round_s=0.1, scale=0.1, limit_s=50.0)
        return cls(rounds=9, round_s=0.5, scale=1.0)

    @property
    def is_quick(self) -> bool:
        """True for a quick look."""
        return self.limit_s < math.inf

    def amount(self, full: int) -> int:
        """Scale the amount of a full run to this effort."""
        return max(1, int(full * self.scale))


# Returns the contests, and a sentence for each rival that is not installed.
Suite = Callable[[Effort], tuple[list[Contest], list[str]]]


def load(name: str) -> Suite:
    """Import the suite of that name.

    Raises:
        KeyError: if there is none.
    """
    module, _, function = SUITES[name].partition(":")
    suite: Suite = getattr(importlib.import_module(module), function)
    return suite
