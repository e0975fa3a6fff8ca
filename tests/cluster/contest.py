"""Two sets of journals, judged on a cluster and locally; the differences."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Any, Final

import attrs

from bus import open_bus
from bus.journal.writer import Journal
from bus.pipeline.folder import OutFolder
from tests.journal.histories import Condition, clean, plant, store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = [
    "CALLS",
    "JOURNALS",
    "SMALL_EXECUTORS",
    "TOPIC",
    "Run",
    "add",
    "differences",
    "record",
    "run",
    "when_writing",
]

JOURNALS: Final = "journals"
LIMIT_S: Final = 600.0
SMALL_EXECUTORS: Final = (
    *("--conf", "spark.executor.memory=512m"),
    *("--conf", "spark.sql.shuffle.partitions=2"),
)
TOPIC: Final = "sensor"
CALLS: Final = 50
ADDED: Final = 6
# An open segment of this size is a task of its own.
_SLOTS: Final = 420_000


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

    def __str__(self) -> str:
        said = f"\n{self.error.rstrip()}" if self.error else ""
        return (
            f"exit code {self.code}; {len(self.results['journals'])} journals,"
            f" {self.results.get('journals_read')} of them read{said}"
        )


def record(folder: Path) -> None:
    """Leave journals in a folder: of a bus, and of channels with a planted fault."""
    with (
        Journal(folder / JOURNALS, payloads=True) as journal,
        open_bus("cluster", journal=journal) as bus,
    ):
        bus.register("echo", on_command=lambda message: message.payload)
        bus.subscribe(TOPIC, lambda _: None)
        sensor = bus.register(TOPIC)
        for number in range(CALLS):
            assert bus.call("echo", number) == number
            sensor.notify(str(number))
    history = clean(1, channels=8, steps=400, journals=2)
    assert plant(history, "duplicate", Random(1)) is not None
    store(history, folder / JOURNALS, slots=64)


def add(folder: Path) -> None:
    """Add journals; each of them is a task of its own."""
    history = clean(2, channels=8, steps=400, journals=ADDED)
    # Journals and channels with other numbers than those that are there.
    history.journals += 2
    for entry in history.entries:
        entry.journal += 2
        entry.channel += 1000
    unsealed = {n: Condition(sealed=False) for n in range(2, history.journals)}
    stored = store(history, folder / "added", slots=_SLOTS, conditions=unsealed)
    for path in stored[2:]:
        path.rename(folder / JOURNALS / path.name)


def run(
    folder: Path,
    out: str,
    master: str,
    *more: str,
    meanwhile: Callable[[], None] = lambda: None,
) -> Run:
    """Judge the journals of a folder, with paths relative to it.

    out: name of the results folder.
    more: further arguments of the command.
    meanwhile: called when the command has been started.
    """
    command = [sys.executable, "-m", "bus", "pipeline", "check", "--json"]
    command += ["--journals", JOURNALS, "--out", out, "--master", master, *more]
    # Exclude the settings of an earlier Spark session of this process.
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_PYTHON"}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            meanwhile()
            printed, error = process.communicate(timeout=LIMIT_S)
        except BaseException:
            process.kill()
            raise
    results: dict[str, Any] = {"verdicts": [], "journals": []}
    if printed:
        results = json.loads(printed)
    violations = folder / out / "violations.jsonl"
    text = violations.read_text() if violations.exists() else ""
    return Run(process.returncode, error, results, text)


def when_writing(out: Path, act: Callable[[], None]) -> None:
    """Act when a worker has written the first new file of events."""
    folder = OutFolder(out)
    before, deadline = folder.event_files(), time.monotonic() + LIMIT_S
    while not folder.event_files() - before:
        assert time.monotonic() < deadline, f"no worker writes to {folder.events}"
        time.sleep(0.01)  # of other processes
    act()


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
