"""The processes of a campaign, the kills, and the check at the end.

Spark's checkpoint tells which records each batch holds, so the check needs nothing from
the killed processes. A gateway that is killed may lose messages of the last batch that
it claimed: only this batch may be incomplete. A recorder that is killed misses messages
until it runs again, but it keeps the recorded ones, and its numbers show each gap.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Self

from bus import open_bus
from bus.errors import JournalError, PipelineError
from bus.journal.follower import EARLIEST, Follower
from bus.journal.reader import StoredJournal, open_journals
from bus.model.payload import decode
from bus.pipeline.spool import Spool
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bus import Bus, Incoming
    from bus.journal.follower import Position

__all__ = ["Campaign"]

KINDS: Final = ("sensor", "recorder", "query", "gateway")
# Another query takes many seconds to start.
WEIGHTS: Final = (4, 4, 1, 4)
EVERY_S: Final = 0.02  # between two notifications for the recorder
BUS: Final = ("--bus", "kills")
LIFE_S: Final = 1.0
SETTLE_S: Final = 1800.0


class Campaign:
    """One process of each kind; each is started again after its kill.

    A thread here notifies for the recorder.
    """

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
        self._tapped_before = 0
        self._kept: set[int] = set()  # messages that a recorder had written
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        os.environ["BUS_RUN_DIR"] = str(self._folder / "run")
        bus = self._stack.enter_context(open_bus("kills"))
        bus.register("checker").subscribe("result", self._receive, capacity=100_000)
        notifier = threading.Thread(target=self._notify, args=(bus,))
        notifier.start()
        self._stack.callback(notifier.join)
        self._stack.callback(self._ended.set)
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
        self._await(kind)
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
        for kind in ("sensor", "recorder"):
            self._await(kind)
            self._parts[kind].terminate()
            assert self._parts[kind].wait() == 0, f"{kind}: see {self._folder}"
        recorded, missed = self._check_recorded()
        _settled(self._is_read, "the query read all")
        self._kill("query")
        _settled(lambda: not self._spool.ready(), "the gateway took the last batch")
        self._parts["gateway"].terminate()
        assert self._parts["gateway"].wait() == 0
        expected = self._expected()
        total = sum(map(len, expected.values()))
        lost = [b for b in expected if b not in self._excused]
        due = sum(len(expected[batch]) for batch in lost)
        _settled(lambda: len(self._got) >= due, "the results were delivered")
        return f"{self._check(expected, total)}; {recorded} recorded, {missed} missed"

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

    def _check_recorded(self) -> tuple[int, int]:
        """Return how many messages the recorders wrote, and missed in between."""
        found: list[int] = []
        for recording in self._recordings():
            for (mid, number), (next_mid, next_number) in itertools.pairwise(recording):
                assert next_number - number == next_mid - mid, "a gap is not counted"
            found += [number for _, number in recording]
        assert len(found) == len(set(found)), "a message was recorded twice"
        assert self._kept <= set(found), "a recorded message is lost"
        return len(found), max(found) - min(found) + 1 - len(found)

    def _recordings(self) -> list[list[tuple[int, int]]]:
        """Return the messages of each recorder: the number of the record, its own."""
        recordings = []
        for path in (self._folder / "journals").glob("*/*"):
            try:
                journal = StoredJournal(path)
            except JournalError:
                continue  # it is being made
            messages = [
                (record.mid, int(text[-1]))
                for record in journal.records()
                if (encoded := journal.payload(record)) is not None
                and (text := str(decode(encoded)).split("/"))[0] == "tapped"
            ]
            journal.close()
            if messages:
                recordings.append(messages)
        return recordings

    def _tapped(self) -> int:
        return sum(map(len, self._recordings()))

    def _notify(self, bus: Bus) -> None:
        task = bus.register("tapped", thread=bus.here())
        number = 0
        while not self._ended.wait(EVERY_S):
            task.notify(f"tapped/{number}")
            number += 1

    def _expected(self) -> dict[int, list[str]]:
        """Return the messages of each batch, by the positions in the checkpoint."""
        recorded = self._recorded()
        batches: dict[int, list[str]] = {}
        start = EARLIEST
        folder = self._folder / "checkpoint" / "offsets"
        for number in sorted(int(path.name) for path in folder.glob("[0-9]*")):
            end = _position(folder / str(number))
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

    def _is_read(self) -> bool:
        """Return True if the query has committed all that was recorded."""
        assert self._parts["query"].poll() is None, f"query: see {self._folder}"
        checkpoint = self._folder / "checkpoint"
        numbers = (int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
        last = max(numbers, default=None)
        if last is None:
            return False
        read = _position(checkpoint / "offsets" / str(last))
        ends = Follower(str(self._folder / "journals")).ends()
        return all(read.get(key, 0) >= end for key, end in ends.items())

    def _start(self, kind: str) -> None:
        if kind == "query":
            self._batches_before = self._batches()
        if kind == "recorder":
            self._tapped_before = self._tapped()
        journals = str(self._folder / "journals")
        spool = str(self._folder / "spool")
        arguments = {
            "sensor": ["tests.spark_kills.sensor", journals],
            "recorder": ["bus", "record", "tapped", *BUS, "--out", journals],
            "query": ["tests.spark_kills.query", str(self._folder)],
            "gateway": ["bus", "pipeline", "gateway", spool, *BUS],
        }
        with (self._folder / f"{kind}.log").open("wb") as log:
            self._parts[kind] = subprocess.Popen(
                [sys.executable, "-m", *arguments[kind]],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _await(self, kind: str) -> None:
        _settled(lambda: self._works(kind), f"the {kind} started")

    def _works(self, kind: str) -> bool:
        """Return True if a process was started and has done some work since then."""
        if kind == "sensor":
            return "started\n" in (self._folder / f"{kind}.log").read_text()
        if kind == "query":
            return self._batches() > self._batches_before
        if kind == "recorder":
            return self._tapped() > self._tapped_before
        try:
            with self._spool.locked():
                return False
        except PipelineError:
            return True

    def _batches(self) -> int:
        return len(list((self._folder / "checkpoint" / "offsets").glob("[0-9]*")))

    def _kill(self, kind: str) -> None:
        part = self._parts[kind]
        if kind == "recorder":
            self._kept |= {number for each in self._recordings() for _, number in each}
        if part.poll() is None:
            os.killpg(part.pid, signal.SIGKILL)
        part.wait()
        if kind == "gateway":
            claimed = (self._spool.path / "claimed").glob("*.json")
            self._excused |= {json.loads(p.read_text())["number"] for p in claimed}


def _position(path: Path) -> Position:
    """Return the position in a file of the checkpoint."""
    position: Position = json.loads(path.read_text().splitlines()[-1])
    return position


def _settled(condition: Callable[[], bool], what: str) -> None:
    until(condition, what, limit_s=SETTLE_S)
