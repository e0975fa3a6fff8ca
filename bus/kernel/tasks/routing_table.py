"""`RoutingTable`: names of tasks, and the host that messages for each are posted to.

The table is read without a lock: a look-up is one read of a dict. It is changed only
under the lock of its process manager (BUS-ROUTE-1). If a task moves or deregisters, its
`Entry` may change while a reader uses it. So the sender reads it again under the lock
of the host that it posts to; see `Entry.host`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from bus.model.address import Address, name_anywhere
from bus.model.registration import Overflow, RegistrationId, Visibility

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Audience",
    "Entry",
    "RoutingTable",
]


class Audience(Struct, frozen=True):
    """One subscriber of a notifier, once, however many subscriptions match (AMO-28).

    entry: the task.
    subscriptions: those of its subscriptions that match, in the order they were made.
    """

    entry: Entry
    subscriptions: tuple[Any, ...]


class Entry(Struct, eq=False, weakref=True):
    """One registration, as the destination of a route.

    id, name, visibility, address: as registered.
    host: the host that messages are posted to; None after the departure. It changes
      only under that host's own lock, and the sender reads it again under that lock. So
      no message is posted to a host that the task has left (BUS-ROUTE-5, BUS-MOVE-2).
    mailbox: the task's mailbox at that host; it changes along with ``host``.
    audience: the subscribers to its notifications; replaced as a whole, so it is read
      without a lock.
    remote: True if it is the relay of a task of another process; ``name`` is then the
      address of that task as used in this process.
    table: the table of its process and bus, while it can be found.
    relay: the number by which other processes know a task of this process; 0 until one
      does.
    no_subscriber: the number of its notifications without a subscriber (BUS-FLOW-8).
    overflow: policy for commands that exceed its capacity (BUS-FLOW-6).
    moved_to: its address at the machine where it goes on after its departure; "" if it
      does not say (BUS-MOVE-9).
    order: replaced after each send that no later send of the task may overtake, and
      when the task may no longer send. A send batch begun before is not continued.
    """

    id: RegistrationId
    name: str
    visibility: Visibility
    address: Address
    host: Any
    mailbox: Any
    audience: tuple[Audience, ...] = ()
    remote: bool = False
    table: RoutingTable | None = None
    relay: int = 0
    no_subscriber: int = 0
    overflow: Overflow = "error"
    moved_to: str = ""
    order: object = None


class RoutingTable:
    """The tasks of one process: the public ones by name, all of them by registration.

    No look-up finds a private name (BUS-INIT-9); it only has to be unique.
    """

    __slots__ = ("_by_id", "_private", "_public", "find")

    def __init__(self) -> None:
        self._by_id: dict[RegistrationId, Entry] = {}
        self._public: dict[str, Entry] = {}
        self._private: dict[str, Entry] = {}
        # The look-up of a public name's entry, for all threads and without a lock. It
        # finds an entry by its alias, too: see `add_alias`.
        self.find: Final = self._public.get

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._by_id.values()))

    def __contains__(self, entry: Entry) -> bool:
        """Return True if a registration can be found."""
        return entry.table is self

    def by_id(self, number: RegistrationId) -> Entry | None:
        """Return the entry of a registration, or None if it cannot be found."""
        return self._by_id.get(number)

    def named(self, name: str) -> Entry | None:
        """Return the task of this process with a name, private or not."""
        public = self._public.get(name)
        if public is None or public.remote:
            return self._private.get(name)
        return public

    def public(self) -> Iterator[Entry]:
        """Return the public tasks of now, relays included, each once."""
        # One step: another thread may add a name, also in the middle of `list`, whose
        # new tuples may start the collector.
        public = self._public.copy()
        return (entry for name, entry in public.items() if name == entry.name)

    def add(self, entry: Entry) -> None:
        """Add a registration; its name must be free."""
        self._by_id[entry.id] = entry
        entry.table = self
        if self._has_name(entry):
            self._names(entry)[entry.name] = entry

    def add_alias(self, entry: Entry) -> None:
        """Let look-ups find a public entry under ``ism://*/module``, too (BUS-NAME-8).

        The alias lasts as long as the entry is in the table. In the same dict, so that
        a sender that uses it pays for one look-up, as any other sender.
        """
        self._public[name_anywhere(entry.address.module)] = entry

    def remove(self, entry: Entry) -> None:
        """Remove a registration, with its alias.

        Another call completes one that was interrupted.
        """
        self._by_id.pop(entry.id, None)
        entry.table = None
        alias = name_anywhere(entry.address.module)
        if self._public.get(alias) is entry:
            del self._public[alias]
        names = self._names(entry)
        # An interrupt during `add` may have left the name unset.
        if names.get(entry.name) is entry:
            del names[entry.name]

    def _names(self, entry: Entry) -> dict[str, Entry]:
        public = entry.visibility is Visibility.PUBLIC
        return self._public if public else self._private

    @staticmethod
    def _has_name(entry: Entry) -> bool:
        """Return True if an entry has a name here: private names are process-local."""
        return entry.visibility is Visibility.PUBLIC or not entry.remote
