"""`Authority`: the folder from which the machines of a bus are certified.

Rotation: `rotate` makes a new authority, and the earlier one signs it as well. So a
machine that has only the earlier authority accepts certificates of the new one, and the
folders of the machines may be replaced in any order. `rotate` also makes a new group
key; folders issued from then on hold both keys, and both sign. `retire` ends it.
"""

from __future__ import annotations

import datetime as dt
import os
import secrets
from pathlib import Path
from typing import ClassVar, Final

import attrs
from cryptography import x509

from bus.features.machines.certificates import (
    Pair,
    certify_machine,
    cross_sign,
    key_bytes,
    machine_of,
    new_authority,
    parsed,
    pem_of,
    read_pair,
    read_pem,
)
from bus.features.machines.machine_keys import (
    GROUP_KEY,
    GROUP_KEY_BYTES,
    HEAD,
    MACHINE,
    TRUSTED,
    check_secret,
    read_group_keys,
    write_file,
)
from bus.model.address import check_machine_name
from queuebroker.closable import Uncopyable

__all__ = ["Authority", "Issued"]

AUTHORITY: Final = "authority.pem"  # its key and certificate
CROSS: Final = "cross.pem"  # its certificate by the earlier authority; empty without
_ISSUED: Final = "issued"
_DAYS_MAX: Final = 3650
_TRUSTED_MAX: Final = 2  # the new authority and the earlier one, during a rotation


@attrs.frozen
class Issued:
    """The latest certificate of one machine.

    since, until: its validity, in UTC.
    authority: the name of the authority that signed it.
    current: True if that authority signs new certificates; False for an earlier one.
    """

    machine: str
    since: dt.datetime
    until: dt.datetime
    authority: str
    current: bool


class Authority(Uncopyable):
    """The authority of a bus, in a folder that only its owner may open.

    Raises:
        FileNotFoundError: there is no authority in the folder.
        AccessDeniedError: another user owns its key, or may read it.
        OSError: a file cannot be read.
        ValueError: a file is damaged; the text names it.
    """

    _in_place_of_copy: ClassVar[str] = "another process opens its folder"

    __slots__ = ("_cross", "_signer", "folder", "trusted")

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder: Final = Path(folder)
        path = self.folder / AUTHORITY
        try:
            check_secret(path, "use the authority")
        except FileNotFoundError as error:
            raise FileNotFoundError(
                error.errno,
                f"there is no authority in {self.folder}: 'bus keys init' makes one",
            ) from None
        self._signer: Pair = parsed(path, read_pair)
        self._cross: bytes = parsed(self.folder / CROSS, _read_cross)
        self.trusted: list[x509.Certificate] = parsed(
            self.folder / TRUSTED, _read_trusted
        )

    @classmethod
    def create(cls, folder: str | os.PathLike[str]) -> Authority:
        """Make an authority in a new or empty folder, with mode 0700.

        Raises:
            FileExistsError: there is something in the folder.
            OSError: the folder cannot be made or written.
        """
        path = Path(folder)
        path.mkdir(0o700, parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise FileExistsError(
                f"cannot make an authority: {path} is not empty; name a new folder"
            )
        path.chmod(0o700)
        (path / _ISSUED).mkdir(0o700)
        _write_group_keys(path / GROUP_KEY, _new_group_key())
        signer = new_authority()
        write_file(path / CROSS, b"", secret=False)
        write_file(path / TRUSTED, pem_of(signer.certificate), secret=False)
        # Last: with it the folder is an authority.
        _write_pair(path / AUTHORITY, signer)
        return cls(path)

    @property
    def name(self) -> str:
        """The name of the authority that signs new certificates."""
        return _name_of(self._signer.certificate.subject)

    def issue(
        self, machine: str, out: str | os.PathLike[str], *, days: int = 365
    ) -> Path:
        """Certify a machine; return the folder to copy there, which is made or renewed.

        Raises:
            ValueError: the name of the machine is illegal, or ``days`` is not between 1
              and 3650.
            OSError: the folder cannot be written.
        """
        check_machine_name(machine)
        if not 1 <= days <= _DAYS_MAX:
            raise ValueError(f"days must be from 1 to {_DAYS_MAX}, got {days}")
        folder = Path(out)
        folder.mkdir(0o700, parents=True, exist_ok=True)
        made = certify_machine(machine, days, self._signer)
        group_keys = read_group_keys(self.folder / GROUP_KEY)
        _write_group_keys(folder / GROUP_KEY, *group_keys)
        write_file(folder / TRUSTED, pem_of(*self.trusted), secret=False)
        _write_pair(folder / MACHINE, made, self._cross, f"{HEAD}{machine}\n")
        record = self.folder / _ISSUED / f"{machine}.pem"
        write_file(record, pem_of(made.certificate), secret=False)
        return folder

    def issued(self) -> list[Issued]:
        """Return the latest certificate of each machine, by name."""
        found = []
        for path in sorted((self.folder / _ISSUED).glob("*.pem")):
            certificate = parsed(path, read_pem)[0]
            found.append(
                Issued(
                    machine_of(certificate) or path.stem,
                    certificate.not_valid_before_utc,
                    certificate.not_valid_after_utc,
                    _name_of(certificate.issuer),
                    certificate.issuer == self._signer.certificate.subject,
                )
            )
        return found

    # Rotation.

    def rotate(self) -> None:
        """Make a new authority and a new group key.

        The earlier ones stay valid until `retire`. After a failure, such as a full
        disk, a second call completes the rotation.

        Raises:
            ValueError: an earlier rotation has not ended.
            OSError: a file cannot be written.
        """
        path = self.folder / GROUP_KEY
        newest, *others = read_group_keys(path)
        # False if a rotation was cut short before it wrote the key of its authority.
        has_begun = (
            len(self.trusted) > 1 and self._signer.certificate == self.trusted[0]
        )
        if has_begun and others:
            raise ValueError(
                "cannot rotate: two authorities are valid already; certify all "
                "machines again, then 'bus keys retire'"
            )
        if not has_begun:
            self._replace_signer()
        # Last: any earlier, and `retire` after a crash could drop a key that folders of
        # the earlier authority need.
        _write_group_keys(path, _new_group_key(), newest)

    def _replace_signer(self) -> None:
        earlier, signer = self._signer, new_authority()
        self._cross = pem_of(cross_sign(signer.certificate, earlier))
        self.trusted = [signer.certificate, earlier.certificate]
        write_file(self.folder / TRUSTED, pem_of(*self.trusted), secret=False)
        write_file(self.folder / CROSS, self._cross, secret=False)
        _write_pair(self.folder / AUTHORITY, signer)
        self._signer = signer

    def retire(self) -> None:
        """Drop the earlier authority and group key from folders issued from now on.

        Raises:
            ValueError: a machine has a valid certificate of the earlier authority, or
              there is no earlier one.
            OSError: a file cannot be written.
        """
        if len(self.trusted) < 2:
            raise ValueError("cannot retire: no earlier authority is trusted")
        now = dt.datetime.now(tz=dt.UTC)
        left = [e.machine for e in self.issued() if not e.current and e.until > now]
        if left:
            raise ValueError(
                f"cannot retire: {', '.join(left)} would be locked out; certify each "
                "again with 'bus keys issue', and copy its folder"
            )
        path = self.folder / GROUP_KEY
        _write_group_keys(path, read_group_keys(path)[0])
        self.trusted = [self._signer.certificate]
        self._cross = b""
        write_file(self.folder / CROSS, b"", secret=False)
        write_file(self.folder / TRUSTED, pem_of(*self.trusted), secret=False)


def _new_group_key() -> bytes:
    return secrets.token_bytes(GROUP_KEY_BYTES)


def _write_group_keys(path: Path, *keys: bytes) -> None:
    lines = "\n".join(key.hex() for key in keys)
    write_file(path, lines.encode(), secret=True)


def _write_pair(path: Path, pair: Pair, others: bytes = b"", head: str = "") -> None:
    data = head.encode() + key_bytes(pair.key) + pem_of(pair.certificate) + others
    write_file(path, data, secret=True)


def _read_cross(data: bytes) -> bytes:
    if data:
        read_pem(data)
    return data


def _read_trusted(data: bytes) -> list[x509.Certificate]:
    found = read_pem(data)
    if len(found) > _TRUSTED_MAX:
        raise ValueError(f"it has {len(found)} certificates, more than {_TRUSTED_MAX}")
    return found


def _name_of(name: x509.Name) -> str:
    return name.rfc4514_string().removeprefix("CN=")
