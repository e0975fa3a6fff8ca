"""The processes of a campaign, the kills, and the check at the end.

Spark's checkpoint tells which records each batch holds, so the check needs nothing from
the killed processes. A gateway that is killed may lose messages of the last batch that
it claimed: only this batch may be incomplete.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Self

from bus import open_bus
from bus.errors import PipelineError
from bus.journal.follower import EARLIEST
from bus.journal.reader import open_journals
from bus.model.payload import decode
from bus.pipeline.spool import Spool
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path

    from bus import Incoming

__all__ = ["Campaign"]

KINDS: Final = ("sensor", "query", "gateway")
# Another query takes many seconds to start.
WEIGHTS: Final = (4, 1, 4)
LIFE_S: Final = 1.0
SETTLE_S: Final = 1800.0


class Campaign:
    """One sensor, one query, one gateway; each is started again after its kill."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder: Final = folder
        self._random: Final = random.Random(seed)
        self._spool: Final = Spool.at(folder / "spool")
        (folder / "journals").mkdir()
        self._parts: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()
        self._got: list[dict[str, Any]] = []
        self._excused: set[int] = set()
        self._batches_before = 0

    def __enter__(self) -> Self:
        os.environ["BUS_RUN_DIR"] = str(self._folder / "run")
        bus = self._stack.enter_context(open_bus("kills"))
        bus.register("checker").subscribe("result", self._receive, capacity=100_000)
        for kind in KINDS:
            self._start(kind)
        return self

    def __exit__(self, *_: object) -> None:
        for kind in KINDS:
            self._kill(kind)
        self._stack.close()

    def strike(self) -> str:
        """Kill one process at a random moment and start another; return its kind."""
        (kind,) = self._random.choices(KINDS, WEIGHTS)
        part = self._parts[kind]
        until(lambda: self._works(kind), f"the {kind} started", limit_s=SETTLE_S)
        try:
            part.wait(self._random.uniform(0, LIFE_S))
        except subprocess.TimeoutExpired:
            self._kill(kind)
            self._start(kind)
        else:
            raise AssertionError(f"{kind} ended by itself: see {self._folder}")
        return kind

    def settle(self) -> str:
        """Let all that was recorded arrive; check it, and return the totals.

        Raises:
            AssertionError: a message was lost or doubled.
        """
        self._kill("query")
        self._parts["sensor"].terminate()
        self._parts["sensor"].wait()
        self._start("query", "once")
        code = self._parts["query"].wait(SETTLE_S)
        assert code == 0, f"the query failed: see {self._folder}"
        until(lambda: not self._spool.ready(), "the gateway took the last batch")
        self._parts["gateway"].terminate()
        assert self._parts["gateway"].wait() == 0
        expected = self._expected()
        total = sum(map(len, expected.values()))
        lost = [b for b in expected if b not in self._excused]
        due = sum(len(expected[batch]) for batch in lost)
        until(lambda: len(self._got) >= due, "the results were delivered")
        return self._check(expected, total)

    def _check(self, expected: dict[int, list[str]], total: int) -> str:
        got: dict[int, list[tuple[int, str]]] = {}
        for row in self._got:
            got.setdefault(row["batch"], []).append((row["row"], row["value"]))
        assert len({row["query"] for row in self._got}) == 1
        missing = 0
        for number, values in expected.items():
            found = [value for _, value in sorted(got.pop(number, []))]
            if number in self._excused:
                missing += len(values) - len(found)
                assert not Counter(found) - Counter(values), f"batch {number}"
            else:
                assert sorted(found) == sorted(values), f"batch {number}"
        assert not got, f"batches that no checkpoint names: {sorted(got)}"
        return (
            f"{total} messages in {len(expected)} batches, each once;"
            f" {missing} lost with a gateway"
        )

    def _expected(self) -> dict[int, list[str]]:
        """Return the messages of each batch, by the positions in the checkpoint."""
        recorded = self._recorded()
        batches: dict[int, list[str]] = {}
        start = EARLIEST
        folder = self._folder / "checkpoint" / "offsets"
        for number in sorted(int(path.name) for path in folder.glob("[0-9]*")):
            end = json.loads((folder / str(number)).read_text().splitlines()[-1])
            batches[number] = [
                recorded.pop((key, n))
                for key, until_n in end.items()
                for n in range(start.get(key, 0), until_n)
                if (key, n) in recorded
            ]
            start = end
        assert not recorded, f"{len(recorded)} recorded messages are in no batch"
        return batches

    def _recorded(self) -> dict[tuple[str, int], str]:
        """Return all recorded messages, each by its first record."""
        found: dict[tuple[str, int], str] = {}
        seen: set[str] = set()
        for journal in open_journals(self._folder / "journals"):
            for record in journal.records():
                encoded = journal.payload(record)
                if encoded is None or (value := decode(encoded)) in seen:
                    continue
                assert isinstance(value, str)
                seen.add(value)
                found[f"{journal.id:016x}", record.n] = value
        return found

    def _receive(self, message: Incoming) -> None:
        assert not message.gap
        self._got.append(message.payload)

    def _start(self, kind: str, how: str = "on") -> None:
        if kind == "query":
            self._batches_before = self._batches()
        spool = str(self._folder / "spool")
        arguments = {
            "sensor": ["tests.spark_kills.sensor", str(self._folder / "journals")],
            "query": ["tests.spark_kills.query", str(self._folder), how],
            "gateway": ["bus", "pipeline", "gateway", spool, "--bus", "kills"],
        }
        with (self._folder / f"{kind}.log").open("wb") as log:
            self._parts[kind] = subprocess.Popen(
                [sys.executable, "-m", *arguments[kind]],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _works(self, kind: str) -> bool:
        """Return True if a process was started and has done some work since then."""
        if kind == "sensor":
            return "started\n" in (self._folder / f"{kind}.log").read_text()
        if kind == "query":
            return self._batches() > self._batches_before
        try:
            with self._spool.locked():
                return False
        except PipelineError:
            return True

    def _batches(self) -> int:
        return len(list((self._folder / "checkpoint" / "offsets").glob("[0-9]*")))

    def _kill(self, kind: str) -> None:
        part = self._parts[kind]
        if part.poll() is None:
            os.killpg(part.pid, signal.SIGKILL)
        part.wait()
        if kind == "gateway":
            claimed = (self._spool.path / "claimed").glob("*.json")
            self._excused |= {json.loads(p.read_text())["number"] for p in claimed}
