"""`Rights`: permissions of a process, and `Credentials`: its identity too (BUS-SEC-1).

They follow from the system's report of a peer (BUS-SEC-2), and never change while it
lives. Rights name tasks of this machine. A process whose rights do not cover all of
these reaches no other machine through this process.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from bus.address import SYSTEM
from bus.errors import AccessDeniedError
from bus.specification import Specification

__all__ = ["UNRESTRICTED", "Credentials", "Rights", "not_granted"]


class Rights(Struct, frozen=True, kw_only=True):
    """The permissions of a process, each as patterns of names; None permits all.

    register: names that its tasks may have. command: tasks it may send commands to.
    subscribe: tasks that it may subscribe to, and whose presence it may watch.
    """

    register: tuple[Specification, ...] | None = None
    command: tuple[Specification, ...] | None = None
    subscribe: tuple[Specification, ...] | None = None

    def may_register(self, name: str, process: str) -> bool:
        """Return True if a task of a process may have a name.

        Each process may have one of the bus's own names, that of its inspector.
        """
        return name == f"{SYSTEM}/{process}" or _means(self.register, name)

    def may_command(self, name: str) -> bool:
        """Return True if the process may send commands to a task."""
        return _means(self.command, name)

    def may_subscribe(self, name: str) -> bool:
        """Return True if the process may subscribe to a task."""
        return _means(self.subscribe, name)

    @property
    def whole(self) -> bool:
        """True if nothing is denied by name."""
        return self.register is self.command is self.subscribe is None


def _means(patterns: tuple[Specification, ...] | None, name: str) -> bool:
    return patterns is None or any(each.matches(name) for each in patterns)


class Credentials(Struct, frozen=True):
    """The proved identity of a peer, and the rights of the peer.

    uid: its user, as the system of this machine knows it; None if the system reports
      none.
    rights: its permissions by the access list of the process that checks.
    machine: its machine, as the system or its certificate proves it (BUS-SEC-5); None
      if nothing does.
    outside: True if it came by the network, where no process of this machine comes.
    is_direct: False if a master forwards its frames (BUS-ROUTE-16), and vouches for its
      machine.
    host: the IP address from which it came by the network; "" if it did not.
    """

    uid: int | None = None
    rights: Rights = Rights()
    machine: str | None = None
    outside: bool = False
    is_direct: bool = True
    host: str = ""


# For peers without an identity, as within a process, and for peers not known yet: the
# master knows such a peer, and has already let it ask.
UNRESTRICTED: Final = Credentials()


def not_granted(act: str, name: str) -> AccessDeniedError:
    """Return the error for an act that the master's access list denies a process."""
    return AccessDeniedError(f"{act} {name!r}", "the access list does not grant it")
