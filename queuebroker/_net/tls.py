"""TLS over a connected socket."""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from queuebroker._net.polling import READ, WRITE
from queuebroker._net.sockets import error_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queuebroker._net.sockets import Socket

__all__ = [
    "TLS_ENDED",
    "CertificateFault",
    "TlsContext",
    "TlsError",
    "TlsSocket",
    "certificate_fault",
    "common_name",
    "do_handshake_once",
    "is_no_tls",
    "secure",
    "shown_certificate",
    "tls_context",
    "tls_reason",
    "uris",
]

TlsContext = ssl.SSLContext
TlsError = ssl.SSLError
# As `getpeercert` returns it; empty without one.
Certificate = Mapping[str, object]

# Raised when the peer has ended the connection, in order or not.
TLS_ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
# OpenSSL's reason codes for a reply that is not TLS.
_NO_TLS: Final = (
    *("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"),
    *("HTTP_REQUEST", "UNKNOWN_PROTOCOL", "UNSUPPORTED_PROTOCOL"),
)


class TlsSocket(ssl.SSLSocket):
    """A socket with TLS.

    shown: the certificate of the peer, once the handshake is complete. It is kept here
      since OpenSSL gives none after the peer has ended the connection early, perhaps
      with frames that are still to be read.
    made: True once the constructor has returned.
    """

    shown: Certificate = MappingProxyType({})
    made: bool = False

    def getpeername(self) -> Any:
        """Return the address of the peer; see `socket.socket.getpeername`."""
        try:
            return super().getpeername()
        except OSError:
            # The constructor calls this, and for a peer that has reset the connection
            # it raises: no one has this object, so no one would close it.
            if not self.made:
                self.close()
            raise


class CertificateFault(enum.Enum):
    """The reason for which a certificate is not accepted."""

    EXPIRED = "expired"
    NOT_YET_VALID = "not yet valid"
    UNTRUSTED = "of another authority"


# OpenSSL's codes of a failed verification here, and the alerts of one at the peer. An
# alert for a certificate that is not valid yet has no more exact name.
_CODES: Final = {
    9: CertificateFault.NOT_YET_VALID,
    10: CertificateFault.EXPIRED,
    **dict.fromkeys((2, 18, 19, 20, 21), CertificateFault.UNTRUSTED),
}
_ALERTS: Final = {
    "BAD_CERTIFICATE": CertificateFault.NOT_YET_VALID,
    "CERTIFICATE_EXPIRED": CertificateFault.EXPIRED,
    "UNKNOWN_CA": CertificateFault.UNTRUSTED,
}


def tls_context(
    *,
    server: bool,
    certificate: str | None,
    key: str | None,
    authority: str | None,
    check_host: bool,
) -> TlsContext:
    """Return a TLS 1.3 context with this side's certificate and its trusted authority.

    A client without ``authority`` trusts the authorities of the system. A server
    without it accepts every client, and requests no certificate.

    check_host: True if the host that a client dials must be in the server's
      certificate.

    Raises:
        OSError: a file is missing or malformed; the text names it.
    """
    made = ssl.SSLContext(
        ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT
    )
    made.sslsocket_class = TlsSocket
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = check_host and not server
    if certificate is not None:
        with _naming((certificate, key), "a certificate with its key, unencrypted"):
            # With None, OpenSSL would ask at the terminal for the key's passphrase.
            made.load_cert_chain(certificate, key, password="")
    if authority is not None:
        with _naming((authority,), "certificates of authorities"):
            made.load_verify_locations(authority)
        made.verify_mode = ssl.CERT_REQUIRED
    elif not server:
        made.load_default_certs()
    return made


@contextlib.contextmanager
def _naming(files: tuple[str | None, ...], content: str) -> Iterator[None]:
    """Add the files to an error of the TLS library, which names none."""
    given = [file for file in files if file is not None]
    try:
        yield
    except ssl.SSLError as error:
        text = f"the file must hold {content}, in PEM"
        raise OSError(errno.EINVAL, text, ", ".join(given)) from error
    except OSError as error:
        if error.filename is None:
            missing = [file for file in given if not os.access(file, os.R_OK)]
            error.filename = ", ".join(missing or given)
        raise


def secure(
    context: TlsContext, plain: Socket, *, server: bool, host: str | None = None
) -> TlsSocket:
    """Put TLS over a connected socket; the handshake is still to be done.

    Raises:
        ConnectionResetError: the peer has ended the connection already. The socket is
            closed.
    """
    try:
        secured = context.wrap_socket(
            plain,
            server_side=server,
            do_handshake_on_connect=False,
            # A stream that is cut off without a TLS close raises (`TLS_ENDED`).
            suppress_ragged_eofs=False,
            server_hostname=host,
        )
    except OSError as error:
        code = errno.ECONNRESET
        raise ConnectionResetError(code, error_text(code)) from error
    assert isinstance(secured, TlsSocket)
    secured.made = True
    return secured


def do_handshake_once(secured: TlsSocket) -> int:
    """Continue a TLS handshake; return the event to wait for, 0 when it is complete.

    Raises:
        OSError: the peer failed the verification, or closed the connection.
    """
    try:
        secured.do_handshake()
    except ssl.SSLWantReadError:
        return READ
    except ssl.SSLWantWriteError:
        return WRITE
    secured.shown = secured.getpeercert() or {}
    return 0


def common_name(shown: Certificate) -> str | None:
    """Return the common name in a certificate."""
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", shown.get("subject", ()))
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[0] if names else None


def uris(shown: Certificate) -> tuple[str, ...]:
    """Return the URIs in a certificate, in its order."""
    names = cast("tuple[tuple[str, str], ...]", shown.get("subjectAltName", ()))
    return tuple(value for kind, value in names if kind == "URI")


def tls_reason(error: TlsError) -> str:
    """Return why a handshake failed, in words.

    The error number of a TLS error is none of the system's.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    told = reason.partition(" alert ")[2]  # after the name of a version
    return f"the other side reports: {told}" if told else f"TLS: {reason}"


def certificate_fault(error: TlsError) -> CertificateFault | None:
    """Return why a certificate was not accepted, by either side; None if unknown."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _CODES.get(error.verify_code)
    return _ALERTS.get((error.reason or "").partition("_ALERT_")[2])


def shown_certificate(server: TlsContext, client: TlsContext) -> Certificate:
    """Let two contexts make a handshake in memory; return the server's certificate.

    Raises:
        OSError: one of them does not accept the certificate of the other.
    """
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    listens = server.wrap_bio(to_server, to_client, server_side=True)
    dials = client.wrap_bio(to_client, to_server)
    pending = [dials, listens]
    while pending:
        for each in list(pending):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            pending.remove(each)
    return dials.getpeercert() or {}


def is_no_tls(error: OSError) -> bool:
    """Return True if a handshake failed because the peer does not speak TLS."""
    return isinstance(error, ssl.SSLError) and error.reason in _NO_TLS
