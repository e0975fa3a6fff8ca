"""Files that only their owner may read, each replaced at once."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from bus.errors import AccessDeniedError

__all__ = ["check_secret", "write_file"]


def write_file(path: Path, data: bytes, *, secret: bool) -> None:
    """Write a file: a reader finds the former content, or all of the new one.

    secret: True for mode 0600, False for 0644.
    """
    import tempfile  # noqa: PLC0415 - slow to load; no bus writes keys

    # With mode 0600 from the start, as `mkstemp` makes it.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), 0o600 if secret else 0o644)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def check_secret(path: Path, act: str) -> None:
    """Refuse a secret file that another user owns or may open.

    act: the action that needs the file, for the error.

    Raises:
        AccessDeniedError: another user than root or the caller's owns it, or its mode
            is open to others.
        OSError: it cannot be looked at.
    """
    about = path.stat()
    mode = stat.S_IMODE(about.st_mode)
    if about.st_uid not in {0, os.geteuid()}:
        raise AccessDeniedError(act, f"{path} belongs to uid {about.st_uid}")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        fact = f"{path} is open to others: mode {mode:04o}; run chmod 600 {path}"
        raise AccessDeniedError(act, fact)
