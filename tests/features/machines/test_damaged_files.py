"""Files of keys that are damaged, empty, encrypted or of another kind.

Each loader raises a `ValueError` that names the file, and each verb prints it in one
line and exits with code 2, for every error that `cryptography` raises.
"""

from __future__ import annotations

import base64
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from bus.cli import main
from bus.features.machines import certificates
from bus.features.machines.authority import AUTHORITY, CROSS, Authority
from bus.features.machines.certificates import (
    new_authority,
    parsed,
    pem_of,
    read_pair,
    read_pem,
)
from bus.features.machines.machine_keys import GROUP_KEY, MACHINE, TRUSTED, MachineKeys
from queuebroker.sockets import Tls

if TYPE_CHECKING:
    from collections.abc import Callable

_PEM: Final = serialization.Encoding.PEM
_PKCS8: Final = serialization.PrivateFormat.PKCS8
_HEAD: Final = b"machine kitchen\n"


def _key_of(pem: bytes) -> bytes:
    return pem[: pem.index(b"-----BEGIN CERT")]


def _certificate_of(pem: bytes) -> bytes:
    return pem[pem.index(b"-----BEGIN CERT") :]


def _encrypted(pem: bytes) -> bytes:
    key = serialization.load_pem_private_key(pem, password=None)
    made = serialization.BestAvailableEncryption(b"secret")
    return _HEAD + key.private_bytes(_PEM, _PKCS8, made) + _certificate_of(pem)


def _of_rsa(pem: bytes) -> bytes:
    key = rsa.generate_private_key(65537, 2048)
    plain = serialization.NoEncryption()
    return _HEAD + key.private_bytes(_PEM, _PKCS8, plain) + _certificate_of(pem)


def _of_another_key(pem: bytes) -> bytes:
    plain = serialization.NoEncryption()
    key = ec.generate_private_key(ec.SECP256R1())
    return _HEAD + key.private_bytes(_PEM, _PKCS8, plain) + _certificate_of(pem)


def _with_damaged_certificate(pem: bytes) -> bytes:
    """Return a file whose last certificate lacks a part in the middle."""
    return pem[:-300] + pem[-200:]


# For a file of certificates, with a key or without.
DAMAGE: Final[dict[str, Callable[[bytes], bytes]]] = {
    "empty": lambda _: b"",
    "cut": lambda pem: pem[:200],
    "noise": lambda _: bytes(range(256)),
    "text": lambda _: _HEAD + b"-----BEGIN CERTIFICATE-----\nx\n",
    "damaged certificate": _with_damaged_certificate,
}
# For a file that begins with a key.
DAMAGE_OF_KEYS: Final[dict[str, Callable[[bytes], bytes]]] = DAMAGE | {
    "encrypted": _encrypted,
    "only the key": _key_of,
    "only the certificate": lambda pem: _HEAD + _certificate_of(pem),
    "the key of another certificate": _of_another_key,
    "a key of another kind": _of_rsa,
}
KEYS: Final = [*DAMAGE_OF_KEYS]
CERTIFICATES: Final = [*DAMAGE]


def _damaged(path: Path, how: str) -> None:
    path.write_bytes(DAMAGE_OF_KEYS[how](path.read_bytes()))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an authority in a rotation, and a machine."""
    folder = tmp_path_factory.mktemp("made")
    authority = Authority.create(folder / "authority")
    authority.rotate()
    authority.issue("kitchen", folder / "kitchen")
    return folder


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    """Return a copy of that folder, which the test may damage."""
    return Path(shutil.copytree(made, tmp_path / "copied"))


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *((AUTHORITY, how) for how in KEYS),
        *((TRUSTED, how) for how in CERTIFICATES),
        *((CROSS, how) for how in CERTIFICATES if how != "empty"),
    ],
)
def test_an_authority_names_its_damaged_file(copied: Path, name: str, how: str) -> None:
    path = copied / "authority" / name
    _damaged(path, how)

    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is damaged: "):
        Authority(path.parent)


def test_an_authority_names_the_remedy_for_a_passphrase(copied: Path) -> None:
    path = copied / "authority" / AUTHORITY
    _damaged(path, "encrypted")

    with pytest.raises(ValueError, match="has a passphrase; write the key without"):
        Authority(path.parent)


@pytest.mark.parametrize("how", CERTIFICATES)
def test_the_damaged_record_of_a_machine_is_named(copied: Path, how: str) -> None:
    path = copied / "authority" / "issued" / "kitchen.pem"
    _damaged(path, how)

    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is damaged: "):
        Authority(copied / "authority").issued()


@pytest.mark.parametrize(
    ("name", "how"),
    [
        # A machine may have a key of any kind.
        *((MACHINE, how) for how in KEYS if how != "a key of another kind"),
        *((TRUSTED, how) for how in CERTIFICATES),
    ],
)
def test_the_damaged_keys_of_a_machine_are_named(
    copied: Path, name: str, how: str
) -> None:
    """When the folder is opened: OpenSSL does not ask for a passphrase later."""
    path = copied / "kitchen" / name
    _damaged(path, how)

    with pytest.raises(ValueError, match=f"{re.escape(str(path))} "):
        MachineKeys(path.parent)


@pytest.mark.parametrize("server", [True, False])
@pytest.mark.parametrize("how", KEYS)
def test_a_context_names_its_damaged_file(
    copied: Path, how: str, *, server: bool
) -> None:
    """It raises an OSError, and does not ask for a passphrase."""
    path = copied / "kitchen" / MACHINE
    _damaged(path, how)

    with pytest.raises(OSError, match="with its key, unencrypted, in PEM") as caught:
        Tls(certificate=path).context(server=server)
    assert caught.value.filename == str(path)


@pytest.mark.deep
@pytest.mark.parametrize("verb", ["show", "issue", "rotate", "retire"])
@pytest.mark.parametrize(
    ("name", "how"),
    [
        *((AUTHORITY, how) for how in KEYS),
        *((TRUSTED, how) for how in CERTIFICATES),
        *((CROSS, how) for how in CERTIFICATES if how != "empty"),
        *((GROUP_KEY, how) for how in ("empty", "noise")),
    ],
)
def test_each_verb_for_an_authority_names_the_file_in_one_line(
    copied: Path, verb: str, name: str, how: str
) -> None:
    folder = copied / "authority"
    _damaged(folder / name, how)
    arguments = {
        "show": ["show", str(folder)],
        "issue": ["issue", "m", "--authority", str(folder), "--out", str(copied / "m")],
    }.get(verb, [verb, "--authority", str(folder)])

    result = CliRunner().invoke(main, ["keys", *arguments])

    [line] = result.stderr.splitlines()
    # `retire` looks first at the machines that it would lock out.
    assert str(folder / name) in line or (name, verb) == (GROUP_KEY, "retire")
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *((MACHINE, how) for how in KEYS if how != "a key of another kind"),
        *((TRUSTED, how) for how in CERTIFICATES),
        *((GROUP_KEY, how) for how in ("empty", "noise")),
    ],
)
@pytest.mark.parametrize("verb", ["keys", "tree"])
def test_a_verb_for_a_machine_names_the_file_in_one_line(
    copied: Path, verb: str, name: str, how: str
) -> None:
    """Also a verb that joins a bus with these keys."""
    folder = copied / "kitchen"
    _damaged(folder / name, how)
    network = copied / "network.toml"
    network.write_text(f'keys = "{folder}"\n')
    arguments = {
        "keys": ["keys", "show", str(folder)],
        "tree": ["tree", "--network", str(network)],
    }

    result = CliRunner().invoke(main, arguments[verb])

    [line] = result.stderr.splitlines()
    assert str(folder / name) in line
    assert result.exit_code == 2


class Panic(BaseException):
    """As the one that the Rust code of `cryptography` raises when it fails."""


Panic.__module__ = "pyo3_runtime"


def test_a_panic_of_the_parser_is_a_damaged_file(tmp_path: Path) -> None:
    """It is no `Exception`; neither is an interrupt, which propagates."""
    path = tmp_path / "file.pem"
    path.write_bytes(b"")

    def raised(error: type[BaseException]) -> Callable[[bytes], None]:
        def parse(_: bytes) -> None:
            raise error("byte 7")

        return parse

    with pytest.raises(ValueError, match=r"file\.pem is damaged: byte 7"):
        parsed(path, raised(Panic))
    with pytest.raises(KeyboardInterrupt):
        parsed(path, raised(KeyboardInterrupt))


_PAIR: Final = new_authority()
_DER: Final = _PAIR.certificate.public_bytes(serialization.Encoding.DER)


def _as_pem(der: bytes) -> bytes:
    kind = b"CERTIFICATE-----\n"
    return b"-----BEGIN " + kind + base64.encodebytes(der) + b"-----END " + kind


@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(_DER) - 1), st.integers(0, 255)), max_size=4
    ),
    length=st.none() | st.integers(0, len(_DER)),
)
def test_any_change_of_a_certificate_is_read_or_is_a_value_error(
    tmp_path_factory: pytest.TempPathFactory,
    edits: list[tuple[int, int]],
    length: int | None,
) -> None:
    """Of its bytes below PEM, so that the parser of X.509 sees them."""
    der = bytearray(_DER)
    for at, value in edits:
        der[at] = value
    path = tmp_path_factory.getbasetemp() / "changed.pem"
    path.write_bytes(certificates.key_bytes(_PAIR.key) + _as_pem(bytes(der[:length])))

    for parse in (read_pem, read_pair):
        with suppress(ValueError):
            parsed(path, parse)


def test_a_file_with_more_authorities_than_a_rotation_has_is_damaged(
    copied: Path,
) -> None:
    path = copied / "authority" / TRUSTED
    path.write_bytes(pem_of(_PAIR.certificate) * 3)

    with pytest.raises(ValueError, match="it has 3 certificates, more than 2"):
        Authority(path.parent)
