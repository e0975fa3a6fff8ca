"""`Contest`: a pair with a third process beside it, that behaves or does not.

The third one is started anew for each turn. On a machine of few processors it takes
from the others what it uses itself, whatever it does; so who floods is compared with
who merely computes, and who does not read with who reads the same.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from contextlib import ExitStack
from signal import SIGSTOP
from typing import TYPE_CHECKING, Final, Self

import attrs

from tests.links.real import Far

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CASES", "MUST", "Case", "Contest", "Ratio"]

MUST: Final = 0.8
_PARTY: Final = "__import__('tests.rates.party', fromlist=['party'])"


@attrs.frozen
class Case:
    """What the third process does when it behaves, and when it does not.

    stopped: whether it is stopped then, as by a debugger.
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
    """What came of a case: rates of the pair in messages a second, and their ratio.

    ratio: the median of the rounds' ratios; each round has both turns.
    """

    well: float
    badly: float
    ratio: float


class Contest:
    """A bus of its own with a pair on it; a context manager.

    seconds: how long each turn is.
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
        """Return the rate of the pair with nobody beside it."""
        return statistics.median(self._rate() for _ in range(rounds))

    def run(self, case: Case, rounds: int) -> Ratio:
        """Measure the pair beside one that behaves and one that does not, in turn."""
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
    """Return what the environment is to say again; nothing is its default, too."""
    return os.environ.get("BUS_RUN_DIR", "")
