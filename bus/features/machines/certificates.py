"""X.509 certificates of authorities and machines, with elliptic curve P-256.

A machine's certificate holds no host name: machines move between networks. Its one name
is the URI ``ism://<machine>/``, which both sides of a link compare (BUS-SEC-5).
"""

from __future__ import annotations

import datetime as dt
import secrets
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = [
    "Key",
    "Pair",
    "certify_machine",
    "cross_sign",
    "key_bytes",
    "machine_of",
    "new_authority",
    "parsed",
    "pem_of",
    "read_pair",
    "read_pem",
    "uri_of",
]

T = TypeVar("T")

Key: TypeAlias = ec.EllipticCurvePrivateKey

# A clock that is late by less still finds a new certificate valid.
_CLOCK_SKEW: Final = dt.timedelta(hours=1)
_AUTHORITY_DAYS: Final = 3650
_SCHEME: Final = "ism://"


@attrs.frozen
class Pair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: Key


def uri_of(machine: str) -> str:
    """Return the name of a machine in its certificate."""
    return f"{_SCHEME}{machine}/"


def new_authority() -> Pair:
    """Make an authority, certified by itself; no two have the same name."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named(f"bus authority {secrets.token_hex(4)}")
    made = _authority(name, key).issuer_name(name)
    return Pair(made.sign(key, hashes.SHA256()), key)


def cross_sign(authority: x509.Certificate, by: Pair) -> x509.Certificate:
    """Return a certificate of one authority, signed by another.

    A machine that trusts the signing authority alone accepts, with it, certificates of
    both.
    """
    key = authority.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    made = _authority(authority.subject, key).issuer_name(by.certificate.subject)
    return made.sign(by.key, hashes.SHA256())


def certify_machine(machine: str, days: int, by: Pair) -> Pair:
    """Make a key for a machine, and certify it for some days."""
    key = ec.generate_private_key(ec.SECP256R1())
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    names = [x509.UniformResourceIdentifier(uri_of(machine))]
    made = (
        _begun(_named(machine), key.public_key(), days)
        .issuer_name(by.certificate.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key()),
            critical=False,
        )
    )
    return Pair(made.sign(by.key, hashes.SHA256()), key)


def _authority(
    name: x509.Name, key: Key | ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    public = key.public_key() if isinstance(key, ec.EllipticCurvePrivateKey) else key
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _begun(name, public, _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(public), critical=False
        )
    )


def _begun(
    name: x509.Name, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = _now()
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _now() -> dt.datetime:
    return dt.datetime.now(tz=dt.UTC)


def _named(text: str) -> x509.Name:
    # A common name has at most 64 characters; the names compared are in extensions.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


# As PEM.


def pem_of(*certificates: x509.Certificate) -> bytes:
    """Return certificates as PEM, one after the other."""
    pem = serialization.Encoding.PEM
    return b"".join(each.public_bytes(pem) for each in certificates)


def key_bytes(key: Key) -> bytes:
    """Return a private key as PEM, unencrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def parsed(path: Path, parse: Callable[[bytes], T]) -> T:
    """Return the content of a file of keys or certificates, as `read_pem` parses it.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged; the text names it.
    """
    data = path.read_bytes()
    try:
        return parse(data)
    except BaseException as error:
        # The parse errors of `cryptography` have several types without a common base;
        # its Rust code may also panic.
        if not (isinstance(error, Exception) or _is_panic(error)):
            raise
        raise ValueError(f"{path} is damaged: {error}") from None


def _is_panic(error: BaseException) -> bool:
    return type(error).__module__ == "pyo3_runtime"


def read_pem(data: bytes) -> list[x509.Certificate]:
    """Return the certificates in a PEM file, in order; for `parsed`."""
    found = x509.load_pem_x509_certificates(data)
    for each in found:
        # The package parses these on first use; later no error would name the file.
        _ = (each.subject, each.issuer, each.extensions, each.public_key())
        _ = (each.not_valid_before_utc, each.not_valid_after_utc, machine_of(each))
    return found


def read_pair(data: bytes) -> Pair:
    """Return the private key and the first certificate of a PEM file; for `parsed`."""
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except TypeError:
        raise ValueError(
            "its private key has a passphrase; write the key without one, with "
            "'openssl pkey', and keep the certificate behind it"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the private key is not of an elliptic curve")
    certificate = read_pem(data)[0]
    if certificate.public_key() != key.public_key():
        raise ValueError("the certificate is for another private key")
    return Pair(certificate, key)


def machine_of(certificate: x509.Certificate) -> str | None:
    """Return the machine that a certificate names; None if it names no machine."""
    try:
        found = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return None
    for uri in found.value.get_values_for_type(x509.UniformResourceIdentifier):
        if uri.startswith(_SCHEME) and uri.endswith("/"):
            return uri[len(_SCHEME) : -1]
    return None
