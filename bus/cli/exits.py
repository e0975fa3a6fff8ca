"""The exit codes of a verb, and the one line that explains a failure.

2 for a damaged file of keys, 124 for a timeout, 4 if a recording cannot be read or the
run directory cannot hold a bus, else 1; see `bus.cli`.
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
    from collections.abc import Iterator

__all__ = [
    "FAILED",
    "FORBIDDEN",
    "TIMED_OUT",
    "USAGE",
    "fail",
    "interruptible",
    "one_line",
]

FAILED: Final = 1
USAGE: Final = 2
FORBIDDEN: Final = 4  # by the system; see the exit codes in `bus.cli`
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


@contextmanager
def interruptible() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that a verb ends in order; a context manager."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
