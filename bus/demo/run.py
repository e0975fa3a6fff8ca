"""Who starts the tasks of the demo, and what carries their messages: threads, so far.

Everything else about the demo is written once in the other files, whatever the tasks
run in. Commands, their answers and notifications go over the bus; content goes over
message queues, which are recorded. The main thread is the console.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from bus.api.bus import open_bus
from bus.config import BusConfig
from bus.core.routing_table import Visibility
from bus.demo.agenda import Agenda
from bus.demo.collector import COLLECTOR, CONTENT, Collector
from bus.demo.lister import Lister
from bus.demo.messages import ENCODERS, sent
from bus.demo.plant import plant
from bus.demo.stock import Comparison, Stock, serial_stock
from bus.demo.worker import Worker
from bus.journal.writer import Journal
from queuebroker import BrokerManager, QueueBroker, Task, _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bus.api.bus import Bus
    from bus.demo.files import FileList
    from bus.demo.messages import News
    from bus.message import Incoming, Presence

__all__ = ["LEAVER", "WORKERS", "Outcome", "take_stock"]

WORKERS: Final = tuple(f"worker/{number}" for number in (1, 2, 3))
# It hangs up in the middle of this one of its files; what is planted strikes its queue,
# since it is certain to be given a file.
LEAVER: Final = WORKERS[0]
LEAVE_AT: Final = 2


@attrs.frozen(slots=True)
class Outcome:
    """What the tasks found, pass by pass, and what the serial run did.

    seconds: how long the passes took together.
    comparisons: each pass with the serial run.
    """

    stocks: tuple[Stock, ...]
    serial: Stock
    seconds: float
    comparisons: tuple[Comparison, ...] = attrs.field(init=False, repr=False)

    @comparisons.default
    def _compare(self) -> tuple[Comparison, ...]:
        return tuple(stock.compare(self.serial) for stock in self.stocks)

    @property
    def equal(self) -> bool:
        """Whether every pass equals the serial run."""
        return all(comparison.equal for comparison in self.comparisons)


def take_stock(
    files: FileList,
    journals: Path,
    *,
    seconds: float = 0.0,
    fault: str | None = None,
    news: Callable[[News], None] = lambda _: None,
) -> Outcome:
    """Take stock of a list of files with tasks in threads, and once serially.

    seconds: go over the list again until so many have passed.
    fault: what to put into one queue on purpose, a key of `FAULTS`.
    news: told in this thread of all progress.

    Raises:
        OSError: the journal cannot be made.
        BusyError: another one is at it in this process.
    """
    began = _sync.monotonic()
    agenda = Agenda(len(files), lambda: _sync.monotonic() - began < seconds)
    with (
        Journal(journals) as journal,
        BrokerManager(observer=journal.observe) as manager,
        open_bus("demo", config=BusConfig(encoders=ENCODERS)) as bus,
    ):
        try:
            collector = Collector(bus, files=len(files), workers=len(WORKERS))
            heard = _listen(bus)
            Lister(bus, agenda)
            servers = _start_workers(bus, manager, files, collector, fault)
            for each in heard:
                news(each)
            for server in servers:
                server.join()
        except BaseException:
            # Interrupted: whoever waits is told, so that the threads end.
            manager.close(disconnect=True)
            raise
    elapsed = _sync.monotonic() - began
    passes = tuple(
        collector.stocks.get(number, Stock()) for number in range(1, agenda.passes + 1)
    )
    return Outcome(passes, serial_stock(files), elapsed)


def _listen(bus: Bus) -> Iterator[News]:
    """Hear from now on what the collector tells; iterate over it until that leaves.

    What is done with it is done between callbacks: there it may wait and raise.
    """
    here = bus.here("console")
    console = bus.register("console", thread=here, visibility=Visibility.PRIVATE)
    heard: deque[Incoming] = deque()
    seen: deque[Presence] = deque(maxlen=1)
    # A collector that is faster waits, so that no line of progress is dropped.
    console.subscribe(COLLECTOR, heard.append, overflow="block")
    console.watch(COLLECTOR, seen.append)

    def listening() -> Iterator[News]:
        while not seen or seen[0].here:
            here.poll(None)
            while heard:
                yield sent(heard.popleft().payload)

    return listening()


def _start_workers(
    bus: Bus,
    manager: BrokerManager,
    files: FileList,
    collector: Collector,
    fault: str | None,
) -> list[Task]:
    """Start each worker in a thread of the bus, and at the collector who serves it."""
    broker = QueueBroker(COLLECTOR, manager=manager)
    servers = []
    for name in WORKERS:
        leave_at = LEAVE_AT if name == LEAVER else None
        worker = Worker(QueueBroker(name, manager=manager), files, leave_at)
        thread = bus.thread(name)
        thread.call_soon(partial(worker.connect, COLLECTOR, CONTENT))
        queue = broker.accept(CONTENT)
        if fault is not None and name == LEAVER:
            plant(fault, queue)
        server = Task(broker, collector.serve, queue)
        server.start()
        servers.append(server)
        # Only now: before the first message can come, all is in its place. That its
        # thread is done with connecting is certain once it calls back.
        worker.register(bus, thread)
    return servers
