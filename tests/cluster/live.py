"""The live source and sink on a cluster: each recorded message returns once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark

from bus import open_bus
from bus.pipeline.spool import Spool
from tests.cluster import contest
from tests.support import until

if TYPE_CHECKING:
    from bus import Incoming

__all__ = ["returned_once"]

# Spark ends a query if a new Python process takes more than 10 s to report, as on a
# busy machine. The next one goes on where it stopped.
ATTEMPTS: Final = 3


def returned_once(folder: Path, master: str, packages: Path, python: Path) -> str:
    """Send recorded notifications back by a query; return the fault, "" if none.

    packages: the zip that `spark-submit` sends to the workers.
    python: that of the workers.
    """
    got: list[dict[str, Any]] = []
    os.environ["BUS_RUN_DIR"] = str(folder / "run")
    spool = folder / "spool"
    command = [sys.executable, "-m", "bus", "pipeline", "gateway", str(spool)]
    with open_bus("live") as bus:

        def receive(message: Incoming) -> None:
            got.append(message.payload)

        bus.register("checker").subscribe("result", receive, capacity=100_000)
        with subprocess.Popen([*command, "--bus", "live"]) as gateway:
            try:
                for _ in range(ATTEMPTS):
                    ended = _submit(folder, master, packages, python)
                    if not ended.returncode:
                        break
                until(
                    lambda: not Spool.at(spool).ready(), "the gateway took all batches"
                )
            finally:
                gateway.terminate()
        if ended.returncode:
            return f"spark-submit: {ended.stderr[-2000:]}"
        expected = Counter(map(str, range(contest.CALLS)))
        until(lambda: len(got) >= contest.CALLS, "all messages have returned")
    found = Counter(row["value"] for row in got)
    return "" if found == expected else f"{found - expected} {expected - found}"


def _submit(
    folder: Path, master: str, packages: Path, python: Path
) -> subprocess.CompletedProcess[str]:
    home = Path(pyspark.__file__).parent
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_PYTHON"}
    # For the planner of a stream, which gets no `--py-files`.
    environment["PYTHONPATH"] = str(packages)
    return subprocess.run(
        [
            str(home / "bin" / "spark-submit"),
            *("--master", master, "--py-files", str(packages)),
            *("--conf", f"spark.pyspark.driver.python={sys.executable}"),
            *("--conf", f"spark.pyspark.python={python}"),
            *contest.SMALL_EXECUTORS,
            str(Path(__file__).with_name("query.py")),
        ],
        cwd=folder,
        env=environment | {"SPARK_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=contest.LIMIT_S,
    )
