"""`RoutingTable`: names of tasks, and where what is sent to them has to be posted.

The table answers without a lock: a look is one read of a dict. It is changed under the
lock of its process manager only (BUS-ROUTE-1). What an `Entry` points to may change
under a reader's hands, when a task moves or leaves: who posts looks again under the
lock of the place that it posts to, see `Entry.place`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.address import Address

__all__ = [
    "Audience",
    "Entry",
    "Overflow",
    "RegistrationId",
    "RoutingTable",
    "Visibility",
]

# What becomes of a message that a task has no room for (BUS-FLOW-6).
Overflow: TypeAlias = Literal[
    "block", "drop-oldest", "drop-newest", "error", "disconnect"
]


class Visibility(enum.Enum):
    """Who can address a task by its name (BUS-INIT-8, BUS-INIT-9)."""

    PUBLIC = "public"
    PRIVATE = "private"


@attrs.frozen
class RegistrationId:
    """One act of registering a name; never used again, whoever takes the name next.

    Late news of a task concern this, not its name (BUS-DEREG-7).
    """

    machine: str
    process: str
    number: int


@attrs.frozen
class Audience:
    """One task that hears a notifier, once, however many subscriptions match (AMO-28).

    entry: the task.
    subscriptions: those of its subscriptions that match, in the order they were made.
    """

    entry: Entry
    subscriptions: tuple[Any, ...]


@attrs.define(eq=False)
class Entry:
    """One registration, as a route leads to it.

    id, name, visibility, address: what was registered.
    place: what hosts it, and is posted to; None once it has gone. It changes only under
      that place's own lock, and who posts reads it again there: so nothing is ever
      posted to a place that the task has left (BUS-ROUTE-5, BUS-MOVE-2).
    box: the task's own FIFO at that place; it changes along with ``place``.
    audience: who hears what it notifies; exchanged as a whole, so read without a lock.
    remote: whether it stands for a task of another process; ``name`` is then how it is
      addressed from this one.
    table: that of its process and bus, while it can be found.
    relay: the number by which other processes know a task of this one, 0 before any
      does.
    unheard: how many notifications it has sent without a subscriber (BUS-FLOW-8).
    overflow: what becomes of commands that it has no room for (BUS-FLOW-6).
    order: exchanged after each thing that the task has sent to others and that nothing
      it sends later may overtake, and when it may not send any more; a burst that was
      begun before goes on no more.
    """

    id: RegistrationId
    name: str
    visibility: Visibility
    address: Address
    place: Any
    box: Any
    audience: tuple[Audience, ...] = ()
    remote: bool = False
    table: RoutingTable | None = attrs.field(default=None, repr=False)
    relay: int = 0
    unheard: int = 0
    overflow: Overflow = "error"
    order: object = attrs.field(default=None, repr=False)


class RoutingTable:
    """The tasks of one process: the public ones by name, all of them by registration.

    Names of private tasks are in no look-up (BUS-INIT-9); they need only be unique.
    """

    __slots__ = ("_by_id", "_private", "_public", "find")

    def __init__(self) -> None:
        self._by_id: dict[RegistrationId, Entry] = {}
        self._public: dict[str, Entry] = {}
        self._private: dict[str, Entry] = {}
        # The look-up, for everybody and without a lock: the entry of a public name.
        self.find: Final = self._public.get

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._by_id.values()))

    def __contains__(self, entry: Entry) -> bool:
        """Whether a registration can be found."""
        return entry.table is self

    def by_id(self, number: RegistrationId) -> Entry | None:
        """Return a registration that can be found."""
        return self._by_id.get(number)

    def named(self, name: str) -> Entry | None:
        """Return which task of this process has a name, private or not."""
        public = self._public.get(name)
        if public is None or public.remote:
            return self._private.get(name)
        return public

    def public(self) -> list[Entry]:
        """Return the public tasks."""
        return list(self._public.values())

    def add(self, entry: Entry) -> None:
        """Let a registration be found; its name must be free."""
        self._by_id[entry.id] = entry
        entry.table = self
        if self._has_name(entry):
            self._names(entry)[entry.name] = entry

    def remove(self, entry: Entry) -> None:
        """Let a registration be found no more; it must be one that can be."""
        del self._by_id[entry.id]
        entry.table = None
        names = self._names(entry)
        # An interrupt while it was added may have kept its name from it.
        if names.get(entry.name) is entry:
            del names[entry.name]

    def _names(self, entry: Entry) -> dict[str, Entry]:
        public = entry.visibility is Visibility.PUBLIC
        return self._public if public else self._private

    @staticmethod
    def _has_name(entry: Entry) -> bool:
        """Whether a name leads to it: private names mean nothing elsewhere."""
        return entry.visibility is Visibility.PUBLIC or not entry.remote
