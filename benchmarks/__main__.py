"""``python -m benchmarks SUITE``: measure; ``table FILE...``: print stored figures.

Without a suite, the command lists them. ``--quick`` ends within a minute. Ctrl-C prints
the figures measured so far, and writes them with ``--json``.

Exit codes: 0 success; 1 if our own job fails, or with ``--check`` if a requirement is
missed, or cannot be judged because its rival is missing or nothing could be measured; 2
wrong usage; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from benchmarks.contest import Effort, Suite, Values
from benchmarks.figure import Figure, markdown_table, terminal_table
from benchmarks.machine import machine_line

__all__ = ["SUITES", "load", "main"]

# Each is the function `suite` of the module of its name.
SUITES: Final = {
    "users": "U1 U2 U3, calls and notifications as the README teaches them",
    "threads": "T1 T2 T3 T5, between threads of one process",
    "rendezvous": "T4, connects of two threads",
    "sockets": "W1 W2 W3, a queue between two processes",
    "processes": "P1 P2 P3, commands between two processes",
    "multicast": "M1 M2 M3 P3, large messages, and from one process to four",
    "pattern": "B1, four nodes of the bus pattern",
    "machines": "N1, between two network namespaces, as root",
    "journal": "J1, the cost of a record",
    "pipeline": "S1 S2 S3 S4 S5, recorded traffic to verdicts, live and replayed",
    "durable": "D1 D2, a receiver that keeps horizons on disk",
    "web": "V1 V2, the page about a bus, and its cost to the bus",
}

_FAILED: Final = 1
_USAGE: Final = 2
_INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if not given:
            for name, text in SUITES.items():
                print(f"{name:12}{text}")
            return 0
        if given[0] == "table":
            return _table(given[1:])
        return _run(given)
    except _UsageError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return _USAGE


class _UsageError(Exception):
    """An invalid command line; the text is printed as it is."""


class _Parser(argparse.ArgumentParser):
    """A parser that leaves printing and exiting to `main`."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(message)


def load(name: str) -> Suite:
    """Import the suite of that name. Those with missing packages stay usable so."""
    suite: Suite = importlib.import_module(f"benchmarks.{name}").suite
    return suite


def _run(given: list[str]) -> int:
    parser = _Parser(prog="python -m benchmarks", description="ours and the rivals")
    parser.add_argument("name", help=f"{', '.join(SUITES)}, or table FILE...")
    parser.add_argument("--quick", action="store_true", help="a look, in a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--check", action="store_true", help="exit 1 on a missed must")
    options = parser.parse_args(given)
    if options.name not in SUITES:
        names = ", ".join(SUITES)
        raise _UsageError(f"no suite is called {options.name!r}; there are {names}")
    figures, code = _measure(options.name, Effort.of(quick=options.quick))
    if options.json is not None:
        _write(options.json, figures)
    all_met = bool(figures) and all(each.passed for each in figures if each.must)
    return code or (_FAILED if options.check and not all_met else 0)


def _measure(name: str, effort: Effort) -> tuple[list[Figure], int]:
    """Measure a suite; return its figures, and the exit code."""
    print(machine_line())
    contests, missing = load(name)(effort)
    for sentence in missing:
        print(sentence)
    if effort.is_quick:
        contests = [contest.nearest() for contest in contests]
    end = time.monotonic() + effort.limit_s
    figures: list[Figure] = []
    left_out: list[str] = []
    done: set[int] = set()
    code = 0
    try:
        for number, contest in enumerate(contests):
            now = time.monotonic()
            if now >= end:
                left_out.append(contest.label)
                continue
            print(f"measuring {contest.label} ...", file=sys.stderr, flush=True)
            until = now + (end - now) / (len(contests) - number)
            rounds: list[Mapping[str, Values]] = []
            try:
                for values in contest.rounds(effort.rounds, until):
                    rounds.append(values)  # noqa: PERF402 # those before Ctrl-C count
            except RuntimeError as error:
                print(f"{contest.label} FAILED: {error}")
                code = _FAILED
            finally:
                if rounds:
                    figures += contest.figures_of(rounds)
                    done.add(len(rounds))
    except KeyboardInterrupt:
        code = _INTERRUPTED
        print("interrupted: these are the figures measured by then")
    if left_out:
        print(f"left out by --quick, for lack of time: {', '.join(left_out)}")
    counts = " to ".join(map(str, sorted({min(done), max(done)}))) if done else "no"
    print(f"medians of {counts} rounds; ratio: ours / rival in the same round")
    print()
    print(terminal_table(figures))
    return figures, code


def _write(path: Path, figures: list[Figure]) -> None:
    text = json.dumps([figure.as_json() for figure in figures], indent=2)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise _UsageError(f"cannot write {path}: {error.strerror}") from None


def _table(given: list[str]) -> int:
    parser = _Parser(prog="python -m benchmarks table", description="for README.md")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    figures: list[Figure] = []
    for path in parser.parse_args(given).files:
        figures += _read(path)
    print(f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}: {machine_line()}")
    print()
    print(markdown_table(figures))
    return 0


def _read(path: Path) -> list[Figure]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return [Figure.from_json(entry) for entry in entries]
    except OSError as error:
        raise _UsageError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError):
        raise _UsageError(f"cannot read {path}: not a file of figures") from None


if __name__ == "__main__":
    # A run that is terminated ends its jobs, as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
