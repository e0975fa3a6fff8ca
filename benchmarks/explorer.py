"""Which tools find the classic faults, and how soon: ``python -m benchmarks.explorer``.

The faults are those of ``examples/faults``. Each tool has the same time, in a process
of its own, one after the other; a seed is one attempt. A missing tool is skipped, with
a message.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.hunt import Hunt, hunt, is_here, name_of
from benchmarks.hunters import HUNTERS
from benchmarks.machine import machine_line

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["cell", "main"]

_FAULTS = Path(__file__).parents[1] / "examples" / "faults"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table for README.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explorer")
    parser.add_argument("--limit", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    options = parser.parse_args(arguments)
    hunters = [hunter for hunter in HUNTERS if is_here(hunter)]
    print(machine_line())
    for hunter in sorted(set(HUNTERS) - set(hunters)):
        print(f"{name_of(hunter)} is not installed: left out")
    print(f"attempts: {options.seeds}, of at most {options.limit:g} s")
    print("runs of the program, and seconds, until the fault was found: medians")
    print()
    faults = sorted(_FAULTS.glob("*.py"))
    print(f"| | {' | '.join(fault.stem for fault in faults)} |")
    print(f"|---|{'---:|' * len(faults)}")
    for hunter in hunters:
        cells = []
        for fault in faults:
            print(f"{name_of(hunter)}: {fault.stem} ...", file=sys.stderr, flush=True)
            cells.append(
                cell(
                    [
                        hunt(hunter, fault, seed, options.limit)
                        for seed in range(options.seeds)
                    ]
                )
            )
        print(f"| {name_of(hunter)} | {' | '.join(cells)} |", flush=True)


def cell(hunts: Sequence[Hunt]) -> str:
    """Summarise the attempts of one hunter at one fault."""
    found = [each for each in hunts if each.found]
    if not found:
        most = max(each.runs for each in hunts)
        gave_up = all(each.in_time for each in hunts)
        return f"{'gave up' if gave_up else 'not found'} ({most:,} runs)"
    runs = statistics.median(each.runs for each in found)
    seconds = statistics.median(each.seconds for each in found)
    text = f"{runs:,.0f}; {seconds:.2g} s"
    if len(found) < len(hunts):
        text += f" ({len(found)} of {len(hunts)})"
    return text


if __name__ == "__main__":
    main()
