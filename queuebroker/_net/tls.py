"""TLS over a connected socket."""

from __future__ import annotations

import contextlib
import errno
import os
import ssl
from typing import TYPE_CHECKING, Final, cast

from queuebroker._net.polling import READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queuebroker._net.sockets import Socket

__all__ = [
    "TLS_ENDED",
    "TlsContext",
    "TlsError",
    "TlsSocket",
    "common_name",
    "do_handshake_once",
    "is_no_tls",
    "secure",
    "tls_context",
    "tls_reason",
    "uris",
]

TlsContext = ssl.SSLContext
TlsSocket = ssl.SSLSocket
TlsError = ssl.SSLError

# Raised when the peer has ended the connection, in order or not.
TLS_ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
# OpenSSL's reason codes for a reply that is not TLS.
_NO_TLS: Final = (
    *("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"),
    *("HTTP_REQUEST", "UNKNOWN_PROTOCOL", "UNSUPPORTED_PROTOCOL"),
)


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
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = check_host and not server
    if certificate is not None:
        with _naming((certificate, key), "a certificate with its key"):
            made.load_cert_chain(certificate, key)
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
    """Put TLS over a connected socket; the handshake is still to be done."""
    return context.wrap_socket(
        plain,
        server_side=server,
        do_handshake_on_connect=False,
        # A stream that is cut off without a TLS close raises (`TLS_ENDED`).
        suppress_ragged_eofs=False,
        server_hostname=host,
    )


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
    return 0


def common_name(secured: TlsSocket) -> str | None:
    """Return the common name in the certificate of the peer."""
    shown = secured.getpeercert() or {}
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", shown.get("subject", ()))
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[0] if names else None


def uris(secured: TlsSocket) -> tuple[str, ...]:
    """Return the URIs in the certificate of the peer, in its order."""
    shown = secured.getpeercert() or {}
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


def is_no_tls(error: OSError) -> bool:
    """Return True if a handshake failed because the peer does not speak TLS."""
    return isinstance(error, ssl.SSLError) and error.reason in _NO_TLS
