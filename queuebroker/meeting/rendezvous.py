"""The rendezvous: `RdV`, one accept or connect call; `RdVMap`, the waiting calls.

All of it is pure: callers hold the manager's lock and wait by themselves. Every
transition of an RdV goes through its `step`.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from queuebroker import _sync
from queuebroker.channel.channel import Channel
from queuebroker.channel.connection import Connection
from queuebroker.channel.message_queue import MessageQueue
from queuebroker.closable import Uncopyable
from queuebroker.observer import Reason, Watch
from queuebroker.waiting.parking import Parker, own_parker

if TYPE_CHECKING:
    import _thread

__all__ = [
    "Caller",
    "Join",
    "Kind",
    "NameSpace",
    "RdV",
    "RdVEvent",
    "RdVMap",
    "RdVState",
    "Target",
    "Terms",
]

T = TypeVar("T")


class Kind(enum.Enum):
    """The kind of connection; kinds never match one another (QB-RDV-4)."""

    CHANNEL = "channel"
    QUEUE = "queue"


class RdVState(enum.Enum):
    """The state of a call; the last two are final (QB-RDV-16)."""

    WAITING_ACCEPT = "waiting-accept"
    WAITING_CONNECT = "waiting-connect"
    MATCHED = "matched"
    WITHDRAWN = "withdrawn"


class RdVEvent(enum.Enum):
    """The events that end the wait of a call."""

    MATCH = "match"
    WITHDRAW = "withdraw"


# By identity, as in `queuebroker.channel.status`: the hash of Enum is Python code.
Kind.__hash__ = object.__hash__  # type: ignore[method-assign]  # see above
RdVState.__hash__ = object.__hash__  # type: ignore[method-assign]  # see above
RdVEvent.__hash__ = object.__hash__  # type: ignore[method-assign]  # see above

_TRANSITIONS: Final[Mapping[tuple[RdVState, RdVEvent], RdVState]] = {
    (RdVState.WAITING_ACCEPT, RdVEvent.MATCH): RdVState.MATCHED,
    (RdVState.WAITING_CONNECT, RdVEvent.MATCH): RdVState.MATCHED,
    (RdVState.WAITING_ACCEPT, RdVEvent.WITHDRAW): RdVState.WITHDRAWN,
    (RdVState.WAITING_CONNECT, RdVEvent.WITHDRAW): RdVState.WITHDRAWN,
}

_OPPOSITE: Final[Mapping[RdVState, RdVState]] = {
    RdVState.WAITING_ACCEPT: RdVState.WAITING_CONNECT,
    RdVState.WAITING_CONNECT: RdVState.WAITING_ACCEPT,
}


class Terms(NamedTuple):
    """A caller's terms for the connection; the acceptor's size rules (QB-BUF-10).

    capacity: maximum messages (Channel: bytes) in each direction.
    limit: maximum bytes of a message, None for no limit.
    strict: True if this side's sends raise while half-disconnected (QB-PY-8).
    exclusive: True if this accept tolerates no other on its port (QB-RDV-9).
    """

    capacity: int
    limit: int | None = None
    strict: bool = False
    exclusive: bool = False


# Makes the connection and the acceptor's end from an accept and an observer, if only
# the acceptor is in this process.
Join = Callable[
    ["RdV", "Watch | None"], "tuple[Connection[Any], MessageQueue | Channel]"
]


class Target(Protocol):
    """A broker at which calls wait; it may be in another process."""

    @property
    def name(self) -> str:
        """Its name or its address."""

    @property
    def closed(self) -> bool:
        """True once it was closed."""

    @property
    def waiting(self) -> RdVMap:
        """The calls that wait there."""


class NamedTarget(Target, Protocol):
    """A broker that a connect of this process finds by its name."""

    @property
    def kinds(self) -> Container[Kind]:
        """The kinds of connection that it offers."""


class NameSpace(Protocol):
    """The manager of brokers, as their calls use it."""

    @property
    def lock(self) -> _thread.RLock:
        """The lock of every rendezvous among its brokers."""

    @property
    def watch(self) -> Watch | None:
        """Its observer, if there is one."""

    @property
    def deferred(self) -> Sequence[object]:
        """The closes that signal handlers deferred."""

    def check_not_within(self, act: str) -> None:
        """Refuse a signal handler's call inside a call of its own thread."""

    def critical(self, step: Callable[[], T]) -> T:
        """Run ``step`` under the lock and return its result."""

    def settle(self) -> None:
        """Run the deferred closes; every call ends with this."""

    def find_locked(self, name: str) -> NamedTarget | None:
        """Return the live broker of that name, or None if there is none."""

    def keep_locked(self, connection: Connection[Any]) -> None:
        """Keep a connection until both of its sides are closed."""


class Caller(Protocol):
    """The broker on which a call is made; it may be in another process."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def closed(self) -> bool:
        """True once it was closed."""

    @property
    def manager(self) -> NameSpace:
        """The manager in whose name space it calls."""

    @property
    def departing(self) -> dict[RdV, None]:
        """Its connects that wait."""


_tickets = itertools.count(1)

# A member of an Enum takes five times as long to look up as a global name.
_ACCEPT: Final = RdVState.WAITING_ACCEPT
_NO_REASON: Final = Reason.NONE


class RdV(Uncopyable):
    """One call of accept or connect, from its arrival to its end; single use.

    accepts: True for an accept, False for a connect.
    caller: the broker on which the call was made.
    name: name of the broker to meet at; ``target`` is that broker: of an accept the
      caller, of a connect unknown until it has begun.
    reason: the reason of its withdrawal.
    end: the end made by a match. The caller takes it; until then the caller sleeps on
      ``parker``, which ``make`` creates if the call has to wait.
    join: makes the acceptor's end if this call is a connect from another process;
      called with the accept under the manager's lock.
    """

    __slots__ = (
        "accepts",
        "began_ns",
        "begun",
        "caller",
        "end",
        "join",
        "kind",
        "make",
        "name",
        "parker",
        "place",
        "port",
        "reason",
        "state",
        "target",
        "terms",
        "ticket",
    )

    def __init__(
        self,
        state: RdVState,
        caller: Caller,
        name: str,
        kind: Kind,
        port: int,
        terms: Terms,
        make: Callable[[], Parker] = own_parker,
    ) -> None:
        self.state: RdVState = state
        self.accepts: Final = state is _ACCEPT
        self.caller: Caller = caller
        self.name: str = name
        self.target: Target
        self.kind: Kind = kind
        self.port: int = port
        self.place: Final = (kind, port)
        self.terms: Terms = terms
        self.ticket: int = _sync.draw(_tickets)
        self.began_ns: int = 0
        # True once the call may be listed; its end is then reported to the observer.
        self.begun: bool = False
        self.reason: Reason = _NO_REASON
        self.end: MessageQueue | Channel | None = None
        self.make: Callable[[], Parker] = make
        self.parker: Parker | None = None
        self.join: Join | None = None

    def __repr__(self) -> str:
        return f"<RdV {self.kind.value} port {self.port} {self.state.value}>"

    @property
    def waiting(self) -> bool:
        """True until the call is matched or withdrawn."""
        return self.state in _OPPOSITE

    def ended(self) -> bool:
        """Return True once the call no longer waits; the predicate of its sleep."""
        return self.state not in _OPPOSITE

    def asleep(self) -> bool:
        """Return True if its caller sleeps, or is about to, and was not woken."""
        parker = self.parker  # its caller drops it after the sleep
        return parker is not None and parker.locked()

    def wake(self) -> None:
        """Wake the caller, if it sleeps and was not woken yet."""
        parker = self.parker
        if parker is not None and parker.locked():
            parker.release()

    def step(self, event: RdVEvent) -> None:
        """Move to the next state.

        Raises:
            ValueError: the state is final; it stays as it is.
        """
        step = (self.state, event)
        if step not in _TRANSITIONS:
            msg = f"cannot {event.value}: rendezvous is {self.state.value}"
            raise ValueError(msg)
        self.state = _TRANSITIONS[step]


class RdVMap(Uncopyable):
    """The calls that wait at one broker: by kind and port, in order of arrival.

    Guarded by the manager's lock.

    Invariants, true whenever that lock is free:
    I1. all calls under one kind and port wait in the same state: an accept and a
        connect that could match have matched.
    I2. no call here is matched or withdrawn, and no port is here without a waiter.

    Look-ups use `in` and `[]`. If the key is equal but not identical and another thread
    has made the dict, `get` of CPython 3.13 without the interpreter lock takes the lock
    of the dict twice, and spins for 20 us before the second time.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[tuple[Kind, int], list[RdV]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[RdV]:
        for waiting in self._waiting.values():
            yield from waiting

    def opposite_of(self, rdv: RdV) -> RdV | None:
        """Return the longest waiting call that matches this one, or None."""
        if rdv.place in self._waiting:
            waiting = self._waiting[rdv.place]
            if waiting and waiting[0].accepts is not rdv.accepts:
                return waiting[0]
        return None

    def refuses(self, rdv: RdV) -> bool:
        """Return True if an exclusive accept conflicts with this accept (QB-RDV-9)."""
        if not rdv.accepts or rdv.place not in self._waiting:
            return False
        waiting = self._waiting[rdv.place]
        if not waiting:
            return False
        first = waiting[0]
        return first.accepts and (rdv.terms.exclusive or first.terms.exclusive)

    def add(self, rdv: RdV) -> None:
        """Create the parker of a call and add the call."""
        rdv.parker = rdv.make()
        self._waiting.setdefault(rdv.place, []).append(rdv)

    def remove(self, rdv: RdV) -> None:
        """Remove a call, if it is here."""
        if rdv.place not in self._waiting:
            return
        waiting = self._waiting[rdv.place]
        if rdv in waiting:
            waiting.remove(rdv)
            if not waiting:
                del self._waiting[rdv.place]

    def mend(self) -> None:
        """Remove calls that are matched or withdrawn but still listed (I2).

        An interrupt in the middle of a change can leave such a call listed, its caller
        asleep, or a port without a call.
        """
        for rdv in list(self):
            if not rdv.waiting:
                rdv.wake()
                rdv.caller.departing.pop(rdv, None)
                self.remove(rdv)
        for place in [place for place, waiting in self._waiting.items() if not waiting]:
            del self._waiting[place]

    def count(self, state: RdVState, kind: Kind) -> dict[int, int]:
        """Return the number of calls that wait in a state, by port (QB-BOOK-2)."""
        counts: dict[int, int] = {}
        for (of_kind, port), waiting in self._waiting.items():
            # One call at a time: a signal handler may read these in the middle of a
            # match.
            if of_kind is kind and (
                count := sum(rdv.state is state for rdv in waiting)
            ):
                counts[port] = count
        return counts
