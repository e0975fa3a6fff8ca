"""``python -m specs.promela [--quick]``: every model under SPIN, one line a property.

Each property must hold in the unchanged model, and its own property must find each
planted fault. Works in a temporary folder. The exit code is 0 if all results are as
expected, 1 if not, 2 for wrong arguments, 4 if SPIN or a C compiler is missing or
failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from specs.promela.model import MODELS
from specs.promela.spin import Spin, SpinError, ToolMissingError, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specs.promela.model import Case
    from specs.promela.spin import Finding

__all__ = ["main"]

_AS_EXPECTED, _UNEXPECTED, _ERROR = 0, 1, 4

_ROW = "{:<16} {:<14} {:<38} {:<18} {:>9} {:>6} {:>7}  {}"
_HEAD = _ROW.format(
    "model", "size", "property", "planted fault", "states", "depth", "s", "verdict"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected cases and print the table; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m specs.promela", description="The protocol models, under SPIN."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only the small sizes of the models, and a few of the faults",
    )
    parser.add_argument(
        "--model",
        choices=[model.name for model in MODELS],
        help="only this model; without it all",
    )
    options = parser.parse_args(arguments)
    began = time.monotonic()
    runs = unexpected = 0
    try:
        with tempfile.TemporaryDirectory(prefix="specs-promela-") as folder:
            spin = Spin(Path(folder))
            print(_HEAD, flush=True)
            for model in MODELS:
                if options.model not in {None, model.name}:
                    continue
                for case in model.cases(quick=options.quick):
                    finding = spin.run(case)
                    runs += 1
                    unexpected += not as_expected(case, finding)
                    print(line(case, finding), flush=True)
    except ToolMissingError as error:
        print(f"specs.promela: {error}", file=sys.stderr)
        return _ERROR
    except SpinError as error:
        print(f"specs.promela: {error}", file=sys.stderr)
        return _ERROR
    seconds = time.monotonic() - began
    print(f"\n{runs} runs, {unexpected} not as expected, {seconds:.0f} s")
    return _UNEXPECTED if unexpected else _AS_EXPECTED


def as_expected(case: Case, finding: Finding) -> bool:
    """Return True if a sound model held, or a planted fault was found."""
    return (finding.verdict is Verdict.HOLDS) == case.holds


def line(case: Case, finding: Finding) -> str:
    """Return one row of the table."""
    verdict = finding.verdict.value
    if case.fault is not None:
        verdict = "found" if finding.verdict is Verdict.BROKEN else "NOT FOUND"
    elif finding.verdict is Verdict.BROKEN:
        verdict = "BROKEN"
    return _ROW.format(
        case.model.name,
        case.size,
        case.prop,
        case.fault or "none",
        finding.states,
        finding.depth,
        f"{finding.seconds:.2f}",
        verdict,
    )


if __name__ == "__main__":
    sys.exit(main())
