"""What moves while the demo works: a line on a terminal, nothing where there is none.

What is worth keeping, a worker that hung up, is said as a line of its own.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from bus.cli.text import printable
from bus.demo.messages import HungUp, PassDone, Took

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rich.status import Status

    from bus.demo.files import FileList
    from bus.demo.messages import News

__all__ = ["Progress"]


class Progress:
    """Shows progress while its block lasts; every method from one thread."""

    def __init__(self, files: FileList) -> None:
        self._files = files
        self._status: Status | None = None
        self._count = 0
        self._bytes = 0

    def __enter__(self) -> Self:
        if sys.stdout.isatty():
            from rich.console import Console  # noqa: PLC0415 - for terminals only

            self._status = Console().status("…")
            self._status.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, what: str) -> None:
        """Show what is being done."""
        if self._status is not None:
            self._status.update(f"{what} …")

    def tell(self, news: News) -> None:
        """Show news of the tasks."""
        match news:
            case Took(turn=turn, size=size):
                self._count += 1
                self._bytes += size
                self.say(
                    f"pass {turn}: {self._count:,} of {len(self._files):,} files,"
                    f" {self._bytes / 1e6:,.1f} MB"
                )
            case PassDone():
                self._count = self._bytes = 0
            case HungUp(worker=worker, drained=drained, unfinished=unfinished):
                name = "its file"
                if unfinished is not None:
                    name = printable(self._files.paths[unfinished])
                messages = "1 message" if drained == 1 else f"{drained} messages"
                self._print(
                    f"{worker} hung up in the middle of {name}: the collector drained"
                    f" {messages} after that, another worker did the file"
                )

    def _print(self, line: str) -> None:
        if self._status is not None:
            self._status.console.print(line, markup=False, highlight=False)
        else:
            click.echo(line)
