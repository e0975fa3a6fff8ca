"""``python -m benchmarks NAME``: run a suite; ``table FILE...``: print its figures.

``--quick`` ends within a minute. Ctrl-C prints the figures measured so far.

Exit codes: 0 success; 1 with ``--check`` if a requirement is missed, or cannot be
judged because its rival is missing or nothing could be measured; 2 wrong usage; 130
after Ctrl-C.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from benchmarks import suites
from benchmarks.figure import Figure
from benchmarks.machine import machine_line
from benchmarks.suites import Effort
from benchmarks.table import markdown_table, terminal_table

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_USAGE = 2
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] == ["table"]:
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


def _run(given: list[str]) -> int:
    parser = _Parser(prog="python -m benchmarks", description="ours and the rivals")
    parser.add_argument("name", help=f"{', '.join(suites.SUITES)}, or table FILE...")
    parser.add_argument("--quick", action="store_true", help="a look, in a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--check", action="store_true", help="exit 1 on a missed must")
    options = parser.parse_args(given)
    if options.name not in suites.SUITES:
        names = ", ".join(suites.SUITES)
        raise _UsageError(f"no suite is called {options.name!r}; there are {names}")
    figures, code = _measure(options.name, Effort.of(quick=options.quick))
    if options.json is not None:
        _write(options.json, figures)
    return code or int(options.check and not _all_met(figures))


def _measure(name: str, effort: Effort) -> tuple[list[Figure], int]:
    """Measure a suite; return its figures, and the exit code: 130 after Ctrl-C."""
    print(machine_line())
    contests, missing = suites.load(name)(effort)
    for sentence in missing:
        print(sentence)
    if effort.is_quick:
        contests = [contest.nearest() for contest in contests]
    end = time.monotonic() + effort.limit_s
    figures: list[Figure] = []
    left_out: list[str] = []
    code = 0
    for number, contest in enumerate(contests):
        label = f"{contest.figure} {contest.case}"
        now = time.monotonic()
        if now >= end:
            left_out.append(label)
            continue
        print(f"measuring {label} ...", file=sys.stderr, flush=True)
        until = now + (end - now) / (len(contests) - number)
        rounds = []
        try:
            for values in contest.rounds(effort.rounds, until):
                rounds.append(values)  # noqa: PERF402 # those before Ctrl-C count
        except KeyboardInterrupt:
            code = _INTERRUPTED
        if rounds:
            figures.append(contest.figure_of(rounds))
        if code:
            print("interrupted: these are the figures measured by then")
            break
    if left_out:
        print(f"left out by --quick, for lack of time: {', '.join(left_out)}")
    print(f"medians of {effort.rounds} rounds; ratio: ours / rival in the same round")
    print()
    print(terminal_table(figures))
    return figures, code


def _write(path: Path, figures: list[Figure]) -> None:
    text = json.dumps([figure.as_json() for figure in figures], indent=2)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise _UsageError(f"cannot write {path}: {error.strerror}") from None


def _all_met(figures: list[Figure]) -> bool:
    return bool(figures) and all(figure.passed for figure in figures if figure.must)


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
