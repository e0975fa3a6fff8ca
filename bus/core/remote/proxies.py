"""`Proxies`: tasks of another bus that exchange messages with processes of this one.

In a process that has joined two buses, a task of one bus may exchange messages with
tasks of the other (BUS-NAME-5). Other processes identify a task by a number of the
common bus, and a task of another bus has none there. It therefore gets a proxy: a
registration on this bus that no look-up finds. The process sends the messages of the
task in the name of its proxy, and delivers answers to the proxy to the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.address import Address
from bus.core.local.routing_table import Entry
from bus.registration import Visibility

if TYPE_CHECKING:
    from bus.core.local.process_manager import ProcessManager
    from bus.core.remote.topology import Topology

__all__ = ["Proxies", "Proxy"]


class Proxy(Entry, eq=False, kw_only=True):
    """The registration of a task of another bus on this one.

    It has no host, so no message is posted to it. No look-up finds it, although its
    ``table`` is set: a proxy counts as registered, so that it can send.

    task: the task's own registration.
    """

    task: Entry


class Proxies:
    """The proxies in one process, by the registration of their tasks.

    The lock of the exchange guards them. A task has a proxy from its first message to
    another process of this bus until `end`, which follows its deregistration from its
    own bus.
    """

    __slots__ = ("_by_task", "_manager", "_topology")

    def __init__(self, topology: Topology, manager: ProcessManager) -> None:
        self._topology: Final = topology
        self._manager: Final = manager
        self._by_task: Final[dict[Entry, Proxy]] = {}

    def __len__(self) -> int:
        return len(self._by_task)

    def sender(self, task: Entry) -> Entry:
        """Return the registration in whose name a task of this process sends here.

        That is the registration of the task itself, or its proxy, which this call
        creates if necessary. If the task has deregistered from its bus, its `end` may
        precede this call. Then the new proxy is not kept and has no table, like a task
        of this bus that has deregistered.
        """
        if task.address.bus == self._topology.me.bus:
            return task
        proxy = self._by_task.get(task)
        if proxy is None:
            machine, bus = self._topology.me.machine, self._topology.me.bus
            proxy = Proxy(
                id=self._manager.new_id(),
                name=task.name,
                visibility=Visibility.PRIVATE,
                address=Address(task.name, machine=machine, bus=bus),
                host=None,
                mailbox=None,
                task=task,
            )
            if task.table is not None:
                proxy.table = self._manager.table
                self._by_task[task] = proxy
        return proxy

    def end(self, task: Entry) -> Proxy | None:
        """Remove and return the proxy of a task; None if it has none."""
        return self._by_task.pop(task, None)
