"""`Processes`: each worker in a process of its own, and queues between processes.

On one machine, one worker disconnects, and another is killed. It is killed while it
pauses in the middle of a file, so that the kill interrupts exactly one file, of any
length. On two machines, the cable between them is cut and healed.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bus.demo.cable import LOOPBACK
from bus.demo.collector import COLLECTOR, CONTENT
from bus.demo.machines import tls_of
from bus.demo.outage import BEFORE_S, Outage
from bus.demo.recorded_queue import RecordedQueue, new_channel
from bus.demo.worker_group import (
    BUS,
    FAR,
    NEAR,
    parts_of,
    parts_on_two_machines,
    worker_with_fault,
)
from bus.demo.worker_process import Job
from bus.errors import CommandTimeoutError, DemoError
from bus.model.address import Address
from bus.model.rights import AccessList
from bus.process.run_directory import RunDirectory
from queuebroker import BrokerManager, RendezvousTimeoutError, _sync
from queuebroker._net.processes import Process, exit_code_of, start_process
from queuebroker.sockets import SocketQueueBroker

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.api.bus import Bus
    from bus.demo.collector import Collector
    from bus.demo.files import FileList
    from bus.demo.machines import Machines
    from bus.demo.worker_group import Part
    from bus.journal.writer import Journal

__all__ = ["QUEUE_FAULTS", "Processes", "environment"]

# With one unread command behind the current one, a worker need not wait for the lister;
# and if the worker is killed, the bus has more than one outcome to report.
AHEAD: Final = 2
LOOK_S: Final = 0.1  # between two checks that an awaited process still lives
END_S: Final = 10.0  # until a process that was asked to end is killed

_COMMAND: Final = (sys.executable, "-P", "-m", "bus.demo.worker_process")


class Processes:
    """A `bus.demo.worker_group.WorkerGroup`.

    Args:
        journals: the folder in which each process records, this one by ``journal``.
        workers: the number of workers.
        seconds: the duration of the run.
        fault: the fault to inject into one queue, a key of `QUEUE_FAULTS`.
        machines: the two machines; None for one.
    """

    def __init__(
        self,
        bus: Bus,
        journal: Journal,
        journals: Path,
        files: FileList,
        workers: int,
        seconds: float,
        fault: str | None,
        machines: Machines | None = None,
    ) -> None:
        self._bus: Final = bus
        self._journal: Final = journal
        self._journals: Final = journals
        self._files: Final = files
        self._machines: Final = machines
        self._manager: Final = BrokerManager()
        # Kept until its manager closes it.
        self._broker: SocketQueueBroker | None = None
        self._parts: Final = (
            parts_of(workers, len(files), seconds)
            if machines is None
            else parts_on_two_machines(workers)
        )
        self._outage: Final = (
            None if machines is None else self._planned_outage(machines, seconds)
        )
        self._fault: Final = fault
        self._directory: Final = RunDirectory(BUS, AccessList())
        self._running: Final[dict[str, Process[bytes]]] = {}
        self._servers: Final[list[_sync.Thread]] = []
        self.names: tuple[str, ...] = tuple(part.name for part in self._parts)
        self.ahead: int = AHEAD

    @property
    def outage(self) -> Outage | None:
        """The outage of the link between two machines; see `WorkerGroup`."""
        return self._outage

    def _planned_outage(self, machines: Machines, seconds: float) -> Outage:
        return Outage(
            self._bus,
            machines.cable,
            f"ism://{FAR}/worker/*",
            sum(part.machine == FAR for part in self._parts),
            before_s=max(BEFORE_S, seconds / 2),
            # Without content from the workers the collector ends, and so does the run.
            give_up=partial(self._manager.close, disconnect=True),
        )

    @property
    def settled(self) -> bool:
        """True if no worker is to be killed and no link cut; see `WorkerGroup`."""
        if self._outage is not None and not self._outage.has_ended:
            return False
        dying = [self._running.get(part.name) for part in self._parts if part.dies]
        return all(process is None or process.poll() is not None for process in dying)

    # Starting.

    def start(self, collector: Collector) -> None:
        """Start each worker in a process; see `WorkerGroup`.

        Raises:
            DemoError: one of them ended before it was ready.
            OSError: one of them cannot be started.
        """
        broker = self._broker = self._content_broker()
        channels = {name: new_channel() for name in self.names}
        for part in self._parts:
            self._running[part.name] = start_process(
                _COMMAND, environment() | self._on_machine(part)
            )
        for part in self._parts:
            self._tell(part.name, self._job(part, broker, channels[part.name]))
        while channels:
            queue = self._accept(broker, channels)
            if self._fault is not None and queue.remote_name == worker_with_fault(
                self._parts
            ):
                plant_fault_between_processes(self._fault, queue)
            server = _sync.Thread(
                target=collector.serve, args=(queue,), name=queue.remote_name
            )
            server.start()
            self._servers.append(server)
        for part in self._parts:
            self._await(part)
        if self._outage is not None:
            self._outage.start()

    def _content_broker(self) -> SocketQueueBroker:
        """Return the collector's broker, which listens."""
        address, tls = f"ipc://{self._directory.path / 'content'}", None
        if self._machines is not None:
            address = f"tls://{LOOPBACK}:0"
            tls = tls_of(self._machines.network(NEAR))
        return SocketQueueBroker(
            COLLECTOR, listen=address, tls=tls, manager=self._manager, strict_half=True
        )

    def _job(self, part: Part, broker: SocketQueueBroker, channel: int) -> Job:
        """Return the job of a worker."""
        address, network = str(broker.address), None
        if self._machines is not None and part.machine is not None:
            network = self._machines.network_file(part.machine)
            if part.machine != NEAR:
                place, _, port = address.rpartition(":")
                address = f"{place}:{self._machines.cable.lead_to(int(port))}"
        return Job.of(part, self._files, self._journals, address, channel, network)

    def _on_machine(self, part: Part) -> dict[str, str]:
        """Return the variables by which a process is on the machine of its worker."""
        if self._machines is None or part.machine is None:
            return {}
        return self._machines.environment(part.machine)

    def _tell(self, name: str, job: Job) -> None:
        pipe = self._running[name].stdin
        assert pipe is not None
        try:
            job.write(pipe)
        except BrokenPipeError:
            self._check_running()

    def _accept(
        self, broker: SocketQueueBroker, channels: dict[str, int]
    ) -> RecordedQueue:
        """Wait for the next worker to connect, and assign its channel."""
        began = _sync.monotonic_ns()
        while True:
            try:
                queue = broker.accept(CONTENT, timeout=LOOK_S)
            except RendezvousTimeoutError:
                self._check_running()
                continue
            channel = channels.pop(queue.remote_name, None)
            if channel is not None:
                waited_ns = _sync.monotonic_ns() - began
                return RecordedQueue(queue, self._journal, channel, 0, waited_ns)
            queue.disconnect()  # not one of our workers

    def _await(self, part: Part) -> None:
        """Wait until a worker is on the bus."""
        address = str(Address(part.name, machine=part.machine))
        while True:
            try:
                self._bus.wait_for(address, timeout=LOOK_S)
            except CommandTimeoutError:
                self._check_running()
            else:
                return

    def _check_running(self) -> None:
        for name, process in self._running.items():
            code = process.poll()
            if code is not None:
                msg = f"cannot start {name}: its process ended with exit code {code}"
                raise DemoError(msg)

    # Ending.

    def paused(self, worker: str) -> None:
        """Kill a process that has paused in the middle of a file."""
        self._running[worker].kill()
        self._see_end(worker)

    def end(self) -> None:
        """Wait until all workers have ended; see `WorkerGroup`."""
        for server in self._servers:
            server.join()
        self._end_outage()
        self._dismiss()
        if self._outage is not None and self._outage.failure:
            raise DemoError(f"cannot go on: {self._outage.failure}")

    def abandon(self) -> None:
        """Disconnect all queues: threads and processes end; see `WorkerGroup`."""
        self._manager.close(disconnect=True)
        self._end_outage()
        self._dismiss()

    def _end_outage(self) -> None:
        if self._outage is not None:
            self._outage.stop()

    def _dismiss(self) -> None:
        self._manager.close()
        masters = {part.name for part in self._parts if part.is_master}
        # A master last: the links of its machine's other processes go through it.
        for group in (self._running.keys() - masters, masters):
            running = [name for name in self._running if name in group]
            for name in running:
                _close(self._running[name])
            for name in running:
                self._see_end(name)

    def _see_end(self, name: str) -> None:
        """Wait for the end of a process; record it if it was not in order."""
        process = self._running.pop(name)
        code = exit_code_of(process, END_S)
        if code is None:
            process.kill()
            code = process.wait()
        _close(process)
        if code:
            self._journal.record_death(process.pid, process=name)
            self._directory.sweep()  # the sockets that it had no time to remove


def _close(process: Process[bytes]) -> None:
    """Ask a process to end."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it ended before it had read all of its input
        process.stdin.close()


def environment() -> dict[str, str]:
    """Return the environment for a worker, in which the same packages are found."""
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


class _Lost:
    """Drops the first message, and returns the next in its place."""

    def __init__(self, receive: Callable[[], bytes], _: RecordedQueue) -> None:
        self._receive: Final = receive
        self._planted = False

    def __call__(self) -> bytes:
        if not self._planted:
            self._receive()
            self._planted = True
        return self._receive()


class _Duplicate:
    """Returns the first message twice."""

    def __init__(self, receive: Callable[[], bytes], _: RecordedQueue) -> None:
        self._receive: Final = receive
        self._again: deque[bytes] | None = None

    def __call__(self) -> bytes:
        if self._again is None:
            first = self._receive()
            self._again = deque([first])
            return first
        return self._again.popleft() if self._again else self._receive()


class _Reorder:
    """Returns the second message before the first."""

    def __init__(self, receive: Callable[[], bytes], _: RecordedQueue) -> None:
        self._receive: Final = receive
        self._held: deque[bytes] | None = None

    def __call__(self) -> bytes:
        if self._held is None:
            first = self._receive()
            second = self._receive()
            self._held = deque([first])
            return second
        return self._held.popleft() if self._held else self._receive()


class _Half:
    """Disconnects its own end during the first receive, and delivers nevertheless."""

    def __init__(self, receive: Callable[[], bytes], queue: RecordedQueue) -> None:
        self._receive: Final = receive
        self._queue: Final = queue
        self._planted = False

    def __call__(self) -> bytes:
        message = self._receive()
        if not self._planted:
            self._planted = True
            self._queue.disconnect()
        return message


# The same names as `bus.demo.faults.FAULTS`. Each fault occurs once, at the receiver,
# between the socket and the record: the record looks as if the queue had caused it.
QUEUE_FAULTS: Final[
    dict[str, Callable[[Callable[[], bytes], RecordedQueue], Callable[[], bytes]]]
] = {
    "lost": _Lost,
    "duplicate": _Duplicate,
    "reorder": _Reorder,
    "half": _Half,
}


def plant_fault_between_processes(fault: str, queue: RecordedQueue) -> None:
    """Make the receiving end of ``queue`` misbehave once, before the record."""
    queue.receive_with(QUEUE_FAULTS[fault](queue.receive_raw, queue))
