"""Plain sockets, non-blocking and close-on-exec: to connect, accept, read and write."""

from __future__ import annotations

import array
import contextlib
import errno
import os
import socket
import ssl
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

from queuebroker._net.polling import INT_MAX
from queuebroker._platform import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = [
    "AT_ONCE",
    "HAS_UNIX",
    "WOULD_BLOCK",
    "Credentials",
    "Place",
    "Socket",
    "accept",
    "check_connected",
    "credentials_of",
    "dial",
    "error_text",
    "has_host_name",
    "ipc_socket",
    "is_connected",
    "is_in_use",
    "is_numeric",
    "listen_tcp",
    "place_text",
    "port_of",
    "reach",
    "receive_with_fds",
    "resolve",
    "send_with_fds",
    "send_without_delay",
    "unused_port",
]

Socket = socket.socket
# What a socket connects to: the path of a UNIX socket, or a NUL and its abstract name;
# over TCP a host and a port.
Place = str | tuple[str, int]

# Passed to every call on a plain socket, because a `Sleeper` may block in that socket;
# 0 where it must not.
AT_ONCE: Final[int] = getattr(socket, "MSG_DONTWAIT", 0)
_UNIX: Final[int] = getattr(socket, "AF_UNIX", -1)
HAS_UNIX: Final = _UNIX != -1
# A connect that has started. Windows returns `EWOULDBLOCK`. Elsewhere that number is
# `EAGAIN`, returned if the listener at a path has no room for another connection.
_STARTED: Final = (
    0,
    errno.EINPROGRESS,
    *((errno.EWOULDBLOCK,) if SYSTEM == "windows" else ()),
)
# With this flag, Linux marks received descriptors as close-on-exec.
_CLOSED_ON_EXEC: Final[int] = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
# Of macOS and the BSDs, not in `socket`: the level of UNIX sockets, and its options for
# the user (a `struct xucred`) and the process of the peer.
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_LOCAL_PEERPID: Final = 2
_XUCRED: Final = struct.Struct("@IIh2x16I")
# Ports that no system gives to a socket that names none, nor to a common service.
_NEVER_GIVEN: Final = range(20_000, 32_768)
# Raised by a non-blocking socket that would have to wait.
WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_CREDENTIALS: Final = struct.Struct("3i")
_FDS: Final = array.array("i")
# Send buffers for a reader on this machine, over TCP and over UNIX sockets. The kernel
# reserves twice the number requested, but at most `net.core.wmem_max` (212,992 by
# default). A larger number is no error.
_WARM_BYTES: Final = 1 << 18
_IPC_BYTES: Final = 425_984
_EVERYWHERE: Final = frozenset({"", "*"})
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
# An address of IPv4, as a socket for both versions shows it.
_MAPPED: Final = "::ffff:"
# Texts by error number, on Windows.
_TEXTS: Final[dict[int, str]] = getattr(socket, "errorTab", {})
# By the version of IP; 0 for any.
_FAMILIES: Final = {0: socket.AF_UNSPEC, 4: socket.AF_INET, 6: socket.AF_INET6}


class Credentials(NamedTuple):
    """The peer of a UNIX socket, as the kernel reports it."""

    pid: int
    uid: int
    gid: int


def listen_tcp(host: str, port: int, *, backlog: int, ip_version: int = 0) -> Socket:
    """Listen at a TCP port of this machine; 0 picks a free port.

    host: "" or "*" for all addresses of this machine, of IPv4 and of IPv6.
    ip_version: 4 or 6 to use an address of that version of IP; 0 for any.

    Raises:
        OSError: the host has no such address, or the system refuses it.
    """
    if host not in _EVERYWHERE:
        family, place = _first_address(host, port, ip_version, socket.AI_PASSIVE)
        return _listen(family, place, backlog)
    if ip_version != 4:
        try:
            only = ip_version == 6
            return _listen(socket.AF_INET6, ("::", port), backlog, only=only)
        except OSError as error:
            # This machine has no IPv6, or it is switched off.
            if ip_version or error.errno not in _NO_IPV6:
                raise
    return _listen(socket.AF_INET, ("0.0.0.0", port), backlog)  # noqa: S104


def _listen(
    family: int, place: tuple[Any, ...], backlog: int, *, only: bool | None = None
) -> Socket:
    """Listen at an address. only: True to refuse IPv4 at an IPv6 socket."""
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        # On Windows this option lets another process bind the same address.
        if SYSTEM != "windows":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if only is not None:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        made.bind(place)
        made.listen(min(backlog, INT_MAX))
    except BaseException:
        made.close()
        raise
    return made


def unused_port(host: str = "127.0.0.1", *, datagrams: bool = False) -> int:
    """Return a port of this machine to which no socket is bound now.

    It lies below the ports that a system gives to a socket that names none (from
    32,768 upwards on Linux), so that no such socket takes it before it is used.

    datagrams: True for a UDP port, False for a TCP port.
    Raise OSError if none of a thousand random ones can be bound.
    """
    from random import SystemRandom  # noqa: PLC0415 - rarely needed

    draw = SystemRandom()  # a test may have seeded the other generator
    kind = socket.SOCK_DGRAM if datagrams else socket.SOCK_STREAM
    for _ in range(1000):
        with socket.socket(socket.AF_INET, kind) as made, contextlib.suppress(OSError):
            made.bind((host, draw.choice(_NEVER_GIVEN)))
            return port_of(made)
    ports = f"{_NEVER_GIVEN[0]} to {_NEVER_GIVEN[-1]}"
    raise OSError(errno.EADDRINUSE, f"no port of {host!r} from {ports} can be bound")


def port_of(listening: Socket) -> int:
    """Return the TCP port a socket is bound to."""
    port: int = listening.getsockname()[1]
    return port


def accept(listening: Socket) -> tuple[Socket, str] | None:
    """Return the next incoming connection; None if there is none or it aborted.

    Its second item is the network address of the peer, "" for a process of this
    machine. After a failure the socket itself no longer tells it.
    """
    try:
        made, address = listening.accept()
    except (BlockingIOError, ConnectionAbortedError, InterruptedError):
        return None
    except ConnectionResetError:  # so says Windows if the peer has ended it already
        return None
    with contextlib.suppress(OSError):  # the peer has closed again
        made.setblocking(False)
        send_without_delay(made)
        _bound_send_buffer(made, made.getpeername())
    if not isinstance(address, tuple):
        return made, ""
    host, port = address[:2]
    return made, place_text(host.removeprefix(_MAPPED) if "." in host else host, port)


def place_text(host: str, port: int) -> str:
    """Return ``host:port``, with an address of IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_numeric(host: str) -> bool:
    """Return True if a host is a numeric address, which needs no name look-up."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host.partition("%")[0])
            return True
    return False


def has_host_name(place: Place) -> TypeGuard[tuple[str, int]]:
    """Return True if `dial` would look up a host name, which may take long."""
    return not (isinstance(place, str) or is_numeric(place[0]))


def resolve(place: tuple[str, int], ip_version: int = 0) -> Place:
    """Return a place with a numeric address for its host; may block in a DNS query.

    ip_version: as for `listen_tcp`.

    Raises:
        OSError: the host name does not resolve, or has no such address.
    """
    host, port = place
    return str(_first_address(host, port, ip_version)[1][0]), port


def _first_address(
    host: str, port: int, ip_version: int = 0, flags: int = 0
) -> tuple[int, tuple[Any, ...]]:
    """Return the family of the preferred address of a host, and the address."""
    wanted = _FAMILIES[ip_version]
    try:
        found = socket.getaddrinfo(host, port, wanted, socket.SOCK_STREAM, 0, flags)
    except socket.gaierror as error:
        if not ip_version:
            raise
        # The resolver reports a host with other addresses only as an unknown one.
        text = f"cannot find an IPv{ip_version} address of {host!r}: {error.strerror}"
        raise socket.gaierror(error.errno, text) from None
    family, _, _, _, place = found[0]
    return family, place


def dial(place: Place) -> Socket:
    """Connect without waiting.

    Over TCP the connect only starts: call `check_connected` once the socket is
    writable.

    Raises:
        OSError: the host does not exist, or is unreachable; for a UNIX socket
            ECONNREFUSED or ENOENT if no process listens there, EAGAIN to try again.
    """
    family: int = _UNIX
    where: Any = place
    if not isinstance(place, str):
        family, where = _first_address(*place)
    elif not HAS_UNIX:
        raise _no_unix_sockets()
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        send_without_delay(made)
        code = made.connect_ex(where)
        if code not in _STARTED:
            raise OSError(code, error_text(code))
        _bound_send_buffer(made, where)
    except BaseException:
        made.close()
        raise
    return made


def reach(host: str, port: int, timeout_s: float) -> None:
    """Connect to a TCP port, and close the connection.

    Raises:
        OSError: it cannot connect; a `TimeoutError` if nothing answers in time.
    """
    with socket.create_connection((host, port), timeout_s) as made:
        check_connected(made)


def check_connected(connecting: Socket) -> None:
    """Raise the error of a connect that failed; call once the socket is writable.

    A socket that dials a free port of this machine may get that very port as its own.
    Then TCP connects it to itself, and no listener can take the port until it is
    closed. Such a connect counts as refused.
    """
    code = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if not code and connecting.family != _UNIX:
        with contextlib.suppress(OSError):  # the peer has closed again
            if connecting.getpeername() == connecting.getsockname():
                code = errno.ECONNREFUSED
    if code:
        raise OSError(code, error_text(code))


def is_connected(connecting: Socket) -> bool:
    """Return True if the other host has accepted a connect, and is still there."""
    try:
        connecting.getpeername()
    except OSError:
        return False
    return True


def error_text(code: int) -> str:
    """Return the text of an error number.

    The C library of Windows has no text for the numbers of sockets; Python has.
    """
    return str(_TEXTS.get(code) or os.strerror(code)).rstrip(".")


def _no_unix_sockets() -> OSError:
    text = "this system has no UNIX sockets; use TCP, such as tcp://127.0.0.1:7000"
    return OSError(errno.EAFNOSUPPORT, text)


def ipc_socket() -> Socket:
    if not HAS_UNIX:
        raise _no_unix_sockets()
    made = socket.socket(_UNIX, socket.SOCK_STREAM)
    made.setblocking(False)
    return made


def send_without_delay(made: Socket) -> None:
    """Send small messages without delay: each is complete, and a receiver waits for it.

    Over a UNIX socket, quadruple the send buffer. The kernel reports the socket
    writable only when three quarters of the buffer are free. So the writer waits a
    quarter as often, and the remaining quarter keeps the reader busy until more data
    arrives.
    """
    if made.family != _UNIX:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    elif made.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < 2 * _IPC_BYTES:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _IPC_BYTES)


def _bound_send_buffer(made: Socket, other: Sequence[object]) -> None:
    """Bound the send buffer of TCP to this machine, so that the data stays in a cache.

    By default the kernel queues so much that the reader fetches all of it from memory,
    which halves the rate of long messages. A path through a network needs the buffer
    size that the kernel determines by itself.
    """
    if made.family != _UNIX and made.getsockname()[0] == other[0]:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _WARM_BYTES)


def credentials_of(connected: Socket) -> Credentials | None:
    """Return the credentials of the peer, or None if this is no UNIX socket."""
    if connected.family != _UNIX:
        return None
    if hasattr(socket, "SO_PEERCRED"):
        packed = connected.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        return Credentials(*_CREDENTIALS.unpack(packed))
    packed = connected.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size)
    _, uid, _, gid, *_ = _XUCRED.unpack(packed)
    return Credentials(connected.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID), uid, gid)


def send_with_fds(connected: Socket, data: Buffer, fds: Sequence[int]) -> int:
    """Write a prefix of ``data``, with the descriptors attached to its first byte."""
    # Not `socket.send_fds`, which ignores the flags.
    ancillary = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array(_FDS.typecode, fds))
    return connected.sendmsg([data], [ancillary], AT_ONCE)


def receive_with_fds(
    connected: Socket, size: int, most: int
) -> tuple[bytes, list[int]]:
    """Read some bytes and at most ``most`` descriptors that came with them.

    The descriptors are close-on-exec. The kernel has closed those that did not fit.
    """
    # Not `socket.recv_fds`, which ignores the flags, too.
    data, ancillary, _, _ = connected.recvmsg(
        size,
        socket.CMSG_LEN(most * _FDS.itemsize),
        _CLOSED_ON_EXEC | AT_ONCE,
    )
    fds = array.array(_FDS.typecode)
    for level, kind, packed in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(packed[: len(packed) - len(packed) % _FDS.itemsize])
    if not _CLOSED_ON_EXEC:
        for each in fds:
            os.set_inheritable(each, False)
    return data, list(fds)


def is_in_use(error: OSError) -> bool:
    """Return True if a bind failed because the address is in use."""
    return error.errno == errno.EADDRINUSE
