"""The suites by name: what ``python -m benchmarks NAME`` can run.

A suite is a function that is told how long to take and gives its contests. It is
imported only when asked for, so that one suite's needs never hinder another.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import attrs

from benchmarks.contest import ROUNDS_MIN, Contest

__all__ = ["SUITES", "Effort", "Suite", "load"]

# Name to module and function. More are added here as the parts they measure grow.
SUITES = {
    "threads": "benchmarks.threads:suite",
    "rendezvous": "benchmarks.rendezvous:suite",
    "journal": "benchmarks.journal:suite",
    "sockets": "benchmarks.sockets:suite",
    "processes": "benchmarks.processes:suite",
    "scale": "benchmarks.scale:suite",
}


@attrs.frozen
class Effort:
    """How much work a run is worth.

    rounds: how often each contestant's turn comes.
    round_s: how long one turn of a throughput figure should last.
    scale: by how much fixed amounts (round trips, idle pairs) are multiplied.
    """

    rounds: int
    round_s: float
    scale: float

    @classmethod
    def of(cls, *, quick: bool) -> Effort:
        """Give the effort of a quick look, or of figures worth keeping."""
        if quick:
            return cls(rounds=ROUNDS_MIN, round_s=0.1, scale=0.1)
        return cls(rounds=9, round_s=0.5, scale=1.0)

    def amount(self, full: int) -> int:
        """Scale the amount of a full run to this effort."""
        return max(1, int(full * self.scale))


# Gives the contests, and a sentence for each rival that is not installed.
Suite = Callable[[Effort], tuple[list[Contest], list[str]]]


def load(name: str) -> Suite:
    """Import the suite of that name.

    Raises:
        KeyError: if there is none.
    """
    module, _, function = SUITES[name].partition(":")
    suite: Suite = getattr(importlib.import_module(module), function)
    return suite
