"""A correct implementation of the contract in plain threading: the suite's control.

It has one condition for all calls of a world and one for each connection, always woken
with ``notify_all``: slow, and small enough to trust. This module has the rendezvous;
the ends are in `reference_ends`. `faults` are planted in the text of both files; a line
that they name must stay as it is.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import attrs

from tests.conformance.reference_ends import Channel, End, HungUpError, limit_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class ClosedError(Exception):
    """The broker was closed."""


class PortInUseError(Exception):
    """An exclusive accept met another one."""


class World:
    """The object that the suite's factory returns."""

    offers = frozenset(
        {"NAME", "RDV", "SEND", "RECV", "FIFO", "BUF", "CHAN", "DISC"}
        | {"ERR", "TIME", "CONC", "PY", "BULK"}
    )
    disconnected_error = HungUpError
    closed_error = ClosedError
    port_in_use_error = PortInUseError

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.names: dict[str, Broker] = {}
        self.waiting: dict[tuple[Broker, str, int, str], list[Ticket]] = {}

    def broker(self, name: str, max_message_size: int | None = None) -> Broker:
        """Return a broker of messages."""
        return Broker(self, name, "message", max_message_size)

    def channels(self, name: str, capacity: int = 64) -> Broker:
        """Return a broker of bytes."""
        return Broker(self, name, "channel", None, capacity)

    def close(self) -> None:
        """Close every broker."""
        for broker in list(self.names.values()):
            broker.close()


@attrs.define(eq=False)
class Ticket:
    """A caller that waits for its opposite."""

    caller: Broker
    exclusive: bool = False
    capacity: int = 0
    end: Any = None
    lost: bool = False


class Broker:
    """A name at which callers get ends."""

    def __init__(
        self, world: World, name: str, kind: str, limit: int | None, capacity: int = 4
    ) -> None:
        if not isinstance(name, str):
            raise TypeError("a name is a str")
        if not name:
            raise ValueError("a name is not empty")
        self.world, self.name, self.kind, self.limit = world, name, kind, limit
        self.capacity = capacity
        self.closed = False
        with world.changed:
            if name in world.names:
                raise ValueError(f"{name} is in use")
            world.names[name] = self

    def accept(
        self,
        port: int,
        *,
        timeout: float | None = None,
        capacity: int | None = None,
        exclusive: bool = False,
    ) -> Any:
        """Return the acceptor's end of the next connection."""
        ticket = Ticket(self, exclusive, capacity or self.capacity)
        return self._meet(self, port, "accept", "connect", ticket, timeout)

    def connect(
        self,
        name: str,
        port: int,
        *,
        timeout: float | None = None,
        required: bool = False,
    ) -> Any:
        """Return the connector's end, or None if no broker has that name."""
        _check_port(port)
        with self.world.changed:
            if self.closed:
                raise ClosedError(self.name)
            target = self.world.names.get(name)
        if target is None or target.kind != self.kind:
            if required:
                raise LookupError(name)
            return None
        return self._meet(target, port, "connect", "accept", Ticket(self), timeout)

    def close(self) -> None:
        """Free the name; release every caller that waits for or from this broker."""
        with self.world.changed:
            self.closed = True
            if self.world.names.get(self.name) is self:
                del self.world.names[self.name]
            for (target, *_), tickets in self.world.waiting.items():
                for ticket in [t for t in tickets if self in (target, t.caller)]:
                    ticket.lost = True
                    tickets.remove(ticket)
            self.world.changed.notify_all()

    def accept_iter(self, port: int) -> Iterator[Any]:
        """Yield end after end until the broker is closed."""
        while True:
            try:
                yield self.accept(port)
            except ClosedError:
                return

    def waiting_accepts(self) -> list[Ticket]:
        """Return the accepts that wait."""
        return self._waiting("accept")

    def waiting_connects(self) -> list[Ticket]:
        """Return the connects that wait."""
        return self._waiting("connect")

    def _waiting(self, role: str) -> list[Ticket]:
        with self.world.changed:
            found = self.world.waiting.items()
            return [t for k, ts in found if (k[0], k[3]) == (self, role) for t in ts]

    def _meet(
        self,
        target: Broker,
        port: int,
        role: str,
        opposite: str,
        ticket: Ticket,
        timeout: float | None,
    ) -> Any:
        _check_port(port)
        limit = limit_of(timeout)
        with self.world.changed:
            if self.closed or target.closed:
                raise ClosedError(self.name)
            waiting = self.world.waiting
            mine = waiting.setdefault((target, self.kind, port, role), [])
            theirs = waiting.setdefault((target, self.kind, port, opposite), [])
            if theirs:
                return self._match(theirs.pop(0), ticket, port, role)
            if role == "accept" and any(t.exclusive or ticket.exclusive for t in mine):
                raise PortInUseError(port)
            mine.append(ticket)
            try:
                self.world.changed.wait_for(lambda: ticket.end or ticket.lost, limit)
            finally:
                if ticket in mine:
                    mine.remove(ticket)
            if ticket.end:
                return ticket.end
            if ticket.lost:
                raise ClosedError(self.name)
            raise TimeoutError(f"nobody came to port {port}")

    def _match(self, other: Ticket, ticket: Ticket, port: int, role: str) -> Any:
        acceptor, connector = (ticket, other) if role == "accept" else (other, ticket)
        make = End if self.kind == "message" else Channel
        left, right = make.pair(acceptor, connector, port)
        ticket.end, other.end = (left, right) if role == "accept" else (right, left)
        self.world.changed.notify_all()
        return ticket.end


def _check_port(port: int) -> None:
    if isinstance(port, bool) or not isinstance(port, int):
        raise TypeError("a port is an int")
    if not 0 <= port < 2**31:
        raise ValueError("a port is of 31 bits")


def factory() -> World:
    """Return a new world."""
    return World()
