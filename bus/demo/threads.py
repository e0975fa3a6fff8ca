"""`Threads`: workers in threads of this process, and queues between threads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from bus.demo.collector import COLLECTOR, CONTENT
from bus.demo.faults import plant_fault
from bus.demo.worker import Worker
from bus.demo.worker_group import late
from queuebroker import BrokerManager, QueueBroker, Task

if TYPE_CHECKING:
    from bus.api.bus import Bus
    from bus.demo.collector import Collector
    from bus.demo.files import FileList
    from bus.journal.writer import Journal

__all__ = ["LEAVER", "Threads"]

# It disconnects in the middle of one of its files; an injected fault affects its queue,
# since it is certain to be given a file.
LEAVER: Final = "worker/1"
_NAMES: Final = (LEAVER, "worker/2", "worker/3")


class Threads:
    """A `bus.demo.worker_group.WorkerGroup`.

    Args:
        fault: the fault to inject into one queue, a key of `faults.FAULTS`.
    """

    def __init__(
        self, bus: Bus, journal: Journal, files: FileList, fault: str | None
    ) -> None:
        self._bus: Final = bus
        self._files: Final = files
        self._fault: Final = fault
        self._manager: Final = BrokerManager(observer=journal.observe)
        self._servers: Final[list[Task]] = []
        self.names: tuple[str, ...] = _NAMES
        self.ahead: int = 1

    @property
    def outage(self) -> None:
        """None: there is one machine; see `WorkerGroup`."""

    @property
    def settled(self) -> bool:
        """True: no worker is killed here; see `WorkerGroup`."""
        return True

    def paused(self, worker: str) -> None:
        """Do nothing: no worker pauses here."""

    def start(self, collector: Collector) -> None:
        """Start each worker in a thread of the bus; see `WorkerGroup`."""
        broker = QueueBroker(COLLECTOR, manager=self._manager)
        first = late(len(self._files), len(_NAMES), 0.8)
        for name in _NAMES:
            own = QueueBroker(name, manager=self._manager)
            leaves = name == LEAVER
            worker = Worker(own, self._files, leaves=leaves, from_file=first)
            thread = self._bus.thread(name)
            thread.call_soon(partial(worker.connect, COLLECTOR, CONTENT))
            queue = broker.accept(CONTENT)
            if self._fault is not None and leaves:
                plant_fault(self._fault, queue)
            server = Task(broker, collector.serve, queue)
            server.start()
            self._servers.append(server)
            # Registered last: everything is ready before the first command arrives. A
            # callback of its thread shows that the thread has finished connecting.
            worker.register(self._bus, thread)

    def end(self) -> None:
        """Wait until all workers have ended; see `WorkerGroup`."""
        for server in self._servers:
            server.join()
        self._manager.close()

    def abandon(self) -> None:
        """Disconnect all queues, so that the threads end; see `WorkerGroup`."""
        self._manager.close(disconnect=True)
