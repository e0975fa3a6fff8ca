"""A whole run of the demo: stock is taken of a list of files, and once serially.

Everything about the tasks is written once in the other files, whatever they run in;
who starts the workers, and what carries their content, is a `Crew`. Commands, their
answers and notifications go over the bus; content goes over queues. Both are recorded.
The main thread is the console.
"""

from __future__ import annotations

import shutil
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from bus.api.membership import open_bus
from bus.config import BusConfig
from bus.core.routing_table import Visibility
from bus.demo.agenda import Agenda
from bus.demo.collector import COLLECTOR, Collector
from bus.demo.crew import BUS
from bus.demo.lister import LISTER, Lister
from bus.demo.messages import ENCODERS, sent
from bus.demo.outcome import Outcome
from bus.demo.processes import Processes
from bus.demo.stock import Stock, serial_stock
from bus.demo.threads import Threads
from bus.errors import BusyError, DemoError
from bus.journal.writer import Journal
from bus.links.run_directory import run_base
from bus.role import Role
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bus.api.bus import Bus
    from bus.demo.crew import Crew
    from bus.demo.files import FileList
    from bus.demo.messages import News
    from bus.message import Incoming, Presence

__all__ = ["take_stock"]


def take_stock(
    files: FileList,
    journals: Path,
    *,
    seconds: float = 0.0,
    processes: int | None = None,
    fault: str | None = None,
    begun: Callable[[Path], None] = lambda _: None,
    news: Callable[[News], None] = lambda _: None,
) -> Outcome:
    """Take stock of a list of files with tasks on a bus, and once serially.

    seconds: go over the list again until so many have passed.
    processes: how many there are to be, this one among them, at least 2; None for
      threads of this one.
    fault: what to put into one queue on purpose, a key of `FAULTS`.
    begun: told in this thread, before any work, that the run goes ahead: the bus is
      open; and where this process records.
    news: told in this thread of all progress.

    Raises:
        OSError: the journal cannot be made.
        DemoError: another run is on that bus, or there can be none where it is looked
          for, or a worker process cannot be started.
    """
    with Journal(journals) as journal, _demo_bus(journal) as bus:
        assert journal.folder is not None
        begun(journal.folder)
        crew: Crew = (
            Threads(bus, journal, files, fault)
            if processes is None
            else Processes(bus, journal, journals, files, processes - 1, seconds, fault)
        )
        try:
            stocks, elapsed = _work(bus, crew, len(files), seconds, news)
        except BaseException:
            # Interrupted: nothing that was started is left.
            crew.abandon()
            raise
    return Outcome(stocks, serial_stock(files), elapsed)


@contextmanager
def _demo_bus(journal: Journal) -> Iterator[Bus]:
    """Be master of the demo's bus: there is one run at a time in a run directory.

    If that cannot be, no trace is left of the journal.
    """
    config = BusConfig(encoders=ENCODERS)
    try:
        bus = open_bus(
            BUS, role=Role.MASTER, process="main", config=config, journal=journal
        )
    except BaseException as error:
        _discard(journal)
        where = run_base(config.run_directory)
        if isinstance(error, BusyError):
            raise DemoError(
                f"cannot open bus {BUS!r}: another demo is running on it in {where};"
                " wait for it, or set BUS_RUN_DIR to another directory"
            ) from None
        if isinstance(error, (ValueError, OSError)):
            raise DemoError(f"cannot open bus {BUS!r}: {_fact(error)}") from None
        raise
    with bus:
        yield bus


def _fact(error: ValueError | OSError) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if error.filename:
        return f"{error.filename}: {error.strerror}; name another by BUS_RUN_DIR"
    return str(error.strerror)  # by `RunDirectory`, with the remedy


def _discard(journal: Journal) -> None:
    """Remove a journal, and the folders around it in which nothing else is."""
    journal.close()
    assert journal.folder is not None
    shutil.rmtree(journal.folder, ignore_errors=True)
    with suppress(OSError):
        for folder in (journal.folder.parent, journal.folder.parents[1]):
            folder.rmdir()


def _work(
    bus: Bus,
    crew: Crew,
    files: int,
    seconds: float,
    news: Callable[[News], None],
) -> tuple[tuple[Stock, ...], float]:
    """Let all tasks do their work; return what each pass found, and how long it took.

    files: how many make a pass.
    """
    collector = Collector(bus, files=files, workers=len(crew.names), paused=crew.paused)
    heard = _listen(bus)
    crew.start(collector)
    began = _sync.monotonic()

    def again() -> bool:
        return _sync.monotonic() - began < seconds or not crew.settled

    agenda = Agenda(files, again)
    Lister(bus, agenda, ahead=crew.ahead, awaited=crew.names)
    for each in heard:
        news(each)
    elapsed = _sync.monotonic() - began
    crew.end()
    numbers = range(1, agenda.passes + 1)
    return tuple(collector.stocks.get(each, Stock()) for each in numbers), elapsed


def _listen(bus: Bus) -> Iterator[News]:
    """Hear from now on what is told of the work; iterate until the collector leaves.

    What is done with it is done between callbacks: there it may wait and raise.
    """
    here = bus.here("console")
    console = bus.register("console", thread=here, visibility=Visibility.PRIVATE)
    heard: deque[Incoming] = deque()
    seen: deque[Presence] = deque(maxlen=1)
    # A collector that is faster waits, so that no line of progress is dropped.
    console.subscribe(COLLECTOR, heard.append, overflow="block")
    console.subscribe(LISTER, heard.append, overflow="error")
    console.watch(COLLECTOR, seen.append)

    def listening() -> Iterator[News]:
        while not seen or seen[0].here:
            here.poll(None)
            while heard:
                yield sent(heard.popleft().payload)

    return listening()
