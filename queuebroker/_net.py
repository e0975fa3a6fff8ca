"""The only door to sockets, TLS, descriptors, processes and the kernel's readiness.

All sockets that come out of here are non-blocking and close on exec. What the platform
answers in numbers is turned into values here; what is an error stays an `OSError`, and
those who ask say what it means.
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
from queuebroker.vigil import AWAKE_S, Vigil

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
refuse_green_threads()  # they take `epoll` away
if not hasattr(select, "epoll"):
    raise ImportError(
        "a bus and queuebroker.sockets need Linux: there is no epoll here"
    )
Poller = select.epoll
Process = subprocess.Popen

READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT
# Goes with every call on a plain socket, since a `Sleeper` may wait in that one.
AT_ONCE: Final = socket.MSG_DONTWAIT
# What a non-blocking socket raises that can do no more now.
WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
ENDED: Final = select.EPOLLHUP | select.EPOLLERR
ONCE: Final = select.EPOLLONESHOT  # with nothing else: only an end is told of, and once

# What the kernel has room for, the zero at the end not counted.
PATH_BYTES_MAX: Final = 107

# For how long who waits at a socket waits for nothing else, as `struct timeval`; and
# how long that may be where the kernel counts in hundredths of a second.
_PATIENCE: Final = struct.pack("@ll", 0, 2_000)
_PATIENCE_MAX_S: Final = 12e-3
_BELL: Final = os.EFD_CLOEXEC | os.EFD_NONBLOCK
# The peer has ended the connection, in order or not.
TLS_ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
# The reasons that OpenSSL gives for an answer that is not TLS.
_NO_TLS: Final = (
    *("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"),
    *("HTTP_REQUEST", "UNKNOWN_PROTOCOL", "UNSUPPORTED_PROTOCOL"),
)
_CREDENTIALS: Final = struct.Struct("3i")
_FDS: Final = array.array("i")
# The largest number that the system takes for a timeout in milliseconds, or a backlog.
_INT_MAX: Final = 2**31 - 1
# The longest timeout that `Poller.poll` accepts, in seconds.
POLL_S_MAX: Final = float(_INT_MAX // 1000)
# What may wait for a reader on this machine, over TCP and over UNIX sockets. The kernel
# sets aside twice what it is asked for, but no more than its administrator lets it
# (`net.core.wmem_max`, 212,992 by default): a larger number is no error.
_WARM_BYTES: Final = 1 << 18
_IPC_BYTES: Final = 425_984
# For how long a folder is tried to be locked, which others do for less than a
# millisecond.
_LOCK_TRIES: Final = 400
_LOCK_PAUSE_MS: Final = 5


@attrs.frozen(slots=True)
class Credentials:
    """Who is at the other end of a UNIX socket, as the kernel says."""

    pid: int
    uid: int
    gid: int


def listen_ipc(path: Path, *, mode: int, backlog: int) -> Socket:
    """Listen at a path that only those whom ``mode`` admits can connect to.

    A file left behind by a process that is gone is replaced.

    Raises:
        OSError: EADDRINUSE if somebody listens there, or it is no socket.
        TimeoutError: see `folder_locked`.
    """
    # One at a time in a folder: between its bind and its listen a socket looks like one
    # that was left behind.
    with folder_locked(path.parent):
        made = _ipc_socket()
        try:
            remove_left_behind(path)
            made.bind(os.fspath(path))
            # Before the first who connects: until it listens nobody can.
            path.chmod(mode)
            made.listen(min(backlog, _INT_MAX))
        except BaseException:
            made.close()
            raise
    return made


@contextlib.contextmanager
def folder_locked(path: Path) -> Iterator[None]:
    """Keep others from listening in a folder, or sweeping there, for a moment.

    Raises:
        TimeoutError: somebody keeps it longer than it takes, such as a process that was
            stopped just then.
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
    raise TimeoutError(errno.ETIMEDOUT, "somebody keeps it locked", str(path))


def remove_left_behind(path: Path) -> None:
    """Remove a socket that nobody listens at; under `folder_locked`."""
    if _is_left_behind(path):
        path.unlink()


def _is_left_behind(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode) and not is_listened_at(path)
    except FileNotFoundError:
        return False


def is_listened_at(path: Path) -> bool:
    """Whether a process listens at a path."""
    with _ipc_socket() as probe:
        return probe.connect_ex(os.fspath(path)) in (0, errno.EAGAIN)


def listen_tcp(host: str, port: int, *, backlog: int) -> Socket:
    """Listen at a port of this machine, 0 for one that is free."""
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
    """Return who connected, None if nobody did, or is there no more."""
    try:
        made, _ = listening.accept()
    except (BlockingIOError, ConnectionAbortedError, InterruptedError):
        return None
    with contextlib.suppress(OSError):  # it has gone again
        made.setblocking(False)
        _hasten(made)
        _keep_warm(made, made.getpeername())
    return made


def dial_ipc(path: Path) -> Socket:
    """Connect to a path, at once.

    Raises:
        OSError: ECONNREFUSED, ENOENT: nobody listens there. EAGAIN: try again.
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
    """Whether a host is numeric, so that it needs no name look-up."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host.partition("%")[0])
            return True
    return False


def look_up(host: str, port: int) -> str:
    """Return the numeric address of a host; may block as long as the network takes.

    Raises:
        OSError: the host name does not resolve.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    number: str = str(found[0][4][0])
    return number


def dial_tcp(host: str, port: int) -> Socket:
    """Begin to connect; once the socket is writable, `connect_error` tells how it went.

    Raises:
        OSError: there is no such host, or no way to it.
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
    """Wait until a descriptor is readable or the time is up; opens no descriptor."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    poller.poll(min(timeout_s * 1000, _INT_MAX))


def connect_error(connecting: Socket) -> OSError | None:
    """Return why a connect failed, None if it did not."""
    code = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return OSError(code, os.strerror(code)) if code else None


def _ipc_socket() -> Socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.setblocking(False)
    return made


def _hasten(made: Socket) -> None:
    """Let small messages go at once: they are whole, and somebody waits for them.

    Over a UNIX socket up to four times as much as usual may wait for its reader: who
    writes is told that there is room only once three quarters are free, and so waits a
    quarter as often, and what is left is enough for the reader until there is more.
    """
    if made.family != socket.AF_UNIX:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    elif made.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < 2 * _IPC_BYTES:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _IPC_BYTES)


def _keep_warm(made: Socket, other: Sequence[object]) -> None:
    """Let what goes over TCP to this very machine be read while a cache holds it.

    Left to itself the kernel lets so much wait that all of it comes from memory again,
    which halves the rate of long messages. A path through a network needs what the
    kernel finds out by itself.
    """
    if made.family != socket.AF_UNIX and made.getsockname()[0] == other[0]:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _WARM_BYTES)


def credentials_of(connected: Socket) -> Credentials | None:
    """Return who is at the other end, None if that is no UNIX socket."""
    if connected.family != socket.AF_UNIX:
        return None
    packed = connected.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    return Credentials(*_CREDENTIALS.unpack(packed))


def shake_hands(secured: TlsSocket) -> int:
    """Go on with a TLS handshake; return what to wait for, 0 when it is done.

    Raises:
        OSError: the other side is not what it should be, or gone.
    """
    try:
        secured.do_handshake()
    except ssl.SSLWantReadError:
        return READ
    except ssl.SSLWantWriteError:
        return WRITE
    return 0


def send_with_fds(connected: Socket, data: Buffer, fds: Sequence[int]) -> int:
    """Write some of ``data`` and with its first byte the descriptors."""
    # Not by `socket.send_fds`, which forgets the flags.
    ancillary = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array(_FDS.typecode, fds))
    return connected.sendmsg([data], [ancillary], AT_ONCE)


def receive_with_fds(
    connected: Socket, size: int, most: int
) -> tuple[bytes, list[int]]:
    """Read some bytes and the descriptors that came with them, ``most`` at most.

    They are closed on exec. Those for which there was no room the kernel has closed.
    """
    # Not by `socket.recv_fds`, which forgets them, too.
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
    """A socket has failed, and told nobody else of it.

    error: what it has failed with.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error: OSError = error


class Sleeper:
    """A parker that also wakes when a descriptor is readable; see `parking.Parker`.

    The one wait beside `queuebroker._sync.park`: a receiver between processes sleeps
    on what wakes it, its socket, and needs no thread to be woken by. Made ready by
    `renew`, under the lock under which it is released. A plain socket that it was
    attached to may be waited in from then on: see `AT_ONCE`.

    Where what it waits for comes soon, time after time, it stays awake for a moment
    first: see `Vigil`.
    """

    __slots__ = ("_at", "_bell", "_bells", "_poller", "_rung", "_vigil", "_watches")

    def __init__(self) -> None:
        # The bell, until it is closed. One call makes it and keeps it: no interrupt
        # comes in between.
        self._bells: list[int] = []
        self._bells.extend(map(os.eventfd, (0,), (_BELL,)))
        [self._bell] = self._bells
        self._rung = False
        self._at: Socket | None = None  # which it waits in first
        self._vigil: Final = Vigil()
        # On one processor nobody answers before this sleeps.
        self._watches: Final = processors() > 1
        self._poller = select.poll()
        self._poller.register(self._bell, select.POLLIN)

    def renew(self) -> Sleeper:
        """Be asleep again; return this."""
        if self._rung:
            # In this order: no interrupt strikes before the read is done, and one that
            # strikes then finds all of it done.
            self._rung = False
            os.eventfd_read(self._bell)
        return self

    def locked(self) -> bool:
        """Whether it was not released yet."""
        return not self._rung

    def release(self) -> None:
        """Wake who sleeps on it."""
        if not self._rung:
            self._rung = True
            os.eventfd_write(self._bell, 1)

    def attach(self, at: Socket) -> None:
        """Wake also when this socket is readable, or has ended."""
        self._poller.register(at, select.POLLIN)
        if not isinstance(at, TlsSocket):  # what that deciphered no peek would see
            at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
            at.setblocking(True)
            self._at = at

    def detach(self, at: Socket) -> None:
        """Do not wake for it any more."""
        self._at = None
        with contextlib.suppress(KeyError):  # an interrupt came before `attach`
            self._poller.unregister(at)

    def sleep(
        self, deadline: float | None, *, alone: bool = True, answered: bool = False
    ) -> None:
        """Sleep until something wakes this, or a point on the monotonic clock.

        alone: at first in the socket alone, which is what nearly always wakes it: to
          wait for two things costs up to a third of a round trip. A `release` is
          noticed when that is over, within milliseconds.
        answered: whether what is waited for may be the answer to what was just sent;
          where nobody waits for anybody, to stay awake gains nothing.

        Raises:
            SocketFailure: the socket has failed.
        """
        began, vigil = _sync.monotonic(), self._vigil
        if answered and vigil.due and self._watches:
            until = began + AWAKE_S
            came = self._watched(until if deadline is None else min(until, deadline))
            # A look may have taken long: other threads had the interpreter.
            vigil.kept(came=came and _sync.monotonic() <= until)
            if came:
                return
        if self._sleep(deadline, alone=alone):
            vigil.slept(_sync.monotonic() - began)

    def _watched(self, until: float) -> bool:
        # Not by `_sync.glance`: to yield would keep two processes that answer each
        # other on one processor, each until the other yields. Other threads of this
        # one run meanwhile: each look lets go of the interpreter lock.
        stirs = self._poller.poll
        while not stirs(0):
            if _sync.monotonic() >= until:
                return False
        return True

    def _sleep(self, deadline: float | None, *, alone: bool) -> bool:
        """Sleep as `sleep` does; return whether anything woke it."""
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
                    raise  # by the handler of a signal
                if not isinstance(error, BlockingIOError):  # else nothing came so far
                    raise SocketFailure(error) from None
            else:
                return True
        if deadline is None:
            return bool(self._poller.poll())
        rest_s = max(0.0, deadline - _sync.monotonic())
        return bool(self._poller.poll(min(rest_s * 1000, _INT_MAX)))

    def close(self) -> None:
        """Give the descriptor back."""
        while self._bells:
            os.close(self._bells.pop())

    def __del__(self) -> None:
        # Whoever had just got it, or made it, may have been struck.
        for bell in getattr(self, "_bells", ()):
            os.close(bell)


def processors() -> int:
    """Return how many processors this process may use."""
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
    """Return a context for TLS 1.3: what this side shows, and whom it believes.

    A client without ``authority`` believes those that the system does; a server without
    it believes everybody, and asks for no certificate.

    Raises:
        OSError: a file is not there, or does not hold what it should.
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
    """Return the common name in the certificate that the other side has shown."""
    shown = secured.getpeercert() or {}
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", shown.get("subject", ()))
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[0] if names else None


def is_no_tls(error: OSError) -> bool:
    """Whether a handshake failed because the peer does not speak TLS."""
    return isinstance(error, ssl.SSLError) and error.reason in _NO_TLS


def is_in_use(error: OSError) -> bool:
    """Whether an address could not be had because somebody has it."""
    return error.errno == errno.EADDRINUSE


def identity_of(path: Path) -> tuple[int, int]:
    """Return what tells a file from any other that may get its name."""
    status = path.lstat()
    return status.st_dev, status.st_ino


def unlink_if(path: Path, identity: tuple[int, int]) -> None:
    """Remove a file if it still is the one that is meant."""
    try:
        if identity_of(path) == identity:
            path.unlink()
    except OSError:
        return  # somebody was faster


def secure(
    context: TlsContext, plain: Socket, *, server: bool, host: str | None = None
) -> TlsSocket:
    """Put TLS over a connected socket; the handshake is yet to come."""
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
    """Start a program that reads what its ``stdin`` is given.

    In a process group of its own: a Ctrl-C at the terminal is for this process, which
    ends the other by closing that ``stdin``.

    Raises:
        OSError: it cannot be started.
    """
    return Process(command, stdin=subprocess.PIPE, env=environment, process_group=0)


def exit_code_of(process: Process[bytes], timeout_s: float) -> int | None:
    """Wait for the end of a program; return its exit code, None if time is up."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
