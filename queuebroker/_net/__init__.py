"""All access to sockets, TLS, processes and kernel readiness.

Apart from `queuebroker.testing`, no other package imports ``socket``, ``ssl``,
``select`` or ``subprocess``.

polling         kernel readiness
sockets         plain sockets, non-blocking and close-on-exec
datagrams       UDP sockets for a group of hosts
tls             TLS over a connected socket
socket_files    UNIX sockets at a path
sleeper         a parker that also wakes when a socket is readable
processes       programs that this process starts; imported where it is used

Numeric codes of the platform become values here. Errors stay `OSError`; the caller
interprets them.
"""

from __future__ import annotations

from queuebroker._net.datagrams import Datagrams, join_group
from queuebroker._net.polling import (
    ENDED,
    ONCE,
    POLL_S_MAX,
    READ,
    WRITE,
    Poller,
    processors,
    wait_to_read,
    wait_to_read_any,
)
from queuebroker._net.sleeper import (
    Sleeper,
    SocketFailure,
)
from queuebroker._net.socket_files import (
    PATH_BYTES_MAX,
    has_listener,
    identity_of,
    listen_abstract,
    listen_ipc,
    lock_folder,
    remove_stale,
    unlink_if,
)
from queuebroker._net.sockets import (
    AT_ONCE,
    HAS_UNIX,
    WOULD_BLOCK,
    Credentials,
    Place,
    Socket,
    accept,
    check_connected,
    credentials_of,
    dial,
    error_text,
    has_host_name,
    is_connected,
    is_in_use,
    is_numeric,
    listen_tcp,
    place_text,
    port_of,
    reach,
    receive_with_fds,
    resolve,
    send_with_fds,
    unused_port,
)
from queuebroker._net.tls import (
    TLS_ENDED,
    CertificateFault,
    TlsContext,
    TlsError,
    TlsSocket,
    certificate_fault,
    common_name,
    do_handshake_once,
    is_no_tls,
    secure,
    shown_certificate,
    tls_context,
    tls_reason,
    uris,
)

__all__ = [
    "AT_ONCE",
    "ENDED",
    "HAS_UNIX",
    "ONCE",
    "PATH_BYTES_MAX",
    "POLL_S_MAX",
    "READ",
    "TLS_ENDED",
    "WOULD_BLOCK",
    "WRITE",
    "CertificateFault",
    "Credentials",
    "Datagrams",
    "Place",
    "Poller",
    "Sleeper",
    "Socket",
    "SocketFailure",
    "TlsContext",
    "TlsError",
    "TlsSocket",
    "accept",
    "certificate_fault",
    "check_connected",
    "common_name",
    "credentials_of",
    "dial",
    "do_handshake_once",
    "error_text",
    "has_host_name",
    "has_listener",
    "identity_of",
    "is_connected",
    "is_in_use",
    "is_no_tls",
    "is_numeric",
    "join_group",
    "listen_abstract",
    "listen_ipc",
    "listen_tcp",
    "lock_folder",
    "place_text",
    "port_of",
    "processors",
    "reach",
    "receive_with_fds",
    "remove_stale",
    "resolve",
    "secure",
    "send_with_fds",
    "shown_certificate",
    "tls_context",
    "tls_reason",
    "unlink_if",
    "unused_port",
    "uris",
    "wait_to_read",
    "wait_to_read_any",
]
