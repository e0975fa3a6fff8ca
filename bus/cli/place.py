"""Where a verb looks for a bus, and whom it relies on there (BUS-SEC-1, BUS-SEC-3).

A verb has no access list of its own. It takes the run directory as it is: whom its
owner lets in may speak with the verb as well, and may do nothing there by name.
"""

from __future__ import annotations

import os
import pwd
import stat
from typing import TYPE_CHECKING, Final

from bus.access import AccessList, Grant
from bus.errors import AccessDeniedError
from bus.links.run_directory import _NAME_MAX, RunDirectory, run_base
from queuebroker import _net

if TYPE_CHECKING:
    from pathlib import Path

    from bus.cli.live import Target

__all__ = ["access_to", "is_served", "remedy", "run_directory", "user_id"]

_USER_MAX: Final = 2**32 - 2  # the number above it stands for nobody


def user_id(text: str) -> int:
    """Read a user, by name or number.

    Raises:
        ValueError: there is none of that name, or no system has one of that number.
    """
    if text.isdecimal():
        number = int(text)
        if number > _USER_MAX:
            raise ValueError(f"users have numbers up to {_USER_MAX}, not {text}")
        return number
    try:
        return pwd.getpwnam(text).pw_uid
    except KeyError:
        raise ValueError(f"there is no user {text!r}") from None


def access_to(target: Target) -> AccessList:
    """Return who may speak with a verb: whose the bus is, and whom that one lets in."""
    return _access_at(run_base() / target.bus, target)


def _access_at(place: Path, target: Target) -> AccessList:
    owners = {os.geteuid()} if target.owner is None else {target.owner}
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
    longest = len(os.fsencode(place / _NAME_MAX))
    if os.path.lexists(place) or longest > _net.PATH_BYTES_MAX:
        return run_directory(target).is_served()
    _check_base(target)
    return False


def _check_base(target: Target) -> None:
    """Check the folder of all buses alone: this one is not there, and is not made."""
    base = run_base()
    try:
        base.lstat()
    except FileNotFoundError:
        base.parent.stat()  # what is to be made needs that
        return
    try:
        RunDirectory("", _access_at(base, target))
    except AccessDeniedError as error:
        raise AccessDeniedError(f"join bus {target.bus!r}", error.fact) from None


def remedy(target: Target, error: Exception) -> str:
    """Say what to do where no bus can be in its run directory.

    error: what `run_directory` or `is_served` has raised.
    """
    if isinstance(error, ValueError):
        better = "shorter path" if "leave room" in str(error) else "path in UTF-8"
        return f"set BUS_RUN_DIR to a {better}"
    base = run_base()
    place = base / target.bus
    at = place if str(place) in str(error) else base
    try:
        about = at.stat()
    except OSError:
        return "set BUS_RUN_DIR to a folder of your own with mode 0700"
    if about.st_uid == target.owner != os.geteuid():
        return f"ask uid {target.owner}, whose it is, to let you in"
    if about.st_uid != os.geteuid():
        return f"say --owner {about.st_uid} if it is well that it is theirs"
    if not stat.S_ISDIR(about.st_mode):
        return "set BUS_RUN_DIR to a folder of your own with mode 0700"
    return f"make it yours alone: chmod 700 {at}, or set BUS_RUN_DIR to another one"
