"""Who starts the tasks of the demo and what carries their messages: threads, queues.

Everything else about the demo is written once in the other files, whatever the tasks
run in. The main thread is the console.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from bus.demo.agenda import Agenda
from bus.demo.messages import decode_news
from bus.demo.plant import plant
from bus.demo.roles import CONTENT, NEWS, WORK, Collector, serve_worker, work
from bus.demo.stock import Comparison, Stock, serial_stock
from bus.journal.writer import Journal
from queuebroker import BrokerManager, QueueBroker, Task, _sync

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bus.demo.files import FileList
    from bus.demo.messages import News
    from queuebroker import MessageQueue

__all__ = ["WORKERS", "Outcome", "take_stock"]

WORKERS: Final = 3
# The worker that hangs up does so in the middle of this one of its files.
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
    fault: what to put into the console's channel on purpose, a key of `FAULTS`.
    news: told in this thread of all progress.

    Raises:
        OSError: the journal cannot be made.
    """
    began = _sync.monotonic()
    agenda = Agenda(len(files), lambda: _sync.monotonic() - began < seconds)
    stocks: dict[int, Stock] = {}
    with (
        Journal(journals) as journal,
        BrokerManager(observer=journal.observe) as manager,
    ):
        console = QueueBroker("console", manager=manager)
        tasks = [
            Task(QueueBroker("lister", manager=manager), _list, agenda),
            Task(QueueBroker("collector", manager=manager), _collect, files, stocks),
        ]
        for number in range(1, WORKERS + 1):
            worker = QueueBroker(f"worker-{number}", manager=manager)
            leave_at = LEAVE_AT if number == 1 else None
            tasks.append(Task(worker, _work, files, leave_at))
        for task in tasks:
            task.start()
        try:
            with console.accept(NEWS) as queue:
                if fault is not None:
                    plant(fault, queue)
                for message in queue:
                    news(decode_news(message))
            for task in tasks:
                task.join()
        except BaseException:
            # Interrupted: whoever waits is told, so that the threads end.
            manager.close(disconnect=True)
            raise
    elapsed = _sync.monotonic() - began
    passes = tuple(
        stocks.get(number, Stock()) for number in range(1, agenda.passes + 1)
    )
    return Outcome(passes, serial_stock(files), elapsed)


# The tasks; each runs in a thread whose current broker is its own.


def _list(agenda: Agenda) -> None:
    _serve_all(WORK, lambda queue: serve_worker(queue, agenda))


def _collect(files: FileList, stocks: dict[int, Stock]) -> None:
    with _broker().connect("console", NEWS, required=True) as news:
        collector = Collector(len(files), news, stocks)
        _serve_all(CONTENT, collector.serve_worker)


def _work(files: FileList, leave_at: int | None) -> None:
    broker = _broker()
    work(
        broker.connect("lister", WORK, required=True),
        broker.connect("collector", CONTENT, required=True),
        files,
        leave_at,
    )


def _serve_all(port: int, serve: Callable[[MessageQueue], None]) -> None:
    """Serve each worker in a thread of its own, until all have left."""
    broker = _broker()
    servers = [Task(broker, serve, broker.accept(port)) for _ in range(WORKERS)]
    for server in servers:
        server.start()
    for server in servers:
        server.join()


def _broker() -> QueueBroker:
    broker = QueueBroker.get_broker()
    assert isinstance(broker, QueueBroker)  # every task here was given one
    return broker
