"""`Rights`: permissions of a process, and `Credentials`: its identity too (BUS-SEC-1).

They follow from the system's report of a peer (BUS-SEC-2), and never change while it
lives. Rights name tasks of this machine. A process whose rights do not cover all of
these reaches no other machine through this process.

`AccessList` has the users who may join a bus, and their rights on it (BUS-SEC-1). It
judges a peer by the kernel's report (BUS-SEC-2), never by the peer's own claims.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs
from msgspec import Struct
from msgspec.structs import force_setattr

from bus.errors import AccessDeniedError
from bus.model.address import SYSTEM
from bus.model.specification import Specification
from queuebroker import _files

__all__ = [
    "UNRESTRICTED",
    "AccessList",
    "Credentials",
    "Grant",
    "Rights",
    "not_granted",
]


class Rights(Struct, frozen=True, kw_only=True):
    """The permissions of a process, each as patterns of names; None permits all.

    register: names that its tasks may have. command: tasks it may send commands to.
    subscribe: tasks that it may subscribe to, and whose presence it may watch.
    whole: True if nothing is denied by name; derived from the others.
    """

    register: tuple[Specification, ...] | None = None
    command: tuple[Specification, ...] | None = None
    subscribe: tuple[Specification, ...] | None = None
    whole: bool = True

    def __post_init__(self) -> None:
        whole = self.register is self.command is self.subscribe is None
        force_setattr(self, "whole", whole)

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


_ANYTHING: Final = Rights()
_IDS: Final = 2**32 - 1  # ids of the system are below this; the value itself means none


def _numbers(given: Iterable[int]) -> frozenset[int]:
    # A value of another kind is passed on, so that the validator can name its field.
    return frozenset(given) if _is_collection(given) else given  # type: ignore[return-value]


def _is_collection(given: object) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, str)


def _are_ids(_: object, field: attrs.Attribute[frozenset[int]], value: object) -> None:
    if not isinstance(value, frozenset):
        raise TypeError(f"{field.name} must be a list of ids, got {value!r}")
    for each in value:
        if type(each) is not int or not 0 <= each < _IDS:
            raise ValueError(f"{field.name} must hold ids of the system, got {each!r}")


def _patterns(given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    return tuple(given) if _is_collection(given) else given  # type: ignore[return-value]


def _are_patterns(
    _: object, field: attrs.Attribute[tuple[str, ...]], value: object
) -> None:
    if not isinstance(value, tuple):
        raise TypeError(f"{field.name} must be patterns of names, got {value!r}")
    for each in value:
        try:
            meant = Specification.parse(each)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{field.name} must hold patterns: {error}") from None
        if meant.machine is not None:
            msg = f"{field.name} must hold names of this machine, got {each!r}"
            raise ValueError(msg)


@attrs.frozen(kw_only=True)
class Grant:
    """Users who may join, and the rights of their tasks; all else is denied.

    uids, gids: users and groups of the system.
    register: names that their tasks may register, as patterns of `Specification` for
      names of this machine. Private tasks need none.
    command: names of tasks that they may send commands to. Answers need no right.
    subscribe: names of tasks that they may subscribe to, and whose presence they may
      watch.

    Raises:
        TypeError, ValueError: a value holds something other than ids, or patterns.
    """

    uids: frozenset[int] = attrs.field(
        default=frozenset(), converter=_numbers, validator=_are_ids
    )
    gids: frozenset[int] = attrs.field(
        default=frozenset(), converter=_numbers, validator=_are_ids
    )
    register: tuple[str, ...] = attrs.field(
        default=(), converter=_patterns, validator=_are_patterns
    )
    command: tuple[str, ...] = attrs.field(
        default=(), converter=_patterns, validator=_are_patterns
    )
    subscribe: tuple[str, ...] = attrs.field(
        default=(), converter=_patterns, validator=_are_patterns
    )


def _grants(given: Iterable[Grant]) -> tuple[Grant, ...]:
    return tuple(given) if _is_collection(given) else given  # type: ignore[return-value]


def _are_grants(
    _: object, field: attrs.Attribute[tuple[Grant, ...]], value: object
) -> None:
    if not isinstance(value, tuple):
        raise TypeError(f"{field.name} must be a list of Grants, got {value!r}")
    for each in value:
        if not isinstance(each, Grant):
            raise TypeError(f"{field.name} must hold Grants, got {each!r}")


@attrs.frozen(kw_only=True)
class AccessList:
    """The users who may join besides the user that this process runs as.

    All processes of a bus should be given the same list. Each process checks its peers
    against its own list; the master also checks the names that they register.

    uids, gids: users and groups of the system whose processes may do everything. Files
      that these users have set up are trusted: the run directory may be theirs. The
      directory keeps a user out unless one of the user's groups is listed, too.
    grants: users with limited rights. A user in several grants has the rights of all.

    The group of a process is its primary one. The run directory is opened for reading
    to that group (to one of several: a directory has one group), and has a place for
    the sockets of its members (BUS-SEC-3).

    Raises:
        TypeError, ValueError: a value holds something other than ids, or grants.
    """

    uids: frozenset[int] = attrs.field(
        default=frozenset(), converter=_numbers, validator=_are_ids
    )
    gids: frozenset[int] = attrs.field(
        default=frozenset(), converter=_numbers, validator=_are_ids
    )
    grants: tuple[Grant, ...] = attrs.field(
        default=(), converter=_grants, validator=_are_grants
    )

    @property
    def groups(self) -> frozenset[int]:
        """All groups whose members may join."""
        return self.gids.union(*(each.gids for each in self.grants))

    def trusts(self, uid: int) -> bool:
        """Return True if files set up by a user are trusted: ours, or a listed one."""
        return uid == _files.user_id() or uid in self.uids

    def rights(self, uid: int | None, gid: int | None) -> Rights | None:
        """Return the rights of a user's processes; None if they may not join."""
        if uid is None:
            return None
        if self.trusts(uid) or gid in self.gids:
            return _ANYTHING
        given = [each for each in self.grants if uid in each.uids or gid in each.gids]
        if not given:
            return None
        return Rights(
            register=_parsed(each.register for each in given),
            command=_parsed(each.command for each in given),
            subscribe=_parsed(each.subscribe for each in given),
        )

    def refusal(self, uid: int | None, gid: int | None) -> str | None:
        """Return why a peer may not join; None if it may."""
        if uid is None:
            return "the kernel does not report its user"
        if self.rights(uid, gid) is not None:
            return None
        return f"uid {uid} and gid {gid} are not on the access list"


def _parsed(patterns: Iterable[tuple[str, ...]]) -> tuple[Specification, ...]:
    return tuple(Specification.parse(each) for some in patterns for each in some)
