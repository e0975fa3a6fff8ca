"""Brokers: their names, and the accepts and connects that wait on their ports.

The whole state is a value; each operation is a pure function to an answer and the next
state. Waiters are kept in one sequence in order of arrival: the lists of a port,
waiting accepts (WA) and waiting connects (WC), are the parts of it for that port. The
caller supplies a ticket that identifies the waiter. If a waiter does not return at
once, its outcome is found under its ticket. `Brokers` is the same as an object.
"""

from __future__ import annotations

import collections
import enum
from typing import TYPE_CHECKING

import attrs

from specs.models.answers import Answer, Ending

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = [
    "Broker",
    "Brokers",
    "Medium",
    "Role",
    "Rooms",
    "Waiter",
    "accept",
    "close",
    "connect",
    "create",
    "withdraw",
]

_WAITS = Answer(Ending.WAITS)
_CLOSED = Answer(Ending.BROKER_CLOSED)
_UNKNOWN = Answer(Ending.UNKNOWN_BROKER)


class Role(enum.Enum):
    """The two roles of a match; only opposite ones match (QB-RDV-3)."""

    ACCEPT = enum.auto()
    CONNECT = enum.auto()


class Medium(enum.Enum):
    """The kind of a connection; the two kinds never match (A22)."""

    MESSAGE = enum.auto()
    CHANNEL = enum.auto()


@attrs.frozen
class Broker:
    """A broker; `label` distinguishes it from others that had its name.

    queue: True if it has a QueueBroker interface. Every broker has a plain one.
    """

    label: Hashable
    name: str
    queue: bool = True

    def offers(self, medium: Medium) -> bool:
        """Return True if connects for this medium find the broker (QB-NAME-12)."""
        return self.queue or medium is Medium.CHANNEL


@attrs.frozen
class Waiter:
    """An accept or a connect that has not been matched.

    broker: the label of the broker on whose port it waits.
    source: the label of the broker that it was called on.
    """

    ticket: Hashable
    role: Role
    broker: Hashable
    port: int
    medium: Medium
    source: Hashable
    exclusive: bool = False

    @property
    def place(self) -> tuple[Hashable, int, Medium]:
        """Broker, port and medium: two waiters match only if these are equal."""
        return self.broker, self.port, self.medium


@attrs.frozen(cache_hash=True)
class Rooms:
    """The state of one manager.

    live: the brokers that are not closed.
    waiting: all waiters, in order of arrival.
    ended: outcomes of the calls that had to wait, by ticket: DONE with the ticket of
      the opposite, or BROKER_CLOSED.
    """

    live: frozenset[Broker] = frozenset()
    waiting: tuple[Waiter, ...] = ()
    ended: frozenset[tuple[Hashable, Answer]] = frozenset()

    def named(self, name: str) -> Broker | None:
        """Return the live broker of that name."""
        return next((each for each in self.live if each.name == name), None)

    def is_live(self, label: Hashable) -> bool:
        """Return True if that very broker is not closed."""
        return any(each.label == label for each in self.live)

    def end_of(self, ticket: Hashable) -> Answer | None:
        """Return the outcome of a waiter; None if it still waits or never had to."""
        return dict(self.ended).get(ticket)


def create(
    rooms: Rooms, label: Hashable, name: str, *, queue: bool = True
) -> tuple[Answer, Rooms]:
    """Register a new broker; DONE with its label."""
    if rooms.named(name) is not None:
        return Answer(Ending.NAME_IN_USE), rooms
    live = rooms.live | {Broker(label, name, queue)}
    return Answer(Ending.DONE, label), attrs.evolve(rooms, live=live)


def close(rooms: Rooms, label: Hashable) -> tuple[Answer, Rooms]:
    """Close a broker; end the waiters on it and its own connects (QB-NAME-6)."""
    touched = [each for each in rooms.waiting if label in (each.broker, each.source)]
    return Answer(Ending.DONE), Rooms(
        live=frozenset(each for each in rooms.live if each.label != label),
        waiting=tuple(each for each in rooms.waiting if each not in touched),
        ended=rooms.ended | {(each.ticket, _CLOSED) for each in touched},
    )


def accept(
    rooms: Rooms,
    ticket: Hashable,
    label: Hashable,
    port: int,
    *,
    medium: Medium = Medium.MESSAGE,
    exclusive: bool = False,
) -> tuple[Answer, Rooms]:
    """Match the oldest connect of the port, or wait; DONE with its ticket."""
    if not rooms.is_live(label):
        return _CLOSED, rooms
    waiter = Waiter(ticket, Role.ACCEPT, label, port, medium, label, exclusive)
    rivals = [
        each
        for each in rooms.waiting
        if each.place == waiter.place and each.role is Role.ACCEPT
    ]
    if rivals and (exclusive or any(each.exclusive for each in rivals)):
        return Answer(Ending.PORT_IN_USE), rooms
    return _meet(rooms, waiter)


def connect(
    rooms: Rooms,
    ticket: Hashable,
    source: Hashable,
    name: str,
    port: int,
    *,
    medium: Medium = Medium.MESSAGE,
) -> tuple[Answer, Rooms]:
    """Match the oldest accept of the port, or wait; DONE with its ticket.

    The name is resolved here and never again (QB-RDV-13).
    """
    if not rooms.is_live(source):
        return _CLOSED, rooms
    target = rooms.named(name)
    if target is None or not target.offers(medium):
        return _UNKNOWN, rooms
    label = target.label
    return _meet(rooms, Waiter(ticket, Role.CONNECT, label, port, medium, source))


def withdraw(rooms: Rooms, ticket: Hashable) -> tuple[Answer, Rooms]:
    """Withdraw a waiter, as a timeout does; WAITS if it is too late for that."""
    rest = tuple(each for each in rooms.waiting if each.ticket != ticket)
    if len(rest) == len(rooms.waiting):
        return _WAITS, rooms
    return Answer(Ending.DONE), attrs.evolve(rooms, waiting=rest)


def _meet(rooms: Rooms, waiter: Waiter) -> tuple[Answer, Rooms]:
    for other in rooms.waiting:
        if other.place == waiter.place and other.role is not waiter.role:
            rest = tuple(each for each in rooms.waiting if each is not other)
            told = (other.ticket, Answer(Ending.DONE, waiter.ticket))
            met = attrs.evolve(rooms, waiting=rest, ended=rooms.ended | {told})
            return Answer(Ending.DONE, other.ticket), met
    return _WAITS, attrs.evolve(rooms, waiting=(*rooms.waiting, waiter))


@attrs.define
class Brokers:
    """One manager with its brokers, step by step.

    Every operation returns its `Answer`; an accept or a connect that WAITS stays in its
    list until `withdraw`, a match or a close, and `end_of` returns the outcome.
    """

    state: Rooms = attrs.field(factory=Rooms)

    def create(self, label: Hashable, name: str, *, queue: bool = True) -> Answer:
        """Register a new broker."""
        answer, self.state = create(self.state, label, name, queue=queue)
        return answer

    def close(self, label: Hashable) -> Answer:
        """Close a broker."""
        answer, self.state = close(self.state, label)
        return answer

    def accept(
        self,
        ticket: Hashable,
        label: Hashable,
        port: int,
        *,
        medium: Medium = Medium.MESSAGE,
        exclusive: bool = False,
    ) -> Answer:
        """Accept on a port."""
        answer, self.state = accept(
            self.state, ticket, label, port, medium=medium, exclusive=exclusive
        )
        return answer

    def connect(
        self,
        ticket: Hashable,
        source: Hashable,
        name: str,
        port: int,
        *,
        medium: Medium = Medium.MESSAGE,
    ) -> Answer:
        """Connect from one broker to a name."""
        answer, self.state = connect(
            self.state, ticket, source, name, port, medium=medium
        )
        return answer

    def withdraw(self, ticket: Hashable) -> Answer:
        """Remove a waiter from its list."""
        answer, self.state = withdraw(self.state, ticket)
        return answer

    def end_of(self, ticket: Hashable) -> Answer | None:
        """Return the outcome of a waiter."""
        return self.state.end_of(ticket)

    def names(self) -> set[str]:
        """Return the names in use."""
        return {each.name for each in self.state.live}

    def waiting_accepts(
        self, label: Hashable, medium: Medium = Medium.MESSAGE
    ) -> dict[int, int]:
        """Return the number of accepts that wait on each port of a broker."""
        return self._waiting(Role.ACCEPT, label, medium)

    def waiting_connects(
        self, label: Hashable, medium: Medium = Medium.MESSAGE
    ) -> dict[int, int]:
        """Return the number of connects that wait on each port of a broker."""
        return self._waiting(Role.CONNECT, label, medium)

    def outgoing(self, label: Hashable) -> list[Waiter]:
        """Return the connects made from a broker that still wait, oldest first."""
        return [
            each
            for each in self.state.waiting
            if each.role is Role.CONNECT and each.source == label
        ]

    def _waiting(self, role: Role, label: Hashable, medium: Medium) -> dict[int, int]:
        return dict(
            collections.Counter(
                each.port
                for each in self.state.waiting
                if (each.role, each.broker, each.medium) == (role, label, medium)
            )
        )
