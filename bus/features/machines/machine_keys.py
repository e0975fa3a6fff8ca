"""`MachineKeys`: the folder of keys of one machine, made by `Authority.issue`."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from bus.errors import AccessDeniedError
from queuebroker import _files
from queuebroker.sockets import Tls

__all__ = [
    "GROUP_KEY",
    "GROUP_KEY_BYTES",
    "HEAD",
    "MACHINE",
    "TRUSTED",
    "MachineKeys",
    "check_secret",
    "read_group_keys",
    "write_file",
]


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
            _files.set_mode(file.fileno(), 0o600 if secret else 0o644)
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
    mode, owner = _files.mode_of(about), _files.owner_of(about)
    if owner not in {0, _files.user_id()}:
        raise AccessDeniedError(act, f"{path} belongs to uid {owner}")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        fact = f"{path} is open to others: mode {mode:04o}; run chmod 600 {path}"
        raise AccessDeniedError(act, fact)


# The key and the certificate are in one file, so that both are replaced at once.
MACHINE: Final = "machine.pem"
TRUSTED: Final = "trusted.pem"
GROUP_KEY: Final = "group.key"

GROUP_KEY_BYTES: Final = 32
_KEY_COUNTS: Final = (1, 2)
# The first line of `MACHINE`, with the name after it; text before the key is ignored.
HEAD: Final = "machine "
_ACT: Final = "use the keys of this machine"


class MachineKeys:
    """The keys of one machine, in a folder.

    The folder is checked once. The keys are read again whenever they are used, so that
    a process need not be restarted after they are replaced.

    Attributes:
        folder: the folder.
        machine: the machine that the certificate names, by the first line of its
            file. Only for an early error: a peer reads the certificate itself.

    Raises:
        OSError: a file cannot be read; the text names it and the command that makes it.
        AccessDeniedError: another user owns a secret file, or may read it.
        ValueError: a file is damaged; the text names it.
    """

    __slots__ = ("folder", "machine")

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder: Final = Path(folder)
        try:
            check_secret(self.folder / MACHINE, _ACT)
            self.group_keys()
            (self.folder / TRUSTED).stat()
            pem = (self.folder / MACHINE).read_bytes()
            self.tls.context(server=True)
        except OSError as error:
            if error.errno == errno.EINVAL:
                msg = f"{error.filename} is damaged: {error.strerror}"
                raise ValueError(f"{msg}; issue and copy this folder again") from None
            raise OSError(
                error.errno,
                f"cannot {_ACT}: {error.filename}: {error.strerror}; "
                "'bus keys issue MACHINE' makes such a folder",
            ) from None
        self.machine: Final = _machine(pem, self.folder / MACHINE)

    def group_keys(self) -> tuple[bytes, ...]:
        """Return the keys that sign announcements, the newest first (BUS-SEC-6).

        There are two while the authority is replaced, otherwise one.

        Raises:
            OSError, AccessDeniedError, ValueError: as for the class.
        """
        check_secret(self.folder / GROUP_KEY, _ACT)
        return read_group_keys(self.folder / GROUP_KEY)

    @property
    def tls(self) -> Tls:
        """The certificate and the authorities, for the links to other machines."""
        return Tls(
            certificate=self.folder / MACHINE,
            authority=self.folder / TRUSTED,
            check_host=False,
        )


def _machine(pem: bytes, path: Path) -> str:
    line = pem.partition(b"\n")[0].decode("ascii", "replace")
    if not line.startswith(HEAD):
        raise ValueError(f"{path} must begin with {HEAD!r} and a name: issue it again")
    return line.removeprefix(HEAD)


def read_group_keys(path: Path) -> tuple[bytes, ...]:
    """Return the keys in a file: one in each line, in hexadecimal digits.

    Raises:
        OSError: it cannot be read.
        ValueError: it has another form.
    """
    try:
        keys = tuple(map(bytes.fromhex, path.read_text("ascii").split()))
    except ValueError:
        keys = ()
    if len(keys) not in _KEY_COUNTS or {len(key) for key in keys} != {GROUP_KEY_BYTES}:
        msg = f"{path} must hold {2 * GROUP_KEY_BYTES} hexadecimal digits in a line"
        raise ValueError(f"{msg}, or in each of two: issue and copy this folder again")
    return keys
