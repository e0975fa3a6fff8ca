"""`MemoryNetwork`: several processes and machines inside one process; for tests.

Links are plain in-process message queues (BUS-CHAN-1). The first process of a machine
is its master; if it ends, the next oldest takes its place. Nothing is random: the same
calls give the same names, incarnations and epochs.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from bus.kernel.wire import Identity, Role
from bus.kernel.wire.batch import frame_bytes_max
from bus.model.rights import UNRESTRICTED
from bus.process.comm_thread import CommThread
from bus.process.link_helpers import PORT
from bus.process.link_poller import ParkedPoller
from queuebroker import _sync
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.meeting.queue_broker import QueueBroker

if TYPE_CHECKING:
    import _thread
    from collections.abc import Iterator, Sequence

    from bus.model.config import BusConfig
    from bus.model.rights import Credentials
    from bus.process.exchange import Exchange
    from bus.process.link_policy import LinkBroker
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["MemoryNetwork"]

# Distance of two incarnations: registrations and epochs are numbered from there.
_STEP: Final = 2**32
# How long the higher of two machines waits for the lower one's link, in seconds.
_PATIENCE_S: Final = 3.0


class MemoryNetwork:
    """The processes of one bus, by machine and name.

    It is also the `LinkPolicy` of each of them: all processes trust one another, and
    none becomes master by itself.

    bus: the name of the bus.

    Lock: ``_lock`` guards the processes and their masters. The holder posts changes to
    comm threads and does not wait for them: each acts by itself.
    """

    def __init__(self, bus: str) -> None:
        self.bus: Final = bus
        self._brokers: Final = BrokerManager()
        self._lock: Final[_thread.LockType] = _sync.Lock()
        self._lives = itertools.count(1)
        self._nonces = itertools.count(1)
        # By machine, oldest first: the first of each is its master.
        self._machines: Final[dict[str, dict[str, CommThread]]] = {}
        # The broker at which the master of each machine accepts links.
        self._master_brokers: Final[dict[str, QueueBroker]] = {}

    def new_incarnation(self) -> int:
        """Return a number higher than all before it."""
        return next(self._lives) * _STEP

    def join(
        self,
        machine: str,
        process: str,
        incarnation: int,
        exchange: Exchange,
        config: BusConfig,
    ) -> CommThread:
        """Connect a process to all others; return its comm thread.

        Raises:
            ValueError: the machine has a process of that name already.
        """
        with self._lock:
            others = self._machines.setdefault(machine, {})
            if process in others:
                msg = f"process {process!r} is already on bus {self.bus!r}"
                raise ValueError(msg)
            master = not others
            comm = CommThread(
                exchange,
                Identity(
                    bus=self.bus,
                    machine=machine,
                    machine_id=machine,
                    process=process,
                    process_id=incarnation // _STEP,
                    incarnation=incarnation,
                    role=Role.MASTER if master else Role.SLAVE,
                ),
                config=config,
                policy=self,
                poller=ParkedPoller(),
                listens=f"{machine}/{process}",
                master=_master_of(machine),
                static=(),
            )
            others[process] = comm
            try:
                broker = self._broker(f"{machine}/{process}", comm)
                comm.start(broker)
            except BaseException:
                # The name of a process without a thread must not stay taken.
                if comm.prevent_start():
                    del others[process]
                raise
            if master:
                self._promote_locked(machine, comm)
        return comm

    def leave(self, machine: str, process: str, comm: CommThread) -> None:
        """Remove a process; if it was master, promote the next one."""
        with self._lock:
            others = self._machines[machine]
            if others.get(process) is not comm:
                return  # called twice
            was_master = next(iter(others)) == process
            del others[process]
            if was_master:
                self._close_door_locked(machine)
            if was_master and others:
                heir = next(iter(others.values()))
                slaves = [f"{machine}/{each}" for each in others]
                heir.decide(
                    lambda: heir.remote.become_master(_sync.monotonic(), slaves)
                )
                self._promote_locked(machine, heir)

    # The policy of the links.

    @property
    def patient(self) -> bool:
        """False: `join` makes the first process of a machine its master."""
        return False

    def new_nonce(self) -> int:
        """Return the next number."""
        return next(self._nonces)

    def credentials(self, queue: MessageQueue) -> Credentials:  # noqa: ARG002 - `LinkPolicy`
        """Grant every process all rights."""
        return UNRESTRICTED

    def claim_role(self) -> Sequence[QueueBroker]:
        """Leave the choice of the master to `join` and `leave`."""
        return ()

    def slaves(self) -> Sequence[str]:
        """Return none: only `leave` makes another process master."""
        return ()

    def listen_outside(self, inside: str) -> tuple[None, tuple[str, ...]]:
        """Return the one address of a process, which is for all machines."""
        return None, (inside,)

    def addresses_to_dial(
        self,
        machine: str,  # noqa: ARG002 - `LinkPolicy`
        addresses: Sequence[str],
    ) -> Sequence[str]:
        """Return every address: it is the name of a broker in this process."""
        return addresses

    def connect(
        self, broker: LinkBroker, address: str, timeout_s: float
    ) -> MessageQueue | None:
        """Connect to a broker of this process, and trust it."""
        return broker.connect(address, PORT, timeout=timeout_s)

    def on_end(self) -> None:
        """Do nothing: the other processes know what happens in this one."""

    def release_role(self) -> None:
        """Do nothing: `leave` promotes another master."""

    # The masters.

    def _promote_locked(self, machine: str, comm: CommThread) -> None:
        broker = self._broker(_master_of(machine), comm)
        self._master_brokers[machine] = broker
        comm.accept_links(broker)
        for there, other in self._other_masters(machine):
            _introduce(comm, machine, there)
            _introduce(other, there, machine)

    def _broker(self, name: str, comm: CommThread) -> QueueBroker:
        most = frame_bytes_max(comm.remote.topology.config.message_bytes_max)
        return QueueBroker(name, manager=self._brokers, max_message_size=most)

    def _close_door_locked(self, machine: str) -> None:
        """Close a former master's broker, which it may not have closed itself."""
        broker = self._master_brokers.pop(machine, None)
        if broker is not None:
            broker.close()

    def _other_masters(self, machine: str) -> Iterator[tuple[str, CommThread]]:
        for there, processes in self._machines.items():
            if there != machine and processes:
                yield there, next(iter(processes.values()))


def _introduce(master: CommThread, machine: str, other: str) -> None:
    """Notify a machine's master of the address of another one's; the lower dials."""
    where, patience_s = (_master_of(other),), 0.0 if machine < other else _PATIENCE_S
    links = master.remote.links  # whose slot is filled before the first decision
    master.decide(
        lambda: links.masters.on_found(other, where, _sync.monotonic(), patience_s)
    )


def _master_of(machine: str) -> str:
    return f"master of {machine}"  # no process can have that name
