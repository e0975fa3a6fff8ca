"""The features of a bus, each in a folder of its own.

A feature plugs into the kernel by `bus.kernel.hooks`. This module is the one
table that names them all. Each of its functions imports its feature when it is called,
so that a process loads a feature at its first use.

subscriptions   notifications of tasks, watches of their presence
memory          long messages in shared memory, loans
machines        discovery of machines, keys, gateways, names of any machine
durable         horizons on stable storage: no message twice after a restart
moving          a task is handed over to another process
watching        reports on a live bus, the frame monitor
"""

# ruff: noqa: PLC0415 - as above

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.kernel.hooks import Hooks
from bus.kernel.tasks.remote import AnyMachine
from bus.model.address import name_anywhere

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
    "REMOTE_FEATURES",
    "accept_tasks",
    "await_binding",
    "durable_hooks",
    "follow",
    "hand_over",
    "inspect",
    "listen",
    "new_loan",
    "other_machines",
    "shared_memory",
    "use_any_machine",
]


def _watching(
    router: Router,
    config: BusConfig,
    bus: str,
    managers: Callable[[], Sequence[ThreadManager]],
) -> Hooks:
    """Let other processes inspect this one, once it has joined its network."""
    from bus.features.watching.inspector import Inspector

    inspector = Inspector(router, config, bus, managers)
    return Hooks(begin=inspector.begin, end=inspector.close)


# Each gives the hooks of one feature for one bus; they begin in this order, and end in
# the reverse one.
FEATURES: Final = (_watching,)


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


def other_machines(bus: str, config: BusConfig, network: Network) -> Outside:
    """Return the links of a process with other machines; see `OtherMachines`."""
    from bus.features.machines.machine_discovery import OtherMachines

    return OtherMachines(bus, config, network)


# Each gives the hooks of one feature to a process that joins a network.
REMOTE_FEATURES: Final = (_subscriptions, _moving, _machines)


def durable_hooks(
    durability: Durability, bus: str, machine: str, process: str, incarnation: int
) -> Hooks:
    """Store the horizons of a process from now on (AMO-20).

    incarnation: given by the network.

    Raises:
        BusyError, HorizonError, OSError: see `HorizonStore.open`.
    """
    from bus.features.durable.format import Owner
    from bus.features.durable.store import HorizonStore

    owner = Owner(bus, machine, process, incarnation)
    return HorizonStore.open(durability, owner).hooks()


def shared_memory(config: BusConfig, process: Process) -> Bodies:
    """Share memory with the other processes of the machine (MC-38)."""
    from bus.features.memory.link_memory import LinkMemory

    return LinkMemory(config, process)


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
