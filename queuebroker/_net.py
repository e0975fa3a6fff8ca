"""The only module that uses sockets, TLS, descriptors, processes and kernel readiness.

Every socket created here is non-blocking and close-on-exec. This module converts
numeric codes of the platform to values. Errors stay `OSError`; the caller interprets
them.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import select
import socket
import ssl
import stat
import struct
import subprocess
from typing import TYPE_CHECKING, Final, cast

import attrs

from queuebroker import _sync
from queuebroker._green import refuse_green_threads
from queuebroker.waiting.adaptive_spin import AWAKE_S, AdaptiveSpin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from typing_extensions import Buffer

__all__ = [
    "AT_ONCE",
    "ENDED",
    "ONCE",
    "PATH_BYTES_MAX",
    "POLL_S_MAX",
    "READ",
    "TLS_ENDED",
    "WOULD_BLOCK",
    "WRITE",
    "Credentials",
    "Poller",
    "Process",
    "Sleeper",
    "Socket",
    "SocketFailure",
    "TlsContext",
    "TlsError",
    "TlsSocket",
    "accept",
    "common_name",
    "connect_error",
    "credentials_of",
    "dial_ipc",
    "dial_tcp",
    "exit_code_of",
    "identity_of",
    "is_in_use",
    "is_listened_at",
    "is_no_tls",
    "is_numeric",
    "listen_ipc",
    "listen_tcp",
    "look_up",
    "port_of",
    "receive_with_fds",
    "secure",
    "send_with_fds",
    "shake_hands",
    "start_process",
    "tls_context",
    "unlink_if",
    "wait_to_read",
]

Socket = socket.socket
TlsContext = ssl.SSLContext
TlsSocket = ssl.SSLSocket
TlsError = ssl.SSLError
refuse_green_threads()  # green threads remove `epoll`
if not hasattr(select, "epoll"):
    raise ImportError(
        "a bus and queuebroker.sockets need Linux: there is no epoll here"
    )
Poller = select.epoll
Process = subprocess.Popen

READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT
# Passed to every call on a plain socket, because a `Sleeper` may block in that socket.
AT_ONCE: Final = socket.MSG_DONTWAIT
# Raised by a non-blocking socket that would have to wait.
WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
ENDED: Final = select.EPOLLHUP | select.EPOLLERR
ONCE: Final = select.EPOLLONESHOT  # alone: reports only a hang-up or an error, once

# Maximum length of a socket path in the kernel, without the terminating zero byte.
PATH_BYTES_MAX: Final = 107

# How long a sleeper blocks in its socket alone, as `struct timeval`. The second value
# is the upper bound of that time if the kernel counts in hundredths of a second.
_PATIENCE: Final = struct.pack("@ll", 0, 2_000)
_PATIENCE_MAX_S: Final = 12e-3
_SHARED_PARKER: Final = os.EFD_CLOEXEC | os.EFD_NONBLOCK
# Raised when the peer has ended the connection, in order or not.
TLS_ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
# OpenSSL's reason codes for a reply that is not TLS.
_NO_TLS: Final = (
    *("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"),
    *("HTTP_REQUEST", "UNKNOWN_PROTOCOL", "UNSUPPORTED_PROTOCOL"),
)
_CREDENTIALS: Final = struct.Struct("3i")
_FDS: Final = array.array("i")
# The largest number that the system accepts as a timeout in milliseconds, or as a
# backlog.
_INT_MAX: Final = 2**31 - 1
# The longest timeout that `Poller.poll` accepts, in seconds.
POLL_S_MAX: Final = float(_INT_MAX // 1000)
# Send buffers for a reader on this machine, over TCP and over UNIX sockets. The kernel
# reserves twice the number requested, but at most `net.core.wmem_max` (212,992 by
# default). A larger number is no error.
_WARM_BYTES: Final = 1 << 18
_IPC_BYTES: Final = 425_984
# Number of tries to lock a folder, and the pause between two tries. Other processes
# hold the lock for less than a millisecond.
_LOCK_TRIES: Final = 400
_LOCK_PAUSE_MS: Final = 5


@attrs.frozen(slots=True)
class Credentials:
    """The peer of a UNIX socket, as the kernel reports it."""

    pid: int
    uid: int
    gid: int


def listen_ipc(path: Path, *, mode: int, backlog: int) -> Socket:
    """Listen at a path to which only users admitted by ``mode`` can connect.

    Replaces a socket file left behind by a dead process.

    Raises:
        OSError: EADDRINUSE if a process listens there, or if the file is no socket.
        TimeoutError: see `folder_locked`.
    """
    # One process at a time in a folder: between bind and listen a socket looks like one
    # that was left behind.
    with folder_locked(path.parent):
        made = _ipc_socket()
        try:
            remove_left_behind(path)
            made.bind(os.fspath(path))
            # Before the first connection: until `listen` returns, no process can
            # connect.
            path.chmod(mode)
            made.listen(min(backlog, _INT_MAX))
        except BaseException:
            made.close()
            raise
    return made


@contextlib.contextmanager
def folder_locked(path: Path) -> Iterator[None]:
    """Hold the lock of a folder, so that no other process listens or sweeps there.

    Raises:
        TimeoutError: another process holds the lock for too long, for example because
            it was stopped meanwhile.
    """
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock_soon(folder, path)
        yield
    finally:
        os.close(folder)


def _lock_soon(folder: int, path: Path) -> None:
    pause = select.poll()
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause.poll(_LOCK_PAUSE_MS)
        else:
            return
    raise TimeoutError(errno.ETIMEDOUT, "another process keeps it locked", str(path))


def remove_left_behind(path: Path) -> None:
    """Remove a socket at which no process listens; call under `folder_locked`."""
    if _is_left_behind(path):
        path.unlink()


def _is_left_behind(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode) and not is_listened_at(path)
    except FileNotFoundError:
        return False


def is_listened_at(path: Path) -> bool:
    """Return True if a process listens at a path."""
    with _ipc_socket() as probe:
        return probe.connect_ex(os.fspath(path)) in (0, errno.EAGAIN)


def listen_tcp(host: str, port: int, *, backlog: int) -> Socket:
    """Listen at a TCP port of this machine; 0 picks a free port."""
    family, _, _, _, place = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(min(backlog, _INT_MAX))
    except BaseException:
        made.close()
        raise
    return made


def port_of(listening: Socket) -> int:
    """Return the TCP port a socket is bound to."""
    port: int = listening.getsockname()[1]
    return port


def accept(listening: Socket) -> Socket | None:
    """Return the next incoming connection; None if there is none or it aborted."""
    try:
        made, _ = listening.accept()
    except (BlockingIOError, ConnectionAbortedError, InterruptedError):
        return None
    with contextlib.suppress(OSError):  # the peer has closed again
        made.setblocking(False)
        _hasten(made)
        _keep_warm(made, made.getpeername())
    return made


def dial_ipc(path: Path) -> Socket:
    """Connect to a path without waiting.

    Raises:
        OSError: ECONNREFUSED or ENOENT if no process listens there; EAGAIN to try
            again.
    """
    made = _ipc_socket()
    try:
        _hasten(made)
        made.connect(os.fspath(path))
    except BaseException:
        made.close()
        raise
    return made


def is_numeric(host: str) -> bool:
    """Return True if a host is a numeric address, which needs no name look-up."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host.partition("%")[0])
            return True
    return False


def look_up(host: str, port: int) -> str:
    """Return the numeric address of a host; may block in a DNS query.

    Raises:
        OSError: the host name does not resolve.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    number: str = str(found[0][4][0])
    return number


def dial_tcp(host: str, port: int) -> Socket:
    """Start to connect; `connect_error` gives the result once the socket is writable.

    Raises:
        OSError: the host does not exist, or is unreachable.
    """
    family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        _hasten(made)
        code = made.connect_ex(place)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
        _keep_warm(made, place)
    except BaseException:
        made.close()
        raise
    return made


def wait_to_read(descriptor: int, timeout_s: float) -> None:
    """Wait until a descriptor is readable or the time is up; open no descriptor."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    poller.poll(min(timeout_s * 1000, _INT_MAX))


def connect_error(connecting: Socket) -> OSError | None:
    """Return the error of a failed connect, or None if the connect succeeded."""
    code = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return OSError(code, os.strerror(code)) if code else None


def _ipc_socket() -> Socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.setblocking(False)
    return made


def _hasten(made: Socket) -> None:
    """Send small messages without delay: each is complete, and a receiver waits for it.

    Over a UNIX socket, quadruple the send buffer. The kernel reports the socket
    writable only when three quarters of the buffer are free. So the writer waits a
    quarter as often, and the remaining quarter keeps the reader busy until more data
    arrives.
    """
    if made.family != socket.AF_UNIX:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    elif made.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < 2 * _IPC_BYTES:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _IPC_BYTES)


def _keep_warm(made: Socket, other: Sequence[object]) -> None:
    """Bound the send buffer of TCP to this machine, so that the data stays in a cache.

    By default the kernel queues so much that the reader fetches all of it from memory,
    which halves the rate of long messages. A path through a network needs the buffer
    size that the kernel determines by itself.
    """
    if made.family != socket.AF_UNIX and made.getsockname()[0] == other[0]:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _WARM_BYTES)


def credentials_of(connected: Socket) -> Credentials | None:
    """Return the credentials of the peer, or None if this is no UNIX socket."""
    if connected.family != socket.AF_UNIX:
        return None
    packed = connected.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    return Credentials(*_CREDENTIALS.unpack(packed))


def shake_hands(secured: TlsSocket) -> int:
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
        socket.MSG_CMSG_CLOEXEC | AT_ONCE,
    )
    fds = array.array(_FDS.typecode)
    for level, kind, packed in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(packed[: len(packed) - len(packed) % _FDS.itemsize])
    return data, list(fds)


class SocketFailure(Exception):  # noqa: N818 # the error is what it has
    """A failure of a socket that nothing else reports.

    error: the error of the socket.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error: OSError = error


class Sleeper:
    """A parker that also wakes when a descriptor is readable; see `parking.Parker`.

    The only wait apart from `queuebroker._sync.park`: a receiver whose peer is in
    another process sleeps on its own socket, so no thread has to wake it. `renew`
    readies it again, under the lock under which it is released. It may block in a plain
    socket once that socket was attached: see `AT_ONCE`.

    If events arrive soon, time after time, it spins for a moment before it sleeps: see
    `AdaptiveSpin`.
    """

    __slots__ = (
        "_adaptive_spin",
        "_at",
        "_poller",
        "_rung",
        "_shared_parker",
        "_shared_parkers",
        "_watches",
    )

    def __init__(self) -> None:
        # The event descriptor, until `close`. One call in C creates and stores it, so
        # that no interrupt can lose it.
        self._shared_parkers: list[int] = []
        self._shared_parkers.extend(map(os.eventfd, (0,), (_SHARED_PARKER,)))
        [self._shared_parker] = self._shared_parkers
        self._rung = False
        self._at: Socket | None = None  # the socket it blocks in first
        self._adaptive_spin: Final = AdaptiveSpin()
        # With one processor the peer cannot reply before this sleeps.
        self._watches: Final = processors() > 1
        self._poller = select.poll()
        self._poller.register(self._shared_parker, select.POLLIN)

    def renew(self) -> Sleeper:
        """Mark this as not released; return it."""
        if self._rung:
            # In this order: no interrupt is raised before the read is done, and an
            # interrupt after the read finds the state complete.
            self._rung = False
            os.eventfd_read(self._shared_parker)
        return self

    def locked(self) -> bool:
        """Return True if this was not released yet."""
        return not self._rung

    def release(self) -> None:
        """Wake the thread that sleeps on this."""
        if not self._rung:
            self._rung = True
            os.eventfd_write(self._shared_parker, 1)

    def attach(self, at: Socket) -> None:
        """Wake also when this socket is readable or has ended."""
        self._poller.register(at, select.POLLIN)
        if not isinstance(at, TlsSocket):  # MSG_PEEK would miss deciphered bytes
            at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
            at.setblocking(True)
            self._at = at

    def detach(self, at: Socket) -> None:
        """Stop waking for this socket."""
        self._at = None
        with contextlib.suppress(KeyError):  # an interrupt came before `attach`
            self._poller.unregister(at)

    def sleep(
        self, deadline: float | None, *, alone: bool = True, answered: bool = False
    ) -> None:
        """Sleep until an event wakes this, or until a point on the monotonic clock.

        alone: True to block in the socket alone first, the usual source of the wake-up.
          To wait for two descriptors costs up to a third of a round trip. A `release`
          is noticed when that first wait ends, within milliseconds.
        answered: True if the awaited message may be the reply to a message just sent.
          If the peer does not wait for this side, spinning gains nothing.

        Raises:
            SocketFailure: the socket has failed.
        """
        began, adaptive_spin = _sync.monotonic(), self._adaptive_spin
        if answered and adaptive_spin.due and self._watches:
            until = began + AWAKE_S
            came = self._watched(until if deadline is None else min(until, deadline))
            # The spin may end late, because other threads held the interpreter lock.
            adaptive_spin.record_spin(came=came and _sync.monotonic() <= until)
            if came:
                return
        if self._sleep(deadline, alone=alone):
            adaptive_spin.record_sleep(_sync.monotonic() - began)

    def _watched(self, until: float) -> bool:
        # Not `_sync.spin`, which yields: two processes that answer each other would
        # stay on one processor, each until the other yields. Other threads of this
        # process run meanwhile, because each poll releases the interpreter lock.
        stirs = self._poller.poll
        while not stirs(0):
            if _sync.monotonic() >= until:
                return False
        return True

    def _sleep(self, deadline: float | None, *, alone: bool) -> bool:
        """Sleep as `sleep` does; return True if an event woke this."""
        at = self._at
        if (
            alone
            and at is not None
            and not self._rung
            and (deadline is None or deadline - _sync.monotonic() > _PATIENCE_MAX_S)
        ):
            try:
                at.recv(1, socket.MSG_PEEK)
            except OSError as error:
                trace = error.__traceback__
                if trace is not None and trace.tb_next is not None:
                    raise  # from a signal handler
                if not isinstance(error, BlockingIOError):  # else nothing came so far
                    raise SocketFailure(error) from None
            else:
                return True
        if deadline is None:
            return bool(self._poller.poll())
        rest_s = max(0.0, deadline - _sync.monotonic())
        return bool(self._poller.poll(min(rest_s * 1000, _INT_MAX)))

    def close(self) -> None:
        """Close the event descriptor."""
        while self._shared_parkers:
            os.close(self._shared_parkers.pop())

    def __del__(self) -> None:
        # An interrupt may have hit the thread that created this, or was about to store
        # it.
        for shared_parker in getattr(self, "_shared_parkers", ()):
            os.close(shared_parker)


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def tls_context(
    *,
    server: bool,
    certificate: str | None,
    key: str | None,
    authority: str | None,
) -> TlsContext:
    """Return a TLS 1.3 context with this side's certificate and its trusted authority.

    A client without ``authority`` trusts the authorities of the system. A server
    without it accepts every client, and requests no certificate.

    Raises:
        OSError: a file is missing or malformed.
    """
    made = ssl.SSLContext(
        ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT
    )
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    if certificate is not None:
        made.load_cert_chain(certificate, key)
    if authority is not None:
        made.load_verify_locations(authority)
        made.verify_mode = ssl.CERT_REQUIRED
    elif not server:
        made.load_default_certs()
    return made


def common_name(secured: TlsSocket) -> str | None:
    """Return the common name in the certificate of the peer."""
    shown = secured.getpeercert() or {}
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", shown.get("subject", ()))
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[0] if names else None


def is_no_tls(error: OSError) -> bool:
    """Return True if a handshake failed because the peer does not speak TLS."""
    return isinstance(error, ssl.SSLError) and error.reason in _NO_TLS


def is_in_use(error: OSError) -> bool:
    """Return True if a bind failed because the address is in use."""
    return error.errno == errno.EADDRINUSE


def identity_of(path: Path) -> tuple[int, int]:
    """Return a key that distinguishes a file from any later file of the same name."""
    status = path.lstat()
    return status.st_dev, status.st_ino


def unlink_if(path: Path, identity: tuple[int, int]) -> None:
    """Remove a file if it still has the given identity."""
    try:
        if identity_of(path) == identity:
            path.unlink()
    except OSError:
        return  # another process removed it first


def secure(
    context: TlsContext, plain: Socket, *, server: bool, host: str | None = None
) -> TlsSocket:
    """Put TLS over a connected socket; the handshake is still to be done."""
    return context.wrap_socket(
        plain,
        server_side=server,
        do_handshake_on_connect=False,
        suppress_ragged_eofs=False,
        server_hostname=host,
    )


def start_process(
    command: Sequence[str], environment: Mapping[str, str]
) -> Process[bytes]:
    """Start a program with a pipe to its ``stdin``.

    It runs in a process group of its own: Ctrl-C at the terminal reaches only this
    process, which ends the program by closing that ``stdin``.

    Raises:
        OSError: the program cannot be started.
    """
    return Process(command, stdin=subprocess.PIPE, env=environment, process_group=0)


def exit_code_of(process: Process[bytes], timeout_s: float) -> int | None:
    """Wait for the end of a program; return its exit code, or None if time is up."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
