"""`AccessList`: who may join a bus, and do what there (BUS-SEC-1).

By what the kernel says of a peer (BUS-SEC-2), nothing that it says itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs

from bus.rights import Rights
from bus.specification import Specification

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["AccessList", "Grant"]

_ANYTHING = Rights()


def _numbers(given: Iterable[int]) -> frozenset[int]:
    return frozenset(given)


def _are_ids(_: object, field: attrs.Attribute[frozenset[int]], value: object) -> None:
    assert isinstance(value, frozenset)
    for each in value:
        if type(each) is not int or each < 0:
            raise ValueError(f"{field.name} must hold ids of the system, got {each!r}")


def _patterns(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _are_patterns(
    _: object, field: attrs.Attribute[tuple[str, ...]], value: tuple[str, ...]
) -> None:
    for each in value:
        meant = Specification.parse(each)
        if meant.machine is not None:
            msg = f"{field.name} must hold names of this machine, got {each!r}"
            raise ValueError(msg)


@attrs.frozen(kw_only=True)
class Grant:
    """Some who may join, and what their tasks may do there; all else they may not.

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
    return tuple(given)


def _are_grants(
    _: object, field: attrs.Attribute[tuple[Grant, ...]], value: tuple[object, ...]
) -> None:
    for each in value:
        if not isinstance(each, Grant):
            raise TypeError(f"{field.name} must hold Grants, got {each!r}")


@attrs.frozen(kw_only=True)
class AccessList:
    """Who may join, beside those of the user that this process runs as.

    All processes of a bus should be given the same: each looks by its own at what comes
    to it, and at who has names if it is master.

    uids, gids: users and groups of the system whose processes may do everything. What
      these users have set up is trusted: the run directory may be theirs.
    grants: those who may do some of it. Who is in several may do what any of them says.

    A group is that by which a process runs. The run directory is opened to it (to one,
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
