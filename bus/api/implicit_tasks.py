"""`ImplicitTasks`: the implicit tasks of scripts, which register no tasks themselves.

Each calling thread gets one private task, at its first call. Each subscription gets
another one. A task receives one copy of a notification, even if several of its
subscriptions match (AMO-28). So with a shared task, only one callback would run.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, Protocol

from bus.api.arguments import deadline_after
from bus.api.bus_thread import check_may_wait
from bus.errors import CommandTimeoutError, UnknownTaskError
from bus.features import await_binding, listen
from bus.model.address import Address, names_any_machine
from bus.model.registration import Visibility
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.api.bus_thread import BusThread
    from bus.api.bus_threads import BusThreads
    from bus.api.lifetime import Lifetime, Orphans
    from bus.api.task import Task, Where
    from bus.model.message import Incoming, Presence
    from bus.model.specification import Specification

__all__ = ["ImplicitTasks", "Registrar"]

# For each blocking call, its replacement within a callback.
_REMEDIES: Final = {
    "call": "Task.command(on_response=)",
    "listen": "Task.subscribe, whose callback gets the notifications",
    "wait for a subscription": "subscribe without wait=True",
    "wait for a name": "Task.watch, whose callback is called when the name appears",
}


class Registrar(Protocol):
    """The bus, as its implicit tasks use it; `bus.api.bus.Bus` implements it."""

    @property
    def _threads(self) -> BusThreads:
        """The threads of the bus."""

    def here(self, name: str | None = None) -> BusThread:
        """Return the calling thread as a thread of the bus."""

    def register(
        self,
        name: str,
        *,
        thread: BusThread | None = None,
        visibility: Visibility = Visibility.PUBLIC,
    ) -> Task:
        """Register a task."""

    @property
    def _lifetime(self) -> Lifetime:
        """The time in which the bus may be used."""

    @property
    def _orphans(self) -> Orphans:
        """The tasks that lost their owner."""


class ImplicitTasks:
    """The implicit private tasks of one bus.

    mine: in each calling thread, ``task`` is its implicit task; see `task`.
    """

    __slots__ = ("_bus", "_numbers", "mine")

    def __init__(self, bus: Registrar) -> None:
        self._bus: Final = bus
        self._numbers = itertools.count(1)
        self.mine: Final = _sync.Local()

    def task(self) -> Task:
        """Return the implicit task of the calling thread."""
        task: Task | None = getattr(self.mine, "task", None)
        if task is None or task._entry.host is None:
            task = self.mine.task = self.private_task(self._bus.here())
        return task

    def subscriber(self, *, wait: bool) -> Task:
        """Register a task for one subscription, in the bus's default thread.

        wait: as in `Task.subscribe`.
        """
        if wait:
            self.check_may_wait("wait for a subscription")
        return self.private_task(None)

    def listen(
        self, to: Where | Specification, timeout: float | None, *, wait: bool
    ) -> Iterator[Incoming]:
        """Iterate over the notifications of a task in the calling thread."""
        self.check_may_wait("listen")
        deadline_after(timeout)
        task = self.private_task(self._bus.here())
        return listen(task, self._bus._orphans, to, timeout, wait=wait)

    def wait_for(self, where: Where, timeout: float | None) -> Address:
        """Wait until a task is registered under a name; return its address."""
        deadline = deadline_after(timeout)
        self.check_may_wait("wait for a name")
        task = self.task()
        # The rest may be a pattern, which is no address.
        if names_any_machine(str(where)):
            host = task._sender.require_host()
            _, there = task._bus._route(where, None)
            awaited = await_binding(task._entry, host, Address.parse(str(where)))
            return awaited.wait(task._bus, there, timeout, deadline)
        news: list[Presence] = []
        _, there = task._bus._specification(where, None)
        watch = task.watch(where, news.append)

        def is_here() -> bool:
            return bool(news) and news[-1].here

        try:
            if not task.thread._serve_until(
                lambda: is_here() or not watch.active, deadline
            ):
                assert timeout is not None
                raise CommandTimeoutError(
                    str(where), timeout, missing="task found under the name"
                )
            if not is_here():  # the watch is cancelled, since its bus is closed
                there._lifetime.check()
                raise UnknownTaskError(task._entry.name)
        finally:
            watch.cancel()
        return news[-1].address

    def check_may_wait(self, act: str) -> None:
        """Check that the calling thread may block.

        Raises:
            RuntimeError: called within a callback.
        """
        self._bus._lifetime.check()
        self._bus._orphans.deregister()
        remedy = f", whose thread may have to answer: use {_REMEDIES[act]}"
        check_may_wait(act, remedy)

    def private_task(self, thread: BusThread | None) -> Task:
        """Register a private task in ``thread``; None for the bus's default thread."""
        name = f"_script{next(self._numbers)}"
        return self._bus.register(name, thread=thread, visibility=Visibility.PRIVATE)
