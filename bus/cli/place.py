"""Where a verb looks for a bus, and whom it relies on there (BUS-SEC-1, BUS-SEC-3).

A verb has no access list of its own. It takes the run directory as it is: whom its
owner lets in may speak with the verb as well, and may do nothing there by name.
"""

from __future__ import annotations

import os
import pwd
import stat
from typing import TYPE_CHECKING

from bus.access import AccessList, Grant
from bus.links.run_directory import RunDirectory, run_base

if TYPE_CHECKING:
    from bus.cli.live import Target

__all__ = ["access_to", "is_served", "run_directory", "user_id"]


def user_id(text: str) -> int:
    """Read a user, by name or number.

    Raises:
        ValueError: there is none of that name.
    """
    if text.isdecimal():
        return int(text)
    try:
        return pwd.getpwnam(text).pw_uid
    except KeyError:
        raise ValueError(f"there is no user {text!r}") from None


def access_to(target: Target) -> AccessList:
    """Return who may speak with a verb: whose the bus is, and whom that one lets in."""
    owners = {os.geteuid()} if target.owner is None else {target.owner}
    place = run_base() / target.bus
    grants = []
    try:
        about = place.lstat()
    except OSError:
        pass  # it is not there, or not for this user: that is said when it is opened
    else:
        if about.st_uid in owners and about.st_mode & stat.S_IRWXG:
            grants = [Grant(gids=[about.st_gid])]
    return AccessList(uids=owners, grants=grants)


def run_directory(target: Target) -> RunDirectory:
    """Return where the processes of a bus meet; it is made if it is not there.

    Raises:
        BusError, ValueError, OSError: see `RunDirectory`.
    """
    return RunDirectory(target.bus, access_to(target))


def is_served(target: Target) -> bool:
    """Whether somebody is on a bus; nothing is made where there is none.

    Raises:
        BusError, ValueError, OSError: see `RunDirectory`.
    """
    place = run_base() / target.bus
    return place.is_dir() and run_directory(target).is_served()
