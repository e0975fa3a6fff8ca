"""Progress and events of the demo, as text.

Progress is shown in the status line. Events, such as a worker that disconnected, are
printed as permanent lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.demo.messages import Damaged, HungUp, Linked, PassDone, Rescued, Took
from bus.demo.worker_group import FAR, NEAR
from bus.journal.wording import counted, printable

if TYPE_CHECKING:
    from bus.cli.progress import Progress
    from bus.demo.files import FileList
    from bus.demo.messages import Event

__all__ = ["Ticker"]

# The code that a program needs without the bus, shown once for each event.
_OTHERWISE: Final = {
    HungUp: "no message was lost; without the bus, that takes receipts and a drain",
    Rescued: (
        "the bus reports which commands were started, and which are in doubt; without"
        " it, that takes heartbeats, timeouts, and a table of open requests"
    ),
}
# The outcome that the bus reports for a lost worker's file, and its meaning.
_HELD: Final = {"in doubt": "not acknowledged", "peer lost": "started, not answered"}
_LINKED: Final = {
    "cut": f"the link between {NEAR} and {FAR} is cut: no byte passes, nothing closes",
    "lost": f"after {{:.1f}} s of silence, {NEAR} reports each worker in {FAR} lost",
    "healed": "after {:.1f} s, the link is whole again",
    "restored": f"{{:.1f}} s later, {NEAR} reports each worker in {FAR} again",
}


class Ticker:
    """Shows the events of the tasks, and the progress of the pass.

    two_machines: True if a lost worker was not killed, but cut off from this machine.
    """

    def __init__(
        self, files: FileList, progress: Progress, *, two_machines: bool = False
    ) -> None:
        self._files = files
        self._progress = progress
        self._fate = "was cut off" if two_machines else "was killed"
        self._taken: set[int] = set()
        self._bytes = 0
        self._otherwise = dict(_OTHERWISE)

    def tell(self, event: Event) -> None:
        """Show one event."""
        match event:
            case Took(pass_number=number, index=index, size=size):
                # After an outage two workers may do one file.
                if index not in self._taken:
                    self._taken.add(index)
                    self._bytes += size
                self._progress.say(
                    f"pass {number}: {len(self._taken):,} of"
                    f" {counted(len(self._files), 'file')},"
                    f" {self._bytes / 1e6:,.1f} MB"
                )
            case PassDone():
                self._taken.clear()
                self._bytes = 0
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
                again = "again" if by == worker else "instead"
                self._progress.keep(
                    f"{worker} {self._fate}; reported for {name}: {told}"
                    f" ({_HELD[told]}); {by} did the file {again}"
                )
            case Linked(event=change, seconds=seconds):
                self._progress.keep(_LINKED[change].format(seconds))
        if (otherwise := self._otherwise.pop(type(event), None)) is not None:
            self._progress.keep(f"  {otherwise}")
