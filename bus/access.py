"""`AccessList`: who may join a bus, and do what there (BUS-SEC-1).

By what the kernel says of a peer (BUS-SEC-2), nothing that it says itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

import attrs

from bus.rights import Rights
from bus.specification import Specification

__all__ = ["AccessList", "Grant"]

_ANYTHING: Final = Rights()
_IDS: Final = 2**32 - 1  # the system has no others; the last one means none


def _numbers(given: Iterable[int]) -> frozenset[int]:
    # What is none, or a text, stays as it is: then it can be said whose it was.
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
    """Some who may join, and what their tasks may do there; all else is denied.

    uids, gids: users and groups of the system.
    register: names that their tasks may have; patterns are written as those of
      `Specification`, of names of this machine. Private tasks need none.
    command: names of tasks that they may send commands to. To answer needs no right.
    subscribe: names of tasks whose notifications they may hear, and whose presence they
      may watch.

    Raises:
        TypeError, ValueError: what is given does not hold ids, or patterns.
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
    """Who may join, beside those of the user that this process runs as.

    All processes of a bus should be given the same: each checks what comes to it
    against its own; the master also who may have which name.

    uids, gids: users and groups of the system whose processes may do everything. What
      these users have set up is trusted: the run directory may be theirs. A user is
      kept out by the directory unless a group of his is on the list, too.
    grants: those who may do some of it. Who is in several may do what any of them says.

    A group is the primary one of a process. The run directory is opened to it (to one,
    if there are several: a directory has one group), for reading, and has a place for
    the sockets of its members (BUS-SEC-3).

    Raises:
        TypeError, ValueError: what is given does not hold ids, or grants.
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
        """Whether what a user has set up may be relied on: ours, or one of the list."""
        return uid == os.geteuid() or uid in self.uids

    def rights(self, uid: int | None, gid: int | None) -> Rights | None:
        """Return what the processes of a user may do; None if they may not join."""
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
        """Say why a peer may not join; None if it may."""
        if uid is None:
            return "nobody vouches for it"
        if self.rights(uid, gid) is not None:
            return None
        return f"uid {uid} and gid {gid} are not on the access list"


def _parsed(patterns: Iterable[tuple[str, ...]]) -> tuple[Specification, ...]:
    return tuple(Specification.parse(each) for some in patterns for each in some)
