"""The exit codes of a verb, and the one line that explains a failure.

2 for a damaged file of keys, 124 for a timeout, 4 if the run directory cannot hold a
bus or a file cannot be read, else 1; see `bus.cli`.
"""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

import click

from bus.errors import BusError, CommandTimeoutError, JournalError
from bus.journal.wording import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "ERROR",
    "FAILED",
    "TIMED_OUT",
    "USAGE",
    "fail",
    "finish",
    "interruptible",
    "one_line",
]

FAILED: Final = 1
USAGE: Final = 2
ERROR: Final = 4  # of the system, or in a file
TIMED_OUT: Final = 124


@contextmanager
def one_line() -> Iterator[None]:
    """Print an error of the bus in one line, and exit; a context manager."""
    try:
        yield
    except CommandTimeoutError as error:
        fail(str(error), TIMED_OUT)
    except JournalError:
        raise  # the verbs without a bus report it in the same way
    except BusError as error:
        fail(str(error))


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Print an error message in one line on stderr, and exit with a code."""
    click.echo(f"bus: {printable(message)}", err=True)
    sys.exit(code)


def finish(problems: Iterable[str], *, failed: bool = False) -> NoReturn:
    """Print each problem as one line on stderr, and exit.

    failed: True for exit code 1, which takes precedence.
    """
    code = FAILED if failed else 0
    for problem in problems:
        click.echo(f"bus: {printable(problem)}", err=True)
        code = code or ERROR
    sys.exit(code)


@contextmanager
def interruptible(handler: Callable[..., object] | None = None) -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that a verb ends in order; a context manager.

    handler: called at either of them, in place of a `KeyboardInterrupt`, which could
      come between two steps that belong together.
    """
    numbers = [signal.SIGTERM] if handler is None else [signal.SIGINT, signal.SIGTERM]
    new = handler or signal.default_int_handler
    before = [signal.signal(number, new) for number in numbers]
    try:
        yield
    finally:
        for number, former in zip(numbers, before, strict=True):
            signal.signal(number, former)
