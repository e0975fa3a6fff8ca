"""`MachineKeys`: the folder of keys of one machine, made by `Authority.issue`."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bus.keys.secret_files import check_secret
from queuebroker.sockets import Tls

if TYPE_CHECKING:
    import os

__all__ = [
    "GROUP_KEY",
    "GROUP_KEY_BYTES",
    "HEAD",
    "MACHINE",
    "TRUSTED",
    "MachineKeys",
    "read_group_keys",
]

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
