"""`BrokerManager`: names to live brokers, and the lock of every rendezvous in it.

One lock guards the names, the callers waiting at every broker, and every broker's open
flag. With a lock for each broker, a close would need two at once if the broker's own
connects wait at another broker. That close would become a series of steps, and other
threads could see the state in between. No caller sleeps under the lock, and no
connection's lock is taken under it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from queuebroker import _platform, _sync
from queuebroker.arguments import check_callable, within_own_call
from queuebroker.channel.connection import Connection
from queuebroker.closable import Closable
from queuebroker.errors import BrokerClosedError, BrokerNameInUseError
from queuebroker.observer import Observer, Operation, Reason, Watch

if TYPE_CHECKING:
    import _thread

    from queuebroker.meeting.broker import Broker

__all__ = ["BrokerManager", "default_manager"]

T = TypeVar("T")

# Number of forks between the process that imported this module and this process.
_forks = 0


def _forked() -> None:
    global _forks  # noqa: PLW0603  # a fork is an event of the whole process
    _forks += 1
    _defaults.clear()  # the child gets a default manager of its own


_platform.after_fork_in_child(_forked)


class BrokerManager(Closable):
    """A name space of brokers; two managers share nothing (QB-NAME-1).

    Lock: ``lock`` guards every attribute here, the `RdVMap` and the open flag of each
    broker, and the state of each `RdV`. A connection's lock is never taken under it.

    Args:
        observer: receives every event in this manager. It cannot be changed later,
            because the ends that a manager creates are of one kind for life.

    Raises:
        TypeError: ``observer`` cannot be called.
    """

    def __init__(self, *, observer: Observer | None = None) -> None:
        if observer is not None:
            check_callable("observer", observer)
        self.lock: _thread.RLock = _sync.RLock()
        # Closes deferred by a signal handler that interrupted its own thread under the
        # lock, or by a finalizer.
        self.deferred: list[Callable[[], object]] = []
        self.watch: Watch | None = None if observer is None else Watch(observer)
        self._brokers: dict[str, Broker] = {}
        # In order of their meetings; each leaves when both of its sides are closed.
        self._connections: dict[Connection[Any], None] = {}
        self._closed = False
        self._hangs_up = False  # True if `close` also disconnects the connections
        self._born = _forks

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._brokers)} brokers"
        return f"<BrokerManager {state}>"

    @property
    def closed(self) -> bool:
        """True once the manager was closed."""
        return self._closed

    def names(self) -> list[str]:
        """Return the names of the live brokers, in order of registration."""
        return list(self._brokers)  # one call into C

    def get(self, name: str) -> Broker | None:
        """Return the live broker of that name, or None if there is none."""
        return self._brokers.get(name)

    def close(self, *, disconnect: bool = False) -> None:
        """Close every broker; every wait ends with BrokerClosedError (QB-BOOK-3).

        Queues and channels stay open, unless ``disconnect`` is true. No new broker can
        be created. May be repeated.
        """
        if self.foreign:
            self._closed = True  # a thread lost in the fork may hold its lock
            return
        self._hangs_up = self._hangs_up or disconnect
        if _sync.owns(self.lock):
            self._closed = True  # the interrupted call completes this when it ends
        self.run_or_defer(self._close_locked)
        if disconnect:
            self._disconnect()

    def _close_locked(self) -> None:
        self._closed = True
        for broker in list(self._brokers.values()):
            broker.close_locked()

    def _disconnect(self) -> None:
        # One call into C makes a list of a dict's values.
        for connection in list(self._connections):
            connection.close_both()

    # For brokers.

    @property
    def foreign(self) -> bool:
        """True if made before a fork; waiters and lock holders are in the parent."""
        return self._born != _forks

    def check_process(self) -> None:
        """Refuse to work in the child of a fork, which lacks the waiting threads.

        Raises:
            BrokerClosedError: this manager was created before a fork.
        """
        if self._born != _forks:
            msg = "cannot use a broker made before a fork: its threads are not here"
            raise BrokerClosedError(msg)

    def check_not_within(self, act: str) -> None:
        """Refuse a signal handler's call inside a call of its own thread.

        Raises:
            RuntimeError: the calling thread holds the lock already.
        """
        if _sync.owns(self.lock):
            raise within_own_call(act, "BrokerManager")

    def critical(self, step: Callable[[], T]) -> T:
        """Run ``step`` under the lock and return its result."""
        try:
            with self.lock:
                return step()
        finally:
            if self.deferred:
                self.settle()

    def run_or_defer(self, close: Callable[[], object]) -> None:
        """Call ``close``, which may be repeated, under the lock.

        If a signal handler interrupted its own thread under the lock, the interrupted
        call runs ``close`` at its end (QB-CONC-10).
        """
        if _sync.owns(self.lock):
            self.deferred.append(close)
        else:
            self.critical(close)

    def settle(self) -> None:
        """Run the closes that signal handlers deferred; every call ends with this."""
        while self.deferred and not _sync.owns(self.lock):
            with self.lock:
                self._settle_locked()  # a call: see `_sync.Lock`
            if self._hangs_up:
                self._disconnect()  # connections that the interrupted call has made

    def _settle_locked(self) -> None:
        while self.deferred:
            self.deferred[0]()
            del self.deferred[0]  # only now: an interrupt must not lose it

    def register(self, broker: Broker) -> None:
        """Register a broker under its name (QB-NAME-2, 4).

        Raises:
            BrokerNameInUseError: a live broker has the name and keeps it.
            BrokerClosedError: the manager is closed.
        """
        self.check_process()
        self.check_not_within(f"create broker {broker.name!r}")
        self.settle()  # a finalizer may have left a broker to close, with this name
        self.critical(partial(self._register_locked, broker))

    def _register_locked(self, broker: Broker) -> None:
        if self._closed:
            msg = f"cannot create broker {broker.name!r}: its manager is closed"
            raise BrokerClosedError(msg)
        if broker.name in self._brokers:
            msg = (
                f"cannot create broker {broker.name!r}: the name is in use; choose "
                "another name, or close the broker that has it"
            )
            raise BrokerNameInUseError(msg)
        self._brokers[broker.name] = broker
        self._note(Operation.BIND, broker.name)

    def unregister_locked(self, broker: Broker) -> None:
        """Free a broker's name (QB-NAME-5)."""
        if self._brokers.get(broker.name) is broker:
            del self._brokers[broker.name]
            self._note(Operation.UNBIND, broker.name)

    def find_locked(self, name: str) -> Broker | None:
        """Return the live broker of that name, or None if there is none."""
        # Not `get`: see `RdVMap`.
        return self._brokers[name] if name in self._brokers else None  # noqa: SIM401

    def keep_locked(self, connection: Connection[Any]) -> None:
        """Keep a connection until both of its sides are closed."""
        connection.registry = self._connections
        self._connections[connection] = None

    def _note(self, operation: Operation, name: str) -> None:
        """Notify the observer, if there is one, of an event of a broker."""
        if self.watch is not None:
            self.watch(operation, 0, 0, 0, 0, 0, 0, name, "", -1, Reason.NONE)


# One entry, "default". A dict, because its setdefault is atomic, and a lock created at
# import would escape the explorer.
_defaults: dict[str, BrokerManager] = {}


def default_manager() -> BrokerManager:
    """Return the manager used when none is given; created on first use."""
    manager = _defaults.get("default")
    if manager is None:
        manager = _defaults.setdefault("default", BrokerManager())
    return manager
