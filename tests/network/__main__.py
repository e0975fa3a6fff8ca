"""``python -m tests.network --profile NAME|all``: machines on a network with faults.

Exit code 0 if all promises were kept, 1 if one was broken, 2 if this system cannot run
the machines.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.network.campaign import Campaign
from tests.network.ethernet import refusal_reason
from tests.network.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run some profiles, print the result of each, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.network")
    parser.add_argument("--profile", default="all", choices=["all", *PROFILES])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each profile")
    parser.add_argument("--machines", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--discovery",
        default="lan",
        choices=["lan", "wan", ""],
        help="how the machines find each other; empty for static addresses",
    )
    given = parser.parse_args(arguments)
    if reason := refusal_reason():
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    names = list(PROFILES) if given.profile == "all" else [given.profile]
    folder = Path(tempfile.mkdtemp(prefix="net"))
    failed = 0
    with Campaign(
        folder / "c", given.machines, given.seed, discovery=given.discovery
    ) as campaign:
        for name in names:
            result = campaign.run(name, given.seconds)
            print(result, flush=True)
            for each in result.violations[:10]:
                print(f"  violation: {each}", flush=True)
            failed += bool(result.violations)
    print(f"{len(names)} profiles, {failed} failed")
    if not failed:
        shutil.rmtree(folder)  # after a failure the notes are kept
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
