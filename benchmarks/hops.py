"""The calls and files of one command to another process: ``python -m benchmarks.hops``.

``--way`` prints the calls themselves, in order, instead of their number in each file.
``--idle`` sets the seconds of silence before; after some, the comm threads take part.

A command travels from the task's thread by way of the links to a callback in the other
process. Every Python call on that way is recorded, in each thread of both processes,
from `Task.command` to the callback. The bus is warm and quiet: both sides have spoken,
and nothing else is under way. The far process is this file run as a program; a signal
tells it when to begin, since a message would be recorded itself.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Final

import bus
import queuebroker
from benchmarks.job import start_program
from benchmarks.machine import machine_line
from bus import BusConfig, Incoming, Role, open_bus

__all__ = ["files_of", "main", "measure"]

_LIMIT_S: Final = 30.0
_WARM: Final = 200  # commands before the one that is counted
_RUNS: Final = 5
_QUIET_S: Final = 0.2  # until what follows the last of them is done: acknowledgements
_FOLDERS: Final = {
    Path(str(package.__file__)).parent: package.__name__
    for package in (bus, queuebroker)
}

# The calls on the near and on the far side, in order, each named by its file and its
# function: ``bus/api/task.py:Task.command``.
Hops = tuple[list[str], list[str]]


def files_of(calls: Iterable[str]) -> Counter[str]:
    """Count the calls in each file."""
    return Counter(call.partition(":")[0] for call in calls)


class _Recorder:
    """Records the calls of our packages in all threads that begin after `install`."""

    def __init__(self) -> None:
        self.calls: list[str] | None = None  # None: not now

    def install(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        calls = self.calls
        if calls is not None and event == "call":
            path = Path(frame.f_code.co_filename)
            for folder, name in _FOLDERS.items():
                if path.is_relative_to(folder):
                    file = f"{name}/{path.relative_to(folder)}"
                    calls.append(f"{file}:{frame.f_code.co_qualname}")

    def take(self) -> list[str]:
        """Stop recording; return the calls so far."""
        calls, self.calls = self.calls, None
        return calls or []


def measure(idle_s: float = _QUIET_S) -> Hops:
    """Record the calls of one command, after ``idle_s`` seconds without one.

    Raises:
        RuntimeError: the far process did not answer in time.
    """
    recorder = _Recorder()
    with (
        tempfile.TemporaryDirectory(prefix="qb-") as folder,
        start_program(
            [sys.executable, "-m", "benchmarks.hops", "--far", folder]
        ) as far,
    ):
        assert far.stdout is not None
        far.stdout.readline()
        recorder.install()
        try:
            with open_bus(process="near", config=BusConfig(run_directory=folder)) as b:
                task = b.register("near", thread=b.here())
                b.wait_for("sink", timeout=_LIMIT_S)
                for _ in range(_WARM):
                    task.call("sink", b"", timeout=_LIMIT_S)
                # No call tells that the acknowledgements of both sides are out.
                time.sleep(idle_s)
                far.send_signal(signal.SIGUSR1)
                far.stdout.readline()
                recorder.calls = []
                task.command("sink", b"the one")
                line = far.stdout.readline()
                near = recorder.take()
                b.call("end", timeout=_LIMIT_S)
        finally:
            threading.setprofile(None)
            sys.setprofile(None)
    if not line:
        raise RuntimeError(f"no command came within {_LIMIT_S:g} s")
    return near, json.loads(line)


def _be_far(folder: str) -> None:
    recorder, done = _Recorder(), threading.Event()
    recorder.install()

    def take(message: Incoming) -> bytes:
        if message.payload:
            print(json.dumps(recorder.take()), flush=True)
        return b""

    def begin(*_: object) -> None:
        # Before the line is out: the command that it requests may arrive at once.
        recorder.calls = []
        print("counts", flush=True)

    signal.signal(signal.SIGUSR1, begin)
    with open_bus(
        process="far", role=Role.MASTER, config=BusConfig(run_directory=folder)
    ) as b:
        b.register("end", on_command=lambda _: done.set())
        b.register("sink", on_command=take, thread=b.thread())
        print("ready", flush=True)
        done.wait(_LIMIT_S)


def main(idle_s: float, *, way: bool = False) -> None:
    """Print the calls of one command, by file.

    idle_s: as for `measure`. way: the calls themselves, in order.
    """
    # The fewest: if a deadline passes meanwhile, the comm thread makes a hundred more.
    runs = [measure(idle_s) for _ in range(_RUNS)]
    hops = min(runs, key=lambda each: sum(map(len, each)))
    print(machine_line())
    print()
    near, far = map(files_of, hops)
    if way:
        for side, calls in zip(("near", "far"), hops, strict=True):
            print(f"{side}:", *calls, sep="\n  ")
    else:
        print("near   far  file")
        for file in sorted(near.keys() | far.keys()):
            print(f"{near[file]:4}  {far[file]:4}  {file}")
    print(f"{(near + far).total()} calls in {len(near + far)} files")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hops")
    parser.add_argument("--way", action="store_true", help="print the calls in order")
    parser.add_argument("--idle", type=float, default=_QUIET_S, help="seconds before")
    parser.add_argument("--far", help=argparse.SUPPRESS)
    given = parser.parse_args()
    _be_far(given.far) if given.far else main(given.idle, way=given.way)
