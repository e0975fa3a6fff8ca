"""The features of a bus, each in a folder of its own.

A feature plugs into the kernel by `bus.kernel.hooks`. This module is the one place that
names them all: `FEATURES` has the functions that give their hooks. The public functions
are called by the API. Each function imports its feature when it is called, so that a
process loads a feature at its first use.

subscriptions   notifications of tasks, watches of their presence
memory          long messages in shared memory, loans
machines        discovery of machines, keys, gateways, names of any machine
durable         horizons on stable storage: no message twice after a restart
moving          a task is handed over to another process
watching        reports on a live bus, the frame monitor
metrics         the counters of a bus for Prometheus
otel            the trace contexts of messages for OpenTelemetry
"""

# ruff: noqa: PLC0415 - as above

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from bus.kernel.hooks import Hooks, JoinHooks, OpenHooks
from bus.kernel.tasks.remote import AnyMachine
from bus.model.address import name_anywhere
from queuebroker import _files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bus.api.arguments import OnFull, Unset
    from bus.api.lifetime import Orphans
    from bus.api.sender import Sender
    from bus.api.task import Task, Where
    from bus.api.task_owner import TaskOwner
    from bus.errors import BusError, MovedError
    from bus.features.durable.api import Durability
    from bus.features.machines.binding import AwaitedBinding
    from bus.features.machines.network import Network
    from bus.features.moving.hand_over import Factory, TaskBus
    from bus.features.subscriptions.iterator import NotificationIterator
    from bus.kernel.hooks import Bodies, Process
    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.model.address import Address
    from bus.model.config import BusConfig
    from bus.model.loan import Loan
    from bus.model.message import Incoming
    from bus.model.snapshot import BusSnapshot
    from bus.model.specification import Specification
    from bus.process.exchange import Exchange
    from bus.process.router import Router
    from bus.process.socket_network import Outside
    from bus.process.thread_manager import ThreadManager

__all__ = [
    "FEATURES",
    "Feature",
    "NewBus",
    "accept_tasks",
    "await_binding",
    "follow",
    "hand_over",
    "inspect",
    "listen",
    "new_loan",
    "other_machines",
    "use_any_machine",
]


def inspect(
    exchange: Exchange, bus: str, managers: Sequence[ThreadManager]
) -> BusSnapshot:
    """Return a snapshot of a bus in this process; see `inspection`."""
    from bus.features.watching import inspection

    return inspection.inspect(exchange, bus, managers)


def use_any_machine(exchange: Exchange) -> None:
    """Let a process find names whose machine is ``*`` from now on (BUS-NAME-8).

    Call this without a lock: the first call imports modules.
    """
    if type(exchange.manager.any_machine) is AnyMachine:
        from bus.features.machines import binding

        binding.use_any_machine(exchange)


def await_binding(
    entry: Entry, host: ThreadManager, address: Address
) -> AwaitedBinding:
    """Return a wait for the task of an address whose machine is ``*``.

    entry, host: as for `AwaitedBinding`.
    """
    from bus.features.machines.binding import AwaitedBinding

    return AwaitedBinding(entry, host, name_anywhere(address.module))


def listen(
    task: Task,
    orphans: Orphans,
    to: Where | Specification,
    timeout: float | None,
    *,
    wait: bool,
) -> NotificationIterator:
    """Return an iterator over notifications; see `NotificationIterator`."""
    from bus.features.subscriptions.iterator import NotificationIterator

    return NotificationIterator(task, orphans, to, timeout, wait=wait)


def other_machines(bus: str, config: BusConfig, network: Network) -> Outside:
    """Return the links of a process with other machines; see `OtherMachines`."""
    from bus.features.machines.machine_discovery import OtherMachines

    return OtherMachines(bus, config, network)


def new_loan(
    sender: Sender,
    entry: Entry,
    nbytes: int,
    on_full: OnFull,
    timeout: float | Unset | None,
) -> Loan:
    """Return a loan for a task; see `Task.loan`."""
    from bus.features.memory import api as loans

    return loans.new_loan(sender, entry, nbytes, on_full, timeout)


def accept_tasks(bus: TaskBus, name: str, factories: Mapping[str, Factory]) -> Task:
    """Take over tasks; see `Bus.accept_tasks`."""
    from bus.features.moving import hand_over

    return hand_over.accept_tasks(bus, name, factories)


def hand_over(
    bus: TaskBus,
    task: Task,
    to: str | Address,
    factory: str | None,
    timeout: float | Unset | None,
) -> Address:
    """Hand over a task; see `Bus.hand_over`."""
    from bus.features.moving import hand_over as feature

    return feature.hand_over(bus, task, to, factory, timeout)


def follow(bus: TaskOwner, message: Incoming, moved: MovedError) -> BusError | None:
    """Send a message to the new address of its addressee; see `TaskOwner._follow`."""
    from bus.features.moving import hand_over

    return hand_over.follow(bus, message, moved)


@attrs.frozen
class NewBus:
    """A bus that opens in this process.

    incarnation: given by the network.
    """

    name: str
    machine: str
    process: str
    incarnation: int
    config: BusConfig
    durability: Durability | None


@attrs.frozen(kw_only=True)
class Feature:
    """The functions of one feature; None for a moment that does not concern it.

    on_open: a bus opens. If it raises, the bus does not open.
    on_connect: a comm thread is about to be made: no frame of another process has
      arrived. The caller holds no lock.
    on_begin: the comm thread begins. The caller holds the exchange's lock.
    on_join: this process has joined the network of a bus. The arguments are its router,
      configuration and name, and a function that returns its threads.
    """

    on_open: Callable[[NewBus], OpenHooks] | None = None
    on_connect: Callable[[Exchange], object] | None = None
    on_begin: Callable[[RemoteManager], Hooks] | None = None
    on_join: (
        Callable[
            [Router, BusConfig, str, Callable[[], Sequence[ThreadManager]]], JoinHooks
        ]
        | None
    ) = None


def _durable(new: NewBus) -> OpenHooks:
    """Store the horizons of a process from now on (AMO-20).

    Raises:
        BusyError, HorizonError, OSError: see `HorizonStore.open`.
    """
    if new.durability is None:
        return OpenHooks()
    from bus.features.durable.format import Owner
    from bus.features.durable.store import HorizonStore

    owner = Owner(new.name, new.machine, new.process, new.incarnation)
    return HorizonStore.open(new.durability, owner).hooks()


def _memory(new: NewBus) -> OpenHooks:
    """Share memory with the other processes of the machine, on Linux (MC-38).

    Elsewhere the links carry all bodies. Rejected: a mapped file without a name. Its
    owner could shrink it, and a read of the lost part would end the reader (MC-34).
    """

    def bodies(process: Process) -> Bodies:
        from bus.features.memory.link_memory import LinkMemory, ViewedBodies

        if _files.HAS_SEALED_MEMORY:
            return LinkMemory(new.config, process)
        return ViewedBodies()

    return OpenHooks(bodies=bodies if new.config.shared_memory else None)


def _subscriptions(remote: RemoteManager) -> Hooks:
    """Keep, answer and forward the subscriptions of all processes (BUS-RELAY-8)."""
    from bus.features.subscriptions.remote_subscriptions import RemoteSubscriptions

    return RemoteSubscriptions(remote).begin()


def _moving(remote: RemoteManager) -> Hooks:
    """Tell senders where departed tasks go on (BUS-MOVE-9)."""
    from bus.features.moving.new_addresses import NewAddresses

    return NewAddresses(remote).begin()


def _machines(remote: RemoteManager) -> Hooks:
    """Dial the masters of other machines, and admit them, if there are such links."""
    if remote.static is None:
        return Hooks()
    from bus.features.machines.machine_dialler import MachineDialler

    return MachineDialler(remote, remote.static).hooks()


def _watching(
    router: Router,
    config: BusConfig,
    bus: str,
    managers: Callable[[], Sequence[ThreadManager]],
) -> JoinHooks:
    """Let other processes inspect this one, once it has joined its network."""
    from bus.features.watching.inspector import Inspector

    inspector = Inspector(router, config, bus, managers)
    return JoinHooks(inspector.begin, inspector.close)


# All features. At each moment their functions are called in this order; the hooks of
# `Feature.on_join` end in the reverse one.
FEATURES: Final = (
    Feature(on_open=_durable),
    Feature(on_open=_memory),
    Feature(on_begin=_subscriptions),
    Feature(on_begin=_moving),
    Feature(on_connect=use_any_machine, on_begin=_machines),
    Feature(on_join=_watching),
)
