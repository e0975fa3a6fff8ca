"""The progress display of a verb: a status line, on a terminal only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from typing import Self

    from rich.status import Status

__all__ = ["Progress"]


class Progress:
    """A context manager that shows progress; for use by one thread.

    stderr: show it on stderr, for verbs that print only their result to stdout.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        self._stderr = stderr
        self._status: Status | None = None

    def __enter__(self) -> Self:
        stream = sys.stderr if self._stderr else sys.stdout
        if stream is not None and stream.isatty():  # None: closed by the parent
            from rich.console import Console  # noqa: PLC0415 - for terminals only

            self._status = Console(stderr=self._stderr).status("…")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, what: str) -> None:
        """Replace the text of the status line; do nothing without a terminal."""
        if self._status is not None:
            self._status.update(f"{what} …")

    def keep(self, line: str) -> None:
        """Print a permanent line."""
        if self._status is not None:
            self._status.console.print(line, markup=False, highlight=False)
        else:
            click.echo(line, err=self._stderr)
