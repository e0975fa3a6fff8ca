"""Certificates for tests: one authority, and the identities it signs.

They are made once in a run, with the smallest possible keys, and removed at its end.
"""

from __future__ import annotations

import datetime as dt
import functools
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from queuebroker.sockets import Tls

__all__ = ["identity", "stranger"]


class Authority:
    """Signs certificates; keeps its files in a separate folder."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix="qb-", ignore_cleanup_errors=True
        )
        self.folder = Path(self._folder.name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name_of("authority")
        self.file = self.folder / "authority.pem"
        made = self._signed(self._name, self._key, is_authority=True)
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def identity(self, name: str, uri: str | None = None) -> Tls:
        """Return the identity of one process: its name, valid on this machine.

        uri: for a certificate that holds this URI in the place of the host. A name has
          one identity.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._signed(_name_of(name), key, is_authority=False, uri=uri)
        certificate, secret = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return Tls(certificate=certificate, key=secret, authority=self.file)

    def _signed(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        is_authority: bool,
        uri: str | None = None,
    ) -> x509.Certificate:
        host = x509.DNSName("localhost")
        names = [host if uri is None else x509.UniformResourceIdentifier(uri)]
        now = dt.datetime.now(tz=dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
        )
        return builder.sign(self._key, hashes.SHA256())


def _name_of(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@functools.cache
def _authority(_number: int) -> Authority:
    return Authority()


@functools.cache
def identity(name: str, uri: str | None = None) -> Tls:
    """Return an identity that all others trust; see `Authority.identity`."""
    return _authority(0).identity(name, uri)


@functools.cache
def stranger() -> Tls:
    """Return an identity that no other trusts; it trusts all others."""
    known = _authority(1).identity("stranger")
    return Tls(
        certificate=known.certificate, key=known.key, authority=_authority(0).file
    )
