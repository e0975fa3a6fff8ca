"""``python -m tests.schedules [--level quick|full]``: a table of explored schedules.

Surveys every scenario at a level, one line each; the story of a failed schedule
follows. Exit 0 if none failed, 1 if one did, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.schedules import table
from tests.schedules.level import LEVELS, QUICK
from tests.schedules.scenario import Scenario, of_module
from tests.schedules.shared import shared_scenarios
from tests.schedules.survey import SEED, survey

if TYPE_CHECKING:
    from collections.abc import Sequence


def own_scenarios() -> list[Scenario]:
    """Return the scenarios of every ``test_*.py`` beside this file."""
    found: list[Scenario] = []
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = f"{__package__}.{path.stem}"
        importlib.import_module(module)
        found += of_module(module)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested surveys; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules")
    parser.add_argument(
        "--level", choices=LEVELS, default=QUICK.name, help="how hard to look"
    )
    parser.add_argument(
        "--seed", type=int, default=SEED, help="of the random schedules"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="scenarios with this in their name"
    )
    parser.add_argument(
        "--shared", action="store_true", help="also the races of the conformance suite"
    )
    options = parser.parse_args(arguments)
    everything = [*own_scenarios(), *(shared_scenarios() if options.shared else ())]
    wanted = [one for one in everything if options.only in one.name]
    if not wanted:
        parser.error(f"no scenario has {options.only!r} in its name")
    print(table.head(), flush=True)
    findings = []
    for scenario in wanted:
        findings.append(survey(scenario, LEVELS[options.level], options.seed))
        print(table.line(findings[-1]), flush=True)
    print(f"\n{table.summary(findings)}")
    for finding in findings:
        if finding.failure is not None:
            print(f"\n{finding.scenario.name}\n{finding.failure.story}")
    return int(any(finding.failure is not None for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
