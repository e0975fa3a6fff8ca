"""``python -m tests.cluster``: the same verdicts on a cluster as locally."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bus.pipeline.session import missing
from tests.cluster import contest
from tests.cluster.standalone import standalone


def main() -> int:
    """Run the contest; return the exit code: 0 if both runs agree."""
    parser = argparse.ArgumentParser(prog="tests.cluster", description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave all files here")
    keep = parser.parse_args().keep
    if lack := missing(drawing=False):
        print(f"cannot run: {lack}")
        return 2
    if keep is not None:
        keep.mkdir(parents=True)
        return _contest(keep.resolve())
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder:
        return _contest(Path(folder))


def _contest(folder: Path) -> int:
    contest.record(folder)
    print(f"journals: {contest.JOURNALS}, relative to the driver's directory")
    start = time.monotonic()
    local = contest.run(folder, "results-local", "local[2]")
    print(f"locally: exit code {local.code}, {time.monotonic() - start:.0f} s")
    with standalone(folder / "cluster") as cluster:
        print(f"cluster: {cluster.url}, {len(cluster.work)} workers")
        start = time.monotonic()
        there = contest.run(
            folder, "results-cluster", cluster.url, *contest.SMALL_EXECUTORS
        )
        print(f"there: exit code {there.code}, {time.monotonic() - start:.0f} s")
    for name, run in (("locally", local), ("there", there)):
        if run.error:
            print(f"{name} said: {run.error.rstrip()}")
    print(f"{'rule':6}{'locally':18}there")
    for rule in {**local.verdicts, **there.verdicts}:
        left, right = (run.verdicts.get(rule, "-") for run in (local, there))
        print(f"{rule:6}{left:18}{right:18}{'' if left == right else '<- differs'}")
    found = contest.differences(local, there)
    for line in found:
        print(f"differs: {line[:500]}")
    if not local.verdicts:
        found = ["no verdicts"]
    print("not alike" if found else "alike")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
