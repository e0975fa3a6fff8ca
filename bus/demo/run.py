"""A whole run of the demo: tasks index a list of files, and a serial loop does too.

The other files define the tasks, independent of threads and processes; a `WorkerGroup`
starts the workers and carries their content. Commands, their answers and notifications
go over the bus; content goes over queues. Both are recorded. The main thread is the
console.
"""

from __future__ import annotations

import shutil
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import attrs

from bus.api.membership import open_bus
from bus.demo.collector import COLLECTOR, Collector
from bus.demo.inventory import Inventory, serial_inventory
from bus.demo.lister import LISTER, Lister, WorkList
from bus.demo.machines import Machines, impatient
from bus.demo.messages import ENCODERS, sent
from bus.demo.outage import CABLE
from bus.demo.processes import Processes
from bus.demo.threads import Threads
from bus.demo.worker_group import BUS, FAR, NEAR
from bus.errors import BusyError, DemoError
from bus.journal.writer import Journal
from bus.model.config import BusConfig
from bus.model.registration import Role, Visibility
from bus.process.run_directory import run_base
from queuebroker import _net, _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from bus.api.bus import Bus
    from bus.demo.files import FileList
    from bus.demo.inventory import Comparison
    from bus.demo.messages import Event
    from bus.demo.outage import OutageTimes
    from bus.demo.worker_group import WorkerGroup
    from bus.model.message import Incoming, Presence

__all__ = ["Outcome", "take_inventory"]


@attrs.frozen(slots=True)
class Outcome:
    """The result of the tasks, pass by pass, and that of the serial run.

    seconds: the duration of all passes together.
    outage: the durations of the outage between two machines; None without one.
    unanswered: the number of commands to workers by the outcome that the bus reported,
      for those that were not answered.
    comparisons: of each pass with the serial run.
    """

    inventories: tuple[Inventory, ...]
    serial: Inventory
    seconds: float
    outage: OutageTimes | None = None
    unanswered: Mapping[str, int] = attrs.field(factory=dict)
    comparisons: tuple[Comparison, ...] = attrs.field(init=False, repr=False)

    @comparisons.default
    def _compare(self) -> tuple[Comparison, ...]:
        return tuple(each.compare(self.serial) for each in self.inventories)

    @property
    def equal(self) -> bool:
        """True if every pass equals the serial run."""
        return all(comparison.equal for comparison in self.comparisons)


def take_inventory(
    files: FileList,
    journals: Path,
    *,
    seconds: float = 0.0,
    processes: int | None = None,
    machines: int = 1,
    fault: str | None = None,
    begun: Callable[[Path, Path | None], None] = lambda *_: None,
    on_event: Callable[[Event], None] = lambda _: None,
) -> Outcome:
    """Index a list of files with tasks on a bus, and once serially.

    seconds: repeat the list until this time has passed.
    processes: the number of processes, including this one, at least 2; None for threads
      of this one.
    machines: 2 for processes on two machines of this host, whose link is cut once; then
      there are at least 3 processes.
    fault: the fault to inject into one queue, a key of `FAULTS`.
    begun: called in this thread, before any work, once the bus is open, with the folder
      in which this process records, and the file of the network of two machines.
    on_event: called in this thread with each report of progress.

    Raises:
        OSError: the journal cannot be made.
        DemoError: another run is on that bus, or its run directory cannot be used, or a
          worker process cannot be started, or it is not found again after the outage,
          or two machines, or several processes, cannot be made here.
    """
    if processes is not None and not _net.HAS_UNIX:
        raise DemoError(
            "cannot use several processes: this system has no UNIX sockets; run"
            " bus demo --processes 1"
        )
    with ExitStack() as stack:
        site = stack.enter_context(Machines()) if machines > 1 else None
        name = None if site is None else NEAR
        journal = stack.enter_context(Journal(journals, machine=name))
        bus = stack.enter_context(_demo_bus(journal, site))
        assert journal.folder is not None
        begun(journal.folder, None if site is None else site.network_file(NEAR))
        workers: WorkerGroup = (
            Threads(bus, journal, files, fault)
            if processes is None
            else Processes(
                *(bus, journal, journals, files, processes - 1, seconds, fault, site)
            )
        )
        try:
            done = _work(bus, workers, len(files), seconds, on_event)
        except BaseException:
            # After an interrupt, stop everything that was started.
            workers.abandon()
            raise
    times = None if workers.outage is None else workers.outage.times
    return Outcome(
        done.inventories, serial_inventory(files), done.seconds, times, done.unanswered
    )


@attrs.frozen
class _Work:
    """What the tasks have done; see `Outcome`."""

    inventories: tuple[Inventory, ...]
    seconds: float
    unanswered: Mapping[str, int]


@contextmanager
def _demo_bus(journal: Journal, machines: Machines | None) -> Iterator[Bus]:
    """Be master of the demo's bus: a run directory admits one run at a time.

    If the bus cannot be opened, the journal is removed.
    """
    config, network, machine = BusConfig(encoders=ENCODERS), None, None
    if machines is not None:
        config, network, machine = impatient(config), machines.network(NEAR), NEAR
    try:
        bus = open_bus(
            BUS,
            role=Role.MASTER,
            process="main",
            machine=machine,
            config=config,
            network=network,
            journal=journal,
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
    return str(error.strerror)  # from `RunDirectory`, which adds the remedy


def _discard(journal: Journal) -> None:
    """Remove a journal, and the folders around it that are then empty."""
    journal.close()
    assert journal.folder is not None
    shutil.rmtree(journal.folder, ignore_errors=True)
    with suppress(OSError):
        for folder in (journal.folder.parent, journal.folder.parents[1]):
            folder.rmdir()


def _work(
    bus: Bus,
    workers: WorkerGroup,
    files: int,
    seconds: float,
    on_event: Callable[[Event], None],
) -> _Work:
    """Let all tasks do their work.

    files: the number of files in a pass.
    """
    count, paused = len(workers.names), workers.paused
    collector = Collector(bus, files=files, workers=count, paused=paused)
    two_machines = workers.outage is not None
    received = _listen(bus, [CABLE] if two_machines else [])
    workers.start(collector)
    began = _sync.monotonic()

    def again() -> bool:
        return _sync.monotonic() - began < seconds or not workers.settled

    work_list = WorkList(files, again)
    others = [FAR] if two_machines else []
    lister = Lister(
        bus,
        work_list,
        ahead=workers.ahead,
        awaited=workers.names,
        machines=others,
    )
    for each in received:
        on_event(each)
    elapsed = _sync.monotonic() - began
    workers.end()
    numbers = range(1, work_list.passes + 1)
    found = collector.inventories
    inventories = tuple(found.get(each, Inventory()) for each in numbers)
    return _Work(inventories, elapsed, lister.unanswered)


def _listen(bus: Bus, others: Iterable[str]) -> Iterator[Event]:
    """Subscribe to reports of the work; iterate until the collector leaves.

    others: the names of further tasks that report.

    The caller handles reports between callbacks: there it may wait and raise.
    """
    here = bus.here("console")
    console = bus.register("console", thread=here, visibility=Visibility.PRIVATE)
    received: deque[Incoming] = deque()
    seen: deque[Presence] = deque(maxlen=1)
    # A collector that is faster must wait, so that no report of progress is dropped.
    console.subscribe(COLLECTOR, received.append, overflow="block")
    for name in (LISTER, *others):
        console.subscribe(name, received.append, overflow="error")
    console.watch(COLLECTOR, seen.append)

    def listening() -> Iterator[Event]:
        while not seen or seen[0].here:
            here.poll(None)
            while received:
                yield sent(received.popleft().payload)

    return listening()
