"""`TaskAnnouncer`: announces changes of local tasks to other processes.

The process manager reports each change of a task, and of the searches for names
(`bus.kernel.tasks.remote.Remote`). Each report goes on to the parts of the remote
manager that inform other processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.model.registration import Visibility

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.kernel.hooks import Hooks
    from bus.kernel.links.idle import IdleRelays
    from bus.kernel.messages.outbound_messages import OutboundMessages
    from bus.kernel.name_registry import NameRegistry
    from bus.kernel.relays import Relays
    from bus.kernel.searches.resolver import Resolver
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.topology import Topology

__all__ = ["TaskAnnouncer"]


class TaskAnnouncer:
    """The announcements of the tasks of one process; `Remote` has the contracts.

    The driver holds the exchange's lock in each call. A call without a result leaves
    its actions in ``topology.todo``, for the next call that returns some.
    """

    __slots__ = (
        "_hooks",
        "_idle_relays",
        "_manager",
        "_name_registry",
        "_outbound_messages",
        "_own_searches",
        "_relays",
        "_resolver",
        "_topology",
    )

    def __init__(
        self,
        topology: Topology,
        manager: ProcessManager,
        name_registry: NameRegistry,
        relays: Relays,
        outbound_messages: OutboundMessages,
        resolver: Resolver,
        idle_relays: IdleRelays,
        hooks: Hooks,
    ) -> None:
        self._topology: Final = topology
        self._manager: Final = manager
        self._name_registry: Final = name_registry
        self._relays: Final = relays
        self._outbound_messages: Final = outbound_messages
        self._resolver: Final = resolver
        self._own_searches: Final = resolver.own
        self._idle_relays: Final = idle_relays
        self._hooks: Final = hooks

    # Tasks and their names.

    def claim(self, name: str) -> list[Action]:
        self._name_registry.check(name)
        present = self._manager.table.find(name)
        if present is not None:
            self._relays.supersede(present)
        return self._topology.take_actions()

    @property
    def todo(self) -> list[Action]:
        return self._topology.todo

    def put_back(self, todo: list[Action], left: Iterable[Action]) -> None:
        if self._topology.todo is not todo:
            self._topology.todo[:0] = left  # no call: an interrupt finds all or none

    def restore(self) -> None:
        self._relays.restore()

    def awaits_verdict(self, entry: Entry) -> bool:
        return self._name_registry.awaits_verdict(entry)

    def on_registered(self, task: Entry, now: float) -> list[Action]:
        self._name_registry.on_registered(task, now)
        self._relays.introduce([task])
        self._resolver.on_registered(task, now)
        return self._topology.take_actions()

    def on_departure(self, task: Entry, *, final: bool) -> None:
        if task.visibility is Visibility.PUBLIC or task.relay:
            self._name_registry.on_departure(task, final=final)

    def on_emptied(self, entry: Entry, now: float, *, final: bool) -> list[Action]:
        """Announce the last message that a departed task took; search for its name.

        The task's mailbox is now empty, and its unread commands are parked.
        """
        if not entry.remote:
            self._end_sending(entry, now, final=final)
            for on_emptied in self._hooks.on_emptied:
                on_emptied(entry, now)
        if self._manager.table.find(entry.name) is None:
            # A relay that was never reached may leave a search behind (BUS-ROUTE-19).
            self._own_searches.end_unneeded(entry.name)
            self._own_searches.seek(entry.name, now)
        return self._topology.take_actions()

    def end_proxy(self, task: Entry, now: float) -> list[Action]:
        proxy = self._relays.proxies.end(task)
        if proxy is not None:
            self._end_sending(proxy, now, final=False)
        return self._topology.take_actions()

    def _end_sending(self, task: Entry, now: float, *, final: bool) -> None:
        self._idle_relays.on_departure(task)  # while relays list it as a user
        self._outbound_messages.on_departure(task, final=final)
        self._own_searches.on_departure(task, now)

    # Searches.

    def seek(self, name: str, now: float) -> None:
        self._own_searches.seek(name, now)

    def on_named(self, entry: Entry) -> None:
        self._own_searches.on_named(entry)

    def end_search(self, name: str) -> None:
        self._own_searches.end_unneeded(name)
