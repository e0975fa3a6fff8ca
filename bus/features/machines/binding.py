"""`Binding`: a wait for the task of a name of any machine (BUS-NAME-8).

Once the name has a task, `Binder` sends the messages that waited for the name to it,
and each thread that waits for the name gets its address.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from bus.api.outcome import AwaitedOutcome
from bus.errors import BusFullError, CommandTimeoutError, InDoubtError, UnknownTaskError
from bus.features.machines.any_machine import AnyMachineNames, Bind
from bus.model.events import BusReason
from bus.model.message import Incoming, Kind
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.api.bus_thread import BusThread
    from bus.api.task_owner import TaskOwner
    from bus.kernel.tasks.routing_table import Entry
    from bus.model.address import Address
    from bus.process.exchange import Exchange
    from bus.process.mailbox import Client
    from bus.process.thread_manager import ThreadManager

__all__ = ["AwaitedBinding", "Binder", "Binding", "send_bound", "use_any_machine"]


class Binding:
    """A wait for the task of a name, parked in the place of a message.

    on_bound: called once with the address of the task, in any thread.
    """

    __slots__ = ("on_bound",)

    def __init__(self, on_bound: Callable[[Address], object]) -> None:
        self.on_bound: Final = on_bound

    def probe(self, waiter: Entry, name: str, deadline: float | None) -> Incoming:
        """Return the message to park; no task receives it.

        It is no command, so that its failure is reported to no task.

        waiter: the task of the waiting thread, for which the name is searched.
        deadline: when the wait ends, in seconds; None for no limit.
        """
        return Incoming(
            kind=Kind.NOTIFICATION,
            payload=self,
            _source=waiter,
            _name=name,
            _deadline=deadline,
        )


class Binder:
    """Performs each `Bind` of one process."""

    __slots__ = ("_exchange", "names")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange: Final = exchange
        self.names: Final = AnyMachineNames(exchange.manager)

    def __call__(self, bind: Bind, *_: object) -> None:
        """Send the messages, and let the manager bind the name."""
        send_bound(bind, self._exchange.send_at_once)
        now = _sync.monotonic()
        self._exchange.decide(lambda: self.names.on_bound(bind, now))


def use_any_machine(exchange: Exchange) -> None:
    """Let a process find names of any machine; it may do so already."""
    # One step: of several threads, one decides. Without the exchange's lock, which
    # another process may have held when this one was forked.
    binder = exchange.performers.setdefault(Bind, Binder(exchange))
    assert isinstance(binder, Binder)
    exchange.manager.any_machine = binder.names


def send_bound(bind: Bind, send: Callable[[Incoming], object]) -> None:
    """Send the messages that waited for a name to its task, in order.

    After an interrupt the action begins again. The message that was being sent is then
    in doubt, unless `send` had not been called: no message is sent twice, and each has
    an outcome (BUS-NAME-8).

    send: sends a message to the task registered under its ``_name``, without waiting.
    """
    if bind.sending is not None:
        _resume(bind, bind.sending)
    messages = bind.messages
    while messages:
        # No call between these lines: an interrupt finds the message in one place.
        message = bind.sending = messages[0]
        del messages[0]
        _send_one(bind, message, send)
        bind.sending = None


def _resume(bind: Bind, message: Incoming) -> None:
    """Decide on the message that was being sent when an interrupt came."""
    if message._name != bind.entry.name:
        # `send` was not called. One statement, so that no interrupt doubles the message
        # or loses it.
        bind.messages, bind.sending = deque((message, *bind.messages)), None
        return
    why = "an interrupt, such as Ctrl-C, ended the call that was sending it"
    error = InDoubtError(bind.entry.name, why)
    client: Client = message._source.mailbox.client
    client.on_undeliverable(message, error, BusReason.CANCELLED)
    bind.sending = None


def _send_one(
    bind: Bind, message: Incoming, send: Callable[[Incoming], object]
) -> None:
    entry: Entry = bind.entry
    if type(message.payload) is Binding:
        message.payload.on_bound(entry.address)
        return
    message._name = entry.name  # from here on `_resume` cannot know what happened
    try:
        send(message)
    except BusFullError as error:
        message._source.mailbox.client.on_undeliverable(message, error)


class AwaitedBinding(AwaitedOutcome["Address"]):
    """The first task of a name of any machine (BUS-NAME-8).

    Args:
        entry, host: the task of the waiting thread, which hosts it.
        name: the name, as `bus.model.address.name_anywhere` writes it.
    """

    __slots__ = ("_name",)

    def __init__(self, entry: Entry, host: ThreadManager, name: str) -> None:
        super().__init__(entry, host)
        self._name: Final = name

    def wait(
        self,
        bus: TaskOwner,
        there: TaskOwner,
        timeout: float | None,
        deadline: float | None,
    ) -> Address:
        """Search for the name until it is found, and return the task's address.

        bus: the bus of the waiting task. there: that of the name.

        However the wait ends, no search and no parked message remains.

        Raises:
            CommandTimeoutError: no machine had the name in time.
            UnknownTaskError: the task of this thread deregisters, or a bus is closed
                meanwhile.
        """
        exchange, round_s = there._exchange, there._config.resolve_timeout_s
        assert self.host is not None  # it waits in the thread of the task
        thread: BusThread = self.host.thread
        while not self.is_over():
            now = _sync.monotonic()
            if deadline is not None and deadline <= now:
                assert timeout is not None
                raise CommandTimeoutError(
                    self._name, timeout, missing="task found under the name"
                )
            # A parked message expires, so the search is begun anew from time to time.
            until = now + round_s if deadline is None else min(deadline, now + round_s)
            probe = Binding(self.on_outcome).probe(self.entry, self._name, deadline)
            try:
                found = exchange.park(self._name, probe, again=True)
                there._lifetime.check()
                if found is not None:
                    return found.address
                thread._serve_until(
                    lambda: self.is_over() or there._lifetime.closed, until
                )
            finally:
                exchange.decide_remote(partial(exchange.manager.withdraw, probe))
        if self.outcome is None:
            bus._lifetime.check()  # a closed bus is the more precise error
            raise UnknownTaskError(self.entry.name)
        return self.outcome
