"""`Contest`: a pair with a third process beside it, which behaves or does not.

The third process is started anew for each turn. On a machine with few processors its
CPU use alone slows the pair. So a flooding process is compared with one that merely
computes, and a process that does not read with one that reads the same traffic.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from contextlib import ExitStack
from signal import SIGSTOP
from typing import TYPE_CHECKING, Final, Self

import attrs

from tests.process.real import Far

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CASES", "MUST", "Case", "Contest", "Ratio"]

MUST: Final = 0.8
_PARTY: Final = "__import__('tests.rates.party', fromlist=['party'])"


@attrs.frozen
class Case:
    """The actions of the third process when it behaves, and when it does not.

    stopped: True if it is stopped in the bad case, as by a debugger.
    """

    well: str
    badly: str
    stopped: bool = False


CASES: Final[Mapping[str, Case]] = {
    "slow reader": Case("read(bus, 'at once')", "read(bus, 'slowly')"),
    "stuck reader": Case("read(bus, 'at once')", "read(bus, 'never')"),
    "stopped reader": Case(
        "read(bus, 'at once')", "read(bus, 'at once')", stopped=True
    ),
    "flooding writer": Case("burn(bus)", "flood(bus)"),
}


@attrs.frozen
class Ratio:
    """The result of a case: rates of the pair in messages a second, and their ratio.

    ratio: the median of the rounds' ratios; each round has both turns.
    """

    well: float
    badly: float
    ratio: float


class Contest:
    """A context manager: a bus of its own with a pair on it.

    seconds: the length of each turn.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds: Final = seconds
        self._stack: Final = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="qb-"))
            stack.callback(os.environ.__setitem__, "BUS_RUN_DIR", _run_directory())
            os.environ["BUS_RUN_DIR"] = folder
            receiver = stack.enter_context(Far("receiver", role="master")).started()
            self._sender = stack.enter_context(Far("sender", role="slave")).started()
            receiver(f"{_PARTY}.sink(bus)")
            self._sender(f"{_PARTY}.tell(bus)")
            self._stack.push(stack.pop_all())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def alone(self, rounds: int) -> float:
        """Return the rate of the pair without a third process."""
        return statistics.median(self._rate() for _ in range(rounds))

    def run(self, case: Case, rounds: int) -> Ratio:
        """Measure the pair beside a process that behaves, then one that does not."""
        well, badly = [], []
        for _ in range(rounds):
            well.append(self._beside(case.well, stopped=False))
            badly.append(self._beside(case.badly, stopped=case.stopped))
        return Ratio(
            statistics.median(well),
            statistics.median(badly),
            statistics.median(b / w for b, w in zip(badly, well, strict=True)),
        )

    def _beside(self, what: str, *, stopped: bool) -> float:
        with Far("third", role="slave") as third:
            third.started()
            third(f"{_PARTY}.{what}")
            if stopped:
                third.signal(SIGSTOP)
            return self._rate()

    def _rate(self) -> float:
        return float(self._sender(f"{_PARTY}.measure(bus, {self._seconds})"))


def _run_directory() -> str:
    """Return the value to restore in the environment; "" is its default, too."""
    return os.environ.get("BUS_RUN_DIR", "")
