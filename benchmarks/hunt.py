"""One hunter looks for the fault of one file: ``python -m benchmarks.hunt``.

It runs in a process of its own, which ends by `os._exit`: threads may be stuck, switch
intervals and trace functions changed. It prints one line of JSON.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from time import perf_counter

import attrs

__all__ = ["Hunt", "hunt", "is_here", "main", "name_of"]

_STARTING_S_MAX = 60.0


@attrs.frozen
class Hunt:
    """The result of one hunt.

    found: True if the hunter found a fault. runs: of the program, until then.
    seconds: until then, without the start of the process.
    in_time: True if the hunter ended by itself; without a fault, it has given up.
    """

    found: bool
    runs: int
    seconds: float
    in_time: bool


def is_here(hunter: str) -> bool:
    """Return True if the package that a hunter needs is installed."""
    needs = importlib.import_module(f"benchmarks.hunters.{hunter}").NEEDS
    return needs is None or importlib.util.find_spec(needs) is not None


def name_of(hunter: str) -> str:
    """Return the name of a hunter in a table."""
    return str(importlib.import_module(f"benchmarks.hunters.{hunter}").NAME)


def hunt(hunter: str, path: Path, seed: int, limit_s: float) -> Hunt:
    """Run a hunter on the fault of a file, in a process of its own."""
    module = importlib.import_module(f"benchmarks.hunters.{hunter}")
    command = [sys.executable, "-m", "benchmarks.hunt"]
    if (launcher := getattr(module, "LAUNCHER", None)) is not None:
        command.insert(0, str(Path(sys.executable).parent / launcher))
    ran = subprocess.run(
        [*command, hunter, str(path), str(seed), str(limit_s)],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s + _STARTING_S_MAX,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    lines = ran.stdout.splitlines()
    if not lines:
        raise RuntimeError(f"{hunter} said nothing: {ran.stderr.strip()}")
    return Hunt(**json.loads(lines[-1]))


def main(arguments: list[str]) -> None:
    """Hunt, print the result, and end the process."""
    hunter, path, seed, limit_s = arguments
    module = importlib.import_module(f"benchmarks.hunters.{hunter}")
    runs = 0
    leaving = threading.Lock()

    def note() -> None:
        nonlocal runs
        runs += 1

    def leave(*, found: bool, in_time: bool) -> None:
        leaving.acquire()  # for ever: only one thread prints the result
        seconds = perf_counter() - began
        result = Hunt(found=found, runs=runs, seconds=seconds, in_time=in_time)
        os.write(1, f"\n{json.dumps(attrs.asdict(result))}\n".encode())
        os._exit(0)

    began = perf_counter()
    out_of_time = {"found": False, "in_time": False}
    timer = threading.Timer(float(limit_s), leave, kwargs=out_of_time)
    timer.daemon = True
    timer.start()
    leave(found=module.hunt(Path(path), int(seed), note), in_time=True)


if __name__ == "__main__":
    main(sys.argv[1:])
