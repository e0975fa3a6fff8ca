"""One folder of journals, judged on a cluster and locally; the differences."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING, Any, Final

import attrs

from bus import open_bus
from bus.journal.writer import Journal
from tests.journal.histories import clean, plant, store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
    "BROKEN_RULE",
    "JOURNALS",
    "SMALL_EXECUTORS",
    "Run",
    "differences",
    "record",
    "run",
]

JOURNALS: Final = "journals"
LIMIT_S: Final = 300.0
SMALL_EXECUTORS: Final = (
    *("--conf", "spark.executor.memory=512m"),
    *("--conf", "spark.sql.shuffle.partitions=2"),
)
BROKEN_RULE: Final = "Q3"  # a duplicate is planted
_CALLS: Final = 50


@attrs.frozen
class Run:
    """The results and the output of one run of `bus pipeline check`."""

    code: int
    error: str
    results: dict[str, Any]
    violations: str

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each rule."""
        return {one["rule"]: one["verdict"] for one in self.results["verdicts"]}


def record(folder: Path) -> None:
    """Leave journals in a folder: of a bus, and of channels with a planted fault."""
    with (
        Journal(folder / JOURNALS) as journal,
        open_bus("cluster", journal=journal) as bus,
    ):
        bus.register("echo", on_command=lambda message: message.payload)
        for number in range(_CALLS):
            assert bus.call("echo", number) == number
    history = clean(1, channels=8, steps=400, journals=2)
    assert plant(history, "duplicate", Random(1)) is not None
    store(history, folder / JOURNALS, slots=64)


def run(folder: Path, out: str, master: str, *more: str) -> Run:
    """Judge the journals of a folder, with paths relative to it.

    out: name of the results folder.
    more: further arguments of the command.
    """
    command = [sys.executable, "-m", "bus", "pipeline", "check"]
    command += ["--journals", JOURNALS, "--out", out, "--master", master, *more]
    # Exclude the settings of an earlier Spark session of this process.
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_PYTHON"}
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    results: dict[str, Any] = {"verdicts": [], "journals": []}
    violations = ""
    if (folder / out / "verdicts.json").exists():
        results = json.loads((folder / out / "verdicts.json").read_text())
        violations = (folder / out / "violations.jsonl").read_text()
    return Run(ended.returncode, ended.stderr, results, violations)


def differences(one: Run, other: Run) -> Sequence[str]:
    """The differences between two runs, a line each."""
    pairs = {
        "exit code": (one.code, other.code),
        "verdicts": (one.results["verdicts"], other.results["verdicts"]),
        "journals": (_journals(one), _journals(other)),
        "violations": (one.violations, other.violations),
    }
    return [
        f"{name}: {left!r} against {right!r}"
        for name, (left, right) in pairs.items()
        if left != right
    ]


def _journals(run: Run) -> list[tuple[str, int]]:
    return sorted((one["journal"], one["records"]) for one in run.results["journals"])
