"""`AccessList`: who may join a bus (BUS-SEC-1), by what the kernel says of a peer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["AccessList"]


def _numbers(given: Iterable[int]) -> frozenset[int]:
    return frozenset(given)


def _are_ids(_: object, field: attrs.Attribute[frozenset[int]], value: object) -> None:
    assert isinstance(value, frozenset)
    for each in value:
        if type(each) is not int or each < 0:
            raise ValueError(f"{field.name} must hold ids of the system, got {each!r}")


@attrs.frozen(kw_only=True)
class AccessList:
    """Who may join, beside those of the user that this process runs as.

    uids, gids: users and groups of the system. A group opens the run directory to it
      as well, for reading: its members have no listeners of their own there.

    Raises:
        TypeError, ValueError: what is given does not hold ids.
    """

    uids: frozenset[int] = attrs.field(
        default=frozenset(), converter=_numbers, validator=_are_ids
    )
    gids: frozenset[int] = attrs.field(
        default=frozenset(), converter=_numbers, validator=_are_ids
    )

    def trusts(self, uid: int) -> bool:
        """Whether what a user has set up may be relied on: ours, or one of the list."""
        return uid == os.geteuid() or uid in self.uids

    def refusal(self, uid: int | None, gid: int | None) -> str | None:
        """Say why a peer may not join; None if it may."""
        if uid is None:
            return "nobody vouches for it"
        if self.trusts(uid) or gid in self.gids:
            return None
        return f"uid {uid} and gid {gid} are not on the access list"
