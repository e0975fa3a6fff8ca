"""`UserRoutingTable`: the public tasks of a machine, for its master (BUS-INIT-12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from bus.registration import Key, RegistrationId

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["User", "UserRoutingTable"]


class User(Struct, frozen=True):
    """One public task.

    owner: the process that hosts it.
    granted: True once a master has granted it the name (OPEN-3).
    """

    id: RegistrationId
    name: str
    owner: Key
    registered_ns: int
    granted: bool

    def goes_before(self, other: User) -> bool:
        """Return True if this task has the name rather than the other one.

        A task that was granted the name precedes one that requests it (OPEN-3). Of two
        of the same kind, the earlier registration precedes (BUS-MOVE-7).
        """
        if self.granted is not other.granted:
            return self.granted
        mine = (self.registered_ns, self.owner, self.id.number)
        return mine < (other.registered_ns, other.owner, other.id.number)


class UserRoutingTable:
    """The user routing table: the holder of each name on a machine.

    Invariant: names are unique. Of the tasks that claim a name, the one that precedes
    all others holds it; see `User.goes_before`.
    """

    __slots__ = ("_by_name", "_by_owner")

    def __init__(self) -> None:
        self._by_name: Final[dict[str, User]] = {}
        self._by_owner: Final[dict[Key, dict[RegistrationId, User]]] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def owners(self) -> dict[str, Key]:
        """Return the process that hosts each name."""
        return {name: user.owner for name, user in self._by_name.items()}

    def find(self, name: str) -> User | None:
        """Return the holder of a name, or None."""
        return self._by_name.get(name)

    def claim(self, user: User) -> User | None:
        """Claim a name for a task; return the loser, this task or another, or None."""
        present = self._by_name.get(user.name)
        if present is None:
            self._put(user)
            return None
        if present.id != user.id and not user.goes_before(present):
            return user
        self.remove(present.id, present.name)
        self._put(user)
        return None if present.id == user.id else present

    def grant(self, *names: str) -> None:
        """Grant names to the tasks that hold them."""
        for name in names:
            self._by_name[name] = replace(self._by_name[name], granted=True)

    def _put(self, user: User) -> None:
        own = self._by_owner.setdefault(user.owner, {})
        # No call between these lines: an interrupt finds both changes or none.
        self._by_name[user.name] = user
        own[user.id] = user

    def remove(self, number: RegistrationId, name: str) -> bool:
        """Remove a registration, but no newer one of its name (BUS-DEREG-7)."""
        present = self._by_name.get(name)
        if present is None or present.id != number:
            return False
        own = self._by_owner[present.owner]
        last = len(own) == 1
        # No call between these lines: an interrupt finds all changes or none.
        del self._by_name[name]
        if last:
            del self._by_owner[present.owner]
        else:
            del own[number]
        return True

    def count(self, owner: Key) -> int:
        """Return the number of tasks of one process."""
        return len(self.of(owner))

    def of(self, owner: Key) -> Mapping[RegistrationId, User]:
        """Return the tasks of one process, by id."""
        return self._by_owner.get(owner, {})

    def clear(self) -> None:
        """Remove all tasks."""
        self._by_name.clear()
        self._by_owner.clear()
