"""`Rights`: what a process may do, and `Credentials`: whose it is (BUS-SEC-1).

They are what the system says of a peer (BUS-SEC-2), and never change while it lives.
The names that rights are about are those of this machine; whose rights do not cover all
of these reaches no other machine through this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from bus.address import SYSTEM
from bus.errors import AccessDeniedError

if TYPE_CHECKING:
    from bus.specification import Specification

__all__ = ["UNRESTRICTED", "Credentials", "Rights", "not_granted"]


@attrs.frozen(kw_only=True)
class Rights:
    """What a process may do, each by the names that are meant; None means all.

    register: which names its tasks may have. command: whom they may send commands to.
    subscribe: whose notifications they may hear, and whose coming and going see.
    """

    register: tuple[Specification, ...] | None = None
    command: tuple[Specification, ...] | None = None
    subscribe: tuple[Specification, ...] | None = None

    def may_register(self, name: str, process: str) -> bool:
        """Whether a task of a process may have a name.

        Each process has one of the bus's own names, by which others look into it.
        """
        return name == f"{SYSTEM}/{process}" or _means(self.register, name)

    def may_command(self, name: str) -> bool:
        """Whether a task may be sent commands."""
        return _means(self.command, name)

    def may_hear(self, name: str) -> bool:
        """Whether notifications of a task may be heard."""
        return _means(self.subscribe, name)

    @property
    def whole(self) -> bool:
        """Whether nothing is denied by name."""
        return self.register is self.command is self.subscribe is None


def _means(patterns: tuple[Specification, ...] | None, name: str) -> bool:
    return patterns is None or any(each.matches(name) for each in patterns)


@attrs.frozen
class Credentials:
    """Who a peer is, and its rights.

    uid: its user, as the system of this machine knows it; None where it tells nothing.
    rights: what it may do, by the access list of the process that asks.
    """

    uid: int | None = None
    rights: Rights = Rights()


# Where nobody tells who is there, as within a process; and of whom nothing is known
# yet: then the master, which knows it, has let it ask.
UNRESTRICTED: Final = Credentials()


def not_granted(act: str, name: str) -> AccessDeniedError:
    """Return the error for what the master's access list does not let a process do."""
    return AccessDeniedError(f"{act} {name!r}", "the access list does not grant it")
