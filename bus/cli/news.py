"""Progress and events of the demo, as text.

Progress is shown in the status line. Events, such as a worker that disconnected, are
printed as permanent lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.demo.messages import Damaged, HungUp, PassDone, Rescued, Took
from bus.journal.wording import counted, printable

if TYPE_CHECKING:
    from bus.cli.progress import Progress
    from bus.demo.files import FileList
    from bus.demo.messages import News

__all__ = ["Ticker"]

# The outcome that the bus reports for a killed worker's file, and its meaning.
_HELD: Final = {"in doubt": "not acknowledged", "peer lost": "begun, not answered"}


class Ticker:
    """Shows news of the tasks, and the progress of the pass."""

    def __init__(self, files: FileList, progress: Progress) -> None:
        self._files = files
        self._progress = progress
        self._count = 0
        self._bytes = 0

    def tell(self, news: News) -> None:
        """Show one piece of news."""
        match news:
            case Took(pass_number=number, size=size):
                self._count += 1
                self._bytes += size
                self._progress.say(
                    f"pass {number}: {self._count:,} of"
                    f" {counted(len(self._files), 'file')},"
                    f" {self._bytes / 1e6:,.1f} MB"
                )
            case PassDone():
                self._count = self._bytes = 0
            case Damaged(worker=worker):
                self._progress.keep(
                    f"a file from {worker} arrived damaged: {worker} sends it again"
                )
            case HungUp(worker=worker, drained=drained, unfinished=unfinished):
                name = printable(self._files.paths[unfinished])
                self._progress.keep(
                    f"{worker} disconnected in the middle of {name}: the collector"
                    f" drained {counted(drained, 'message')} after that, another"
                    " worker did the file"
                )
            case Rescued(worker=worker, index=index, told=told, by=by):
                name = printable(self._files.paths[index])
                self._progress.keep(
                    f"{worker} was killed; reported for {name}: {told}"
                    f" ({_HELD[told]}); {by} did the file instead"
                )
