"""``python -m queuebroker.testing FILE[:program]``: explore a program from a shell.

The command explores the program twice. The first pass has switch points only at locks
and threads: it is fast and finds faults among guarded steps. In the second pass each
instruction of the file is a switch point, too: it finds unguarded accesses.

Exit codes: 0 all schedules held, 1 one did not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from queuebroker._files import escape_output
from queuebroker.testing import Failure, explore, replay
from queuebroker.testing.program import NotPlainError
from queuebroker.testing.program_file import ProgramFile, ProgramFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queuebroker.testing.report import Report

__all__ = ["main"]

_USAGE: Final = 2
_DEFAULT_NAME: Final = "program"
_INSTRUCTIONS_BOUND: Final = 1
_INSTRUCTIONS_SCHEDULES_MAX: Final = 2_000
_BYTECODE: Final = "bytecode:"  # before the choices of a schedule of the second kind


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    escape_output()
    try:
        options = _parsed(arguments)
        path, name = _place(options.program)
        with contextlib.ExitStack() as stack:
            with _quiet():
                program = stack.enter_context(ProgramFile.opened(path, name))
            return _explore(program, options)
    except (_UsageError, ProgramFileError, NotPlainError, _TracedError) as error:
        print(f"queuebroker.testing: {error}", file=sys.stderr)
        return _USAGE


class _UsageError(Exception):
    """An invalid command line; the text is the message to print."""


class _TracedError(Exception):
    """A debugger or the like is active, and the explorer cannot run beside it."""


class _Parser(argparse.ArgumentParser):
    """A parser that leaves printing and exiting to `main`."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(message)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m queuebroker.testing",
        description="Run a threaded program under many schedules, and print the story"
        " of the first schedule that fails.",
    )
    parser.add_argument(
        "program",
        metavar="FILE[:program]",
        help="a function without parameters, or with one, the run; without a name:"
        " the function 'program'",
    )
    parser.add_argument(
        "--schedules",
        type=_positive,
        metavar="N",
        help="try at most N up to the bound, then N at random (default: 20,000 and"
        f" 300; within lines {_INSTRUCTIONS_SCHEDULES_MAX:,} and 300)",
    )
    parser.add_argument(
        "--bound",
        type=_number,
        metavar="N",
        help="the maximum number of preemptions in a schedule (default: 2; within"
        " lines 1)",
    )
    parser.add_argument(
        "--seed",
        type=_seed,
        metavar="S",
        help="repeat the random schedules of an earlier run; S:I repeats one of them",
    )
    parser.add_argument(
        "--replay",
        type=_choices,
        metavar="CHOICES",
        help="run only the schedule that a story ends with, such as 0,0,1",
    )
    return parser.parse_args(arguments)


def _number(text: str) -> int:
    if not text.isdecimal():
        msg = f"{text!r} is no number of 0 or more"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        msg = f"{text!r} is no number of 1 or more"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _seed(text: str) -> str:
    if not re.fullmatch(r"\d+((:pct)?:\d+)?", text):
        msg = f"{text!r} is no number, nor number:number"
        raise argparse.ArgumentTypeError(msg)
    return text


def _choices(text: str) -> tuple[list[int], bool]:
    """Return the choices, and True if their schedule switches within lines."""
    numbers = text.removeprefix(_BYTECODE)
    if not re.fullmatch(r"\[?(\d+(, ?\d+)*)?\]?", numbers):
        msg = f"{text!r} are no numbers with commas between"
        raise argparse.ArgumentTypeError(msg)
    return [int(number) for number in re.findall(r"\d+", numbers)], numbers != text


def _place(text: str) -> tuple[Path, str]:
    """Split FILE:program; a file may have a colon in its name."""
    path, colon, name = text.rpartition(":")
    if not colon or Path(text).exists():
        return Path(text), _DEFAULT_NAME
    return Path(path), name or _DEFAULT_NAME


def _explore(program: ProgramFile, options: argparse.Namespace) -> int:
    within = False
    held = []
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(4), "big")
    try:
        if options.replay is not None:
            choices, within = options.replay
            # With its output: a replay is for watching the program run.
            replay(program, choices, **_points(program, within=within))
            print(f"{options.program} held under this schedule")
            return 0
        for within in (False, True):
            with _quiet():
                report = explore(
                    program,
                    **_amounts(options, within=within),
                    **_points(program, within=within),
                )
            held.append(_extent(report))
    except Failure as failure:
        print(_with_command(failure, options.program, within=within))
        return 1
    except RuntimeError as error:
        raise _TracedError(str(error)) from error
    extent = f"in {held[0]}, and within lines in {held[1]}"
    print(f"{options.program} held {extent} (seed {options.seed})")
    return 0


def _points(program: ProgramFile, *, within: bool) -> dict[str, Any]:
    """Return the options that set the switch points."""
    bytecode = program.with_code if within else []
    return {"modules": program.modules, "bytecode": bytecode}


def _amounts(options: argparse.Namespace, *, within: bool) -> dict[str, Any]:
    """Return the amounts to explore: from the command line, else our defaults."""
    amounts: dict[str, Any] = {"seed": options.seed}
    if within:
        amounts["bound"] = _INSTRUCTIONS_BOUND
        amounts["limit"] = _INSTRUCTIONS_SCHEDULES_MAX
    if options.bound is not None:
        amounts["bound"] = options.bound
    if options.schedules is not None:
        amounts |= {"limit": options.schedules, "random": options.schedules}
    return amounts


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the program's output, which would appear a thousand times."""
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
    ):
        yield


def _with_command(failure: Failure, program: str, *, within: bool) -> str:
    """Return the story, with the replay hint for shells instead of Python."""
    choices = ",".join(map(str, failure.schedule)) or "0"
    if within:
        choices = f"{_BYTECODE}{choices}"
    command = f"python -m queuebroker.testing {program} --replay {choices}"
    return "\n".join(
        f"replay with: {command}" if line.startswith("replay with: ") else line
        for line in failure.story.splitlines()
    )


def _extent(report: Report) -> str:
    """Return the extent of an exploration in words."""
    extent = _counted(report.schedules, "schedule")
    exhausted = [each.bound for each in report.rounds if each.exhausted]
    if exhausted:
        extent += f", all up to {_counted(exhausted[-1], 'preemption')}"
    return extent


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
