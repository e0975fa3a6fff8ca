"""``python -m tests.rates``: do others keep their rate while one misbehaves?

Prints a line for each case: the rate of a pair of processes beside a third one that
behaves, and beside one that does not. Exit 0 if each case keeps four fifths; 1 if not.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.rates.contest import CASES, MUST, Contest

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each case; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.rates")
    parser.add_argument("--rounds", type=int, default=5, help="of each case")
    parser.add_argument("--seconds", type=float, default=1.0, help="each turn")
    parser.add_argument("--case", choices=CASES, action="append", help="only these")
    options = parser.parse_args(arguments)
    missed = False
    with Contest(options.seconds) as contest:
        alone = contest.alone(options.rounds)
        print(f"alone: {alone:,.0f} messages/s", flush=True)
        for name in options.case or CASES:
            rates = contest.run(CASES[name], options.rounds)
            kept = rates.ratio >= MUST
            missed = missed or not kept
            print(
                f"{name:<16} behaves {rates.well:>9,.0f}/s, misbehaves "
                f"{rates.badly:>9,.0f}/s: ratio {rates.ratio:.2f}, must be >= {MUST}: "
                f"{'kept' if kept else 'MISSED'}",
                flush=True,
            )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
