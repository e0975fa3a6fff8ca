"""A process without the API: an exchange, threads, and tasks that record messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bus.kernel.tasks.process_manager import ProcessManager
from bus.model.registration import Visibility
from bus.model.snapshot import TaskTotals
from bus.process.dropping_account import new_account
from bus.process.exchange import Exchange
from bus.process.router import Router
from bus.process.thread_manager import ThreadManager
from tests.kit.identities import identity
from tests.kit.messages import new_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.errors import BusError
    from bus.kernel.hooks import OpenHooks
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.tasks.runs import InboundRun
    from bus.model.events import BusReason
    from bus.model.message import Incoming
    from bus.process.account import Overflow
    from bus.process.mailbox import Host

__all__ = ["IDENTITY", "Clerk", "Station", "run_due"]

# The process of a station, as its peers see it.
IDENTITY: Final = identity()

_SEND_TIMEOUT_S = 5.0
_RESOLVE_TIMEOUT_S = 5.0


def run_due(manager: ThreadManager) -> None:
    """Run all callbacks that are due in the calling thread, and those they cause."""
    while manager.pending():
        manager.poll(0)


class Clerk:
    """A task that records the messages it reads and the outcomes of its own messages.

    read: payloads, in order.
    threads: the name of the reading thread for each payload.
    failures: payload and error of each undelivered message.
    dropped: payloads dropped in favour of newer ones.
    """

    def __init__(self, capacity: int, overflow: Overflow) -> None:
        self.account: Final = new_account(
            messages_max=capacity, bytes_max=2**20, overflow=overflow
        )
        self.read: list[Any] = []
        self.threads: list[str] = []
        self.failures: list[tuple[Any, BusError]] = []
        self.dropped: list[Any] = []
        self.gaps: list[int] = []
        self.left: bool = False

    def handle(self, item: Any) -> None:
        host: ThreadManager = item._to.host
        if item._account.extract(item, host.inbox.lock):
            host.inbox.wake_senders()
            self.read.append(item.payload)
            self.threads.append(host.name)
            self.gaps.append(item.gap)

    def why_unread(self) -> str:
        return "it does not read"

    @property
    def name(self) -> str:
        """The name for logs, which is the same for every clerk."""
        return "clerk"

    @property
    def has_callback(self) -> bool:
        """Always False: a clerk takes each command itself."""
        return False

    def reads(self, run: InboundRun) -> tuple[Callable[[Incoming], object], Any] | None:
        """Return None: a clerk takes each message itself."""

    def on_run_begun(self, run: InboundRun) -> None:
        raise AssertionError(run)

    def on_run_read(self, run: InboundRun) -> None:
        raise AssertionError(run)

    def on_exception(self, callback: object) -> None:
        raise AssertionError(callback)

    def on_arrival(self, entry: Entry, host: Host) -> None:
        """Do nothing: a clerk behaves the same in every thread."""

    def on_deregistered(self) -> None:
        self.left = True

    def unclaimed(self) -> list[Incoming]:
        return []

    def on_interrupted(self, item: object, error: BaseException) -> bool:
        return False

    def try_deliver_directly(self, answer: Any, host: Any = None) -> bool:
        return False

    def on_unread_answer(self, answer: Any) -> None:
        raise AssertionError(answer)

    def totals(self, lock: Any) -> TaskTotals:
        return TaskTotals(self.account.counters(lock))

    def on_undeliverable(
        self, message: Incoming, error: BusError, reason: BusReason | None = None
    ) -> None:
        self.failures.append((message.payload, error))

    def on_dropped(self, message: Incoming) -> None:
        self.dropped.append(message.payload)

    def on_overflow(self, message: Incoming) -> None:
        raise AssertionError(message)

    def run_openings(self) -> None:
        """Do nothing: a clerk postpones nothing."""

    def postpone(self, opening: Callable[[], object]) -> bool:
        return False

    def await_verdict(self) -> None:
        raise AssertionError

    def on_confirmed(self) -> None:
        raise AssertionError

    def on_evicted(self, entry: Entry, error: BusError) -> bool:
        raise AssertionError(error)


class Station:
    """One process; tasks are registered by name, and commands come from "sender".

    No callback blocks here, so every thread may wait.
    """

    def __init__(self, *, parked: int = 100, hooks: Sequence[OpenHooks] = ()) -> None:
        self.manager: Final = ProcessManager(
            IDENTITY.machine,
            IDENTITY.process,
            parked_per_name=parked,
            parked_in_all=parked,
            resolve_timeout_s=_RESOLVE_TIMEOUT_S,
        )
        self.exchange: Final = Exchange(self.manager, hooks=hooks)
        self.router: Final = Router(
            self.exchange, send_timeout_s=_SEND_TIMEOUT_S, may_wait=lambda: True
        )
        self.home: Final = ThreadManager("home")
        self.sender, self.source = self.register("sender", self.home)

    def register(
        self,
        name: str,
        host: ThreadManager,
        *,
        capacity: int = 100,
        overflow: Overflow = "error",
        private: bool = False,
    ) -> tuple[Clerk, Entry]:
        """Register a task in a thread."""
        clerk = Clerk(capacity, overflow)
        visibility = Visibility.PRIVATE if private else Visibility.PUBLIC
        entry = self.exchange.register(name, visibility, "bus1", host, clerk)
        return clerk, entry

    def message(self, name: str, payload: Any, size: int = 1) -> Incoming:
        """Make a command from "sender" to a name."""
        return new_message(payload, _source=self.source, _name=name, _size=size)

    def send(self, name: str, *payloads: Any, size: int = 1) -> None:
        """Send commands from "sender"."""
        for payload in payloads:
            self.router.send(self.message(name, payload, size))
