"""``python -m tests.simulate --runs N --seed S``: many simulated machines.

Each run is drawn from one seed: S and its successors. A run that breaks a promise
prints its story and the command that repeats it. Exit 0 if all runs pass, 1 if not.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulate.run import STEPS, Failure, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NUMBERS = ("machines", "processes", "steps")
_CHUNK = 20  # runs handed to a worker process at a time


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    again = partial(_again, **_options(given))
    seeds = range(given.seed, given.seed + given.runs)
    began = time.perf_counter()
    if given.jobs == 1:
        failed = _judge(map(again, seeds), given)
    else:
        with ProcessPoolExecutor(given.jobs) as pool:
            failed = _judge(pool.map(again, seeds, chunksize=_CHUNK), given)
            pool.shutdown(cancel_futures=True)
    seconds = time.perf_counter() - began
    rate = f"{given.runs / seconds:.0f} runs a second"
    print(f"{given.runs} runs, {failed} failed, {rate}")
    return 1 if failed else 0


def _again(seed: int, **options: Any) -> Failure | None:
    """Execute one run; collect its garbage afterwards, not during the run.

    All objects stay alive until the end of the run, so a collection would free nothing.
    """
    gc.disable()
    try:
        return run(seed, **options)
    finally:
        gc.enable()


def _judge(runs: Iterator[Failure | None], given: argparse.Namespace) -> int:
    """Return how many runs failed; stop at the first one unless `--go-on` is given."""
    failed = 0
    for failure in runs:
        if failure is None:
            continue
        failed += 1
        if not given.go_on:
            _tell(failure.seed, given)
            break
        print(f"seed {failure.seed}: {failure.error}", flush=True)
    return failed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulate")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--machines", type=int, default=1)
    parser.add_argument("--processes", type=int, default=3, help="of each machine")
    parser.add_argument("--steps", type=int, default=STEPS, help="before faults stop")
    parser.add_argument(
        "--recorded", action="store_true", help="with journals, not only one in five"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--go-on", action="store_true", help="after a failure, too")
    parser.add_argument("--lines", type=int, default=200, help="of a story, its last")
    return parser


def _options(given: argparse.Namespace) -> dict[str, Any]:
    """Return the options that determine a run besides its seed."""
    numbers = {name: getattr(given, name) for name in _NUMBERS}
    return {**numbers, "recorded": given.recorded or None}


def _tell(seed: int, given: argparse.Namespace) -> None:
    """Print the story of a failed run, and the command that repeats it."""
    failure = run(seed, verbose=True, **_options(given))
    assert failure is not None, "a run is drawn from its seed alone"
    print("\n".join(failure.story[-given.lines :]))
    print(f"seed {seed}: {failure.error}")
    words = " ".join(f"--{name} {getattr(given, name)}" for name in _NUMBERS)
    words += " --recorded" if given.recorded else ""
    print(f"again: python -m tests.simulate --runs 1 --seed {seed} {words}")


if __name__ == "__main__":
    sys.exit(main())
