"""``python -m tests.cluster``: the same verdicts on a cluster as locally."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bus.pipeline.session import missing
from tests.cluster import contest, live, packed
from tests.cluster.standalone import standalone

_OUT = "results-cluster"


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
    begun = time.monotonic()

    def tell(line: object) -> None:
        print(f"{time.monotonic() - begun:4.0f} s  {line}", flush=True)

    contest.record(folder)
    zipped = packed.send(folder / "queuebroker.zip")
    check = packed.bare_python(folder / "check", ["numpy", "pyarrow"])
    query = packed.bare_python(folder / "query", ["numpy", "pyarrow", "msgspec"])
    sent = f"spark.submit.pyFiles={zipped}", f"spark.pyspark.python={check}"
    more = *contest.SMALL_EXECUTORS, "--conf", sent[0], "--conf", sent[1]
    faults = []
    with standalone(folder / "cluster") as cluster:
        tell(f"cluster: {cluster.url}, {len(cluster.workers)} workers")
        fault = live.returned_once(folder, cluster.url, zipped, query)
        tell(f"live query by spark-submit: {fault or 'each message once'}")
        faults += [fault] * bool(fault)
        first = contest.run(folder, _OUT, cluster.url, *more)
        tell(f"first run: {first}")
        contest.add(folder)
        second = contest.run(
            *(folder, _OUT, cluster.url, *more),
            meanwhile=lambda: contest.when_writing(folder / _OUT, cluster.kill_worker),
        )
        tell(f"second run, a worker killed: {second}")
        third = contest.run(folder, _OUT, cluster.url, *more)
        tell(f"third run: {third}")
    local = contest.run(folder, "results-local", "local[2]")
    tell(f"locally, all at once: {local}")
    read = [run.results.get("journals_read") for run in (first, second, third, local)]
    if read != [3, contest.ADDED, 0, 3 + contest.ADDED]:
        faults.append(f"journals read: {read}")
    print(f"{'rule':6}{'locally':18}there")
    for rule in {**local.verdicts, **second.verdicts}:
        left, right = (run.verdicts.get(rule, "-") for run in (local, second))
        print(f"{rule:6}{left:18}{right:18}{'' if left == right else '<- differs'}")
    faults += contest.differences(local, second)
    faults += contest.differences(second, third)
    for line in faults:
        print(f"differs: {line[:2000]}")
    print("not alike" if faults else "alike")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
