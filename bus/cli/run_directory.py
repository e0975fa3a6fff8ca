"""The run directory of a bus, and the users that a verb trusts there.

A verb has no access list of its own. It accepts the run directory as it is: users whom
the owner admits may also connect to the verb, but have no rights on its names
(BUS-SEC-1, BUS-SEC-3).
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from bus.errors import AccessDeniedError
from bus.model.rights import AccessList, Grant
from bus.process.run_directory import _NAME_MAX, MASTER, RunDirectory, run_base
from queuebroker import _files, _net

if TYPE_CHECKING:
    from pathlib import Path

    from bus.cli.target import Target

__all__ = [
    "access_to",
    "is_served",
    "remedy",
    "run_directory",
    "served_buses",
    "user_id",
]

_USER_MAX: Final = 2**32 - 2  # the next number stands for no user


def user_id(text: str) -> int:
    """Return the id of a user, given by name or number.

    Raises:
        ValueError: there is no user of that name, or the number is too large.
    """
    if text.isdecimal():
        number = int(text)
        if number > _USER_MAX:
            raise ValueError(f"user ids must be at most {_USER_MAX}, not {text}")
        return number
    try:
        uid: int = _files.pwd.getpwnam(text).pw_uid
    except (KeyError, AttributeError):  # Windows has no such names
        raise ValueError(f"there is no user {text!r}") from None
    return uid


def access_to(target: Target) -> AccessList:
    """Return the access list of a verb: the owner, and the group that it admits."""
    return _access_at(run_base() / target.bus, target)


def _access_at(place: Path, target: Target) -> AccessList:
    owners = {_files.user_id()} if target.owner is None else {target.owner}
    grants = []
    try:
        about = place.lstat()
    except OSError:
        pass  # missing or not accessible: opening it reports that
    else:
        if about.st_uid in owners and _files.mode_of(about) & stat.S_IRWXG:
            grants = [Grant(gids=[about.st_gid])]
    return AccessList(uids=owners, grants=grants)


def run_directory(target: Target) -> RunDirectory:
    """Return the run directory of a bus; it is created if it is missing.

    Raises:
        BusError, ValueError, OSError: see `RunDirectory`.
    """
    return RunDirectory(target.bus, access_to(target))


def is_served(target: Target) -> bool:
    """Return True if a bus has a process; nothing is created if it has none.

    Raises:
        BusError, ValueError, OSError: see `RunDirectory`.
    """
    place = run_base() / target.bus
    longest = len(os.fsencode(place / _NAME_MAX))
    is_checked = not _net.HAS_UNIX or longest > _net.PATH_BYTES_MAX
    if os.path.lexists(place) or is_checked:
        return run_directory(target).is_served()
    _check_base(target)
    return False


def served_buses() -> list[str]:
    """Return the names of the buses in the run directory that have a process."""
    try:
        places = sorted(run_base().iterdir())
    except OSError:  # missing, or of another user
        return []
    if not _net.HAS_UNIX:
        return []
    return [each.name for each in places if _net.has_listener(each / MASTER)]


def _check_base(target: Target) -> None:
    """Check the folder of all buses only; the folder of this bus is not created."""
    base = run_base()
    try:
        base.lstat()
    except FileNotFoundError:
        base.parent.stat()  # raises if the base could not be created
        return
    try:
        RunDirectory("", _access_at(base, target))
    except AccessDeniedError as error:
        raise AccessDeniedError(f"join bus {target.bus!r}", error.fact) from None


def remedy(target: Target, error: Exception) -> str:
    """Return the remedy if the run directory cannot hold a bus.

    error: the exception that `run_directory` or `is_served` raised.
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
    if about.st_uid == target.owner != _files.user_id():
        return f"ask its owner, uid {target.owner}, for access"
    if _files.owner_of(about) != _files.user_id():
        return f"pass --owner {about.st_uid} if you trust its owner"
    if not stat.S_ISDIR(about.st_mode):
        return "set BUS_RUN_DIR to a folder of your own with mode 0700"
    return f"restrict it to its owner: chmod 700 {at}, or set BUS_RUN_DIR to another"
