"""`StreamConnection`: a pipe over TCP or a UNIX socket.

The driver of this process calls it when its descriptor is ready. A thread that sends
writes by itself, if no other thread does: a lone message takes no other thread, and
messages in quick succession share a system call.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from typing import Protocol as Seam

from bus.errors import WireError
from bus.pattern import native
from bus.pattern.drop_reason import DropReason
from bus.pattern.framing import NativeFraming, Pair1Framing, PlainFraming
from bus.pattern.native import Hello
from bus.pattern.protocol import Protocol, ProtocolState
from bus.pattern.socket_url import Transport
from bus.pattern.stream_writer import StreamWriter
from bus.pattern.wire import EndpointType, frame_head
from queuebroker import _net, _sync
from queuebroker.sockets.memory import keep_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.pattern.framing import Framing, Pieces
    from bus.pattern.message_run import MessageRun
    from bus.pattern.native import Control
    from bus.pattern.node import Node
    from bus.pattern.pipe import Pipe
    from bus.pattern.send_queue import SendQueue
    from bus.pattern.socket_url import SocketUrl
    from queuebroker._net import Socket
    from queuebroker.sockets.driver import Driver

__all__ = ["ConnectionHost", "StreamConnection"]

# The most bytes of one read, usually and in the middle of a long message; of several
# reads before other descriptors have their turn.
_READ_BYTES: Final = 1 << 16
_LONG_READ_BYTES: Final = 1 << 20
_TURN_BYTES: Final = 1 << 18
# How long a dialler waits for the first bytes of a listener, before it assumes one that
# waits for its own, in seconds: longer over a slow path, by round trips. It stays below
# the second that nanomsg allows.
_GRACE_S: Final = 0.25
_GRACE_ROUND_TRIPS: Final = 2
_GRACE_MAX_S: Final = 0.9
# How soon a native peer gets the accounts of this end, in seconds, unless it asks.
_REPORT_S: Final = 0.1
_HOPS_MAX: Final = 8
# Before the body of a PAIR1 message; around a long message, or of a run of short ones.
_HOPS_BYTES: Final = 4
_RUN_BYTES_MAX: Final = 1 << 17


class ConnectionHost(Seam):
    """The dialler or the listener of a connection; called by the driver."""

    def on_open(self, connection: StreamConnection, /) -> None:
        """Note that the handshake is complete."""

    def on_end(
        self, connection: StreamConnection, error: BaseException | None, /
    ) -> None:
        """Note the end, with its reason; None if this end was closed."""


class StreamConnection:
    """One connection of a node; a `Carrier` and a `Handler`.

    Args:
        socket: non-blocking, and connected; for a dialler of TCP it may be connecting.
        driver: held for this connection; released at its end.
        host: gets the events of the connection.
        url: the address of the peer.
        native: the endpoint type among sockets of this package, as for `Protocol`.
        dials: True for the end that dialled.

    Attributes:
        queue: the frames that wait.

    The driver's thread reads. Any thread writes: see `StreamWriter`.
    """

    def __init__(
        self,
        node: Node,
        socket: Socket,
        driver: Driver,
        host: ConnectionHost,
        url: SocketUrl,
        *,
        native: EndpointType | None,
        dials: bool,
    ) -> None:
        config = node.config
        self._node: Final = node
        self._socket: Final = socket
        self._descriptor: Final = socket.fileno()
        self._driver: Final = driver
        self._host: Final = host
        self._url: Final = str(url)
        self._is_ipc: Final = url.transport.is_local
        self._dials: Final = dials
        self._is_connecting = dials and url.transport is Transport.TCP
        limit = config.message_bytes
        hops_bytes = _HOPS_BYTES if node.endpoint is EndpointType.PAIR1 else 0
        self._protocol: Final = Protocol(
            node.endpoint,
            native,
            dials=dials,
            is_ipc=self._is_ipc,
            bytes_max=limit and limit + hops_bytes,
            native_bytes_max=limit and limit + _RUN_BYTES_MAX,
        )
        keep_memory()  # else each read and each run pays for fresh pages
        self._framing: Framing = PlainFraming()
        self._pipe: Pipe | None = None
        self._began: Final = _sync.monotonic()
        self._is_closing: bool = False
        self._ended: bool = False
        self._is_paused: bool = False  # nothing is read, until `resume`
        self._owes_report: bool = False  # until the peer takes more
        self._reported: tuple[Control, ...] = ()  # the accounts that the peer has
        self._writer: Final = StreamWriter(
            socket,
            config,
            is_ipc=self._is_ipc,
            await_room=self._watch,
            fail=self._fail_soon,
        )
        self.queue: Final[SendQueue[Pieces]] = self._writer.queue

    def begin(self) -> None:
        """Serve the connection; in the thread of the driver.

        Raises:
            OSError: the system can watch no more descriptors.
        """
        mask = _net.WRITE if self._is_connecting else _net.READ
        self._driver.register(self._descriptor, self, mask)
        self._call_later(self._node.config.handshake_s, StreamConnection._expire)
        if not self._is_connecting:
            self._shake_hands()

    def _call_later(
        self, seconds: float, method: Callable[[StreamConnection], object]
    ) -> None:
        """Call a method in the driver's thread, unless this is collected before."""
        # Not `self`: a timer would keep a closed socket, and its descriptor for
        # selectors, until it is due.
        known, driver = weakref.ref(self), self._driver

        def call() -> None:
            connection = known()
            if connection is not None:
                driver.call(partial(method, connection), connection)

        driver.at(_sync.monotonic() + seconds, call)

    def _shake_hands(self) -> None:
        """Send the bytes of the handshake; a few bytes always have room."""
        if data := self._protocol.data_to_send():
            self._socket.send(data, _net.AT_ONCE)
        if self._dials and self._protocol.state is ProtocolState.HANDSHAKE:
            grace_s = _GRACE_S + _GRACE_ROUND_TRIPS * (_sync.monotonic() - self._began)
            self._call_later(
                min(grace_s, _GRACE_MAX_S), StreamConnection._state_plain_type
            )

    def _state_plain_type(self) -> None:
        if not self._ended:
            self._protocol.state_plain_type()
            if data := self._protocol.data_to_send():
                try:
                    self._socket.send(data, _net.AT_ONCE)
                except OSError as error:
                    self._end(error)

    def _expire(self) -> None:
        if self._pipe is None and not self._ended:
            self._end(TimeoutError("the peer has not completed the handshake in time"))

    @property
    def was_mistaken(self) -> bool:
        """True if the peer was wrongly taken for a socket of this package."""
        # Not once both have stated it: then the node refuses the peer, which may be the
        # node itself, and a plain connection would carry its messages back to it.
        return self._protocol.agreed is None and self._protocol.states_native

    # For the driver.

    def ready(self, mask: int) -> None:
        """Read and write without blocking."""
        try:
            if self._is_connecting:
                self._on_connected()
                return
            if mask & _net.WRITE:
                self.queue.unblock()
                self._node.on_room()
                if self._owes_report:
                    self._owes_report = False
                    self._report()
            if mask & ~_net.WRITE:
                self._read()
        except (OSError, WireError) as error:
            if self._pipe is None:
                with suppress(OSError):  # the peer may be gone
                    self._socket.send(self._protocol.data_to_send(), _net.AT_ONCE)
            self._end(error)

    def _on_connected(self) -> None:
        _net.check_connected(self._socket)
        self._is_connecting = False
        self._driver.watch(self._descriptor, _net.READ)
        self._shake_hands()

    def _read(self) -> None:
        """Read the bytes that are there; hand over all messages at once, in order."""
        frames: list[bytes] = []
        try:
            self._read_into(frames)
        finally:  # also those before an end or a fault
            if frames and self._pipe is not None:
                self._receive(self._pipe, frames)

    def _read_into(self, frames: list[bytes]) -> None:
        """Read until there is no more for now; append the frames."""
        size, left = _READ_BYTES, _TURN_BYTES
        while left > 0 and not self._ended:
            if self._pipe is not None and self._node.pauses(self._pipe):
                if not self._is_paused:
                    self._is_paused = True
                    self._watch()
                return
            try:
                data = self._socket.recv(size, _net.AT_ONCE)
            except _net.WOULD_BLOCK:
                return
            if not data:
                raise ConnectionResetError("the peer has closed the connection")
            left -= len(data)
            frames += self._protocol.receive_data(data)
            if self._pipe is None:
                self._continue_handshake(frames)
            if len(data) < size:
                return
            size = _LONG_READ_BYTES if self._protocol.is_midway else _READ_BYTES

    def _continue_handshake(self, frames: list[bytes]) -> None:
        if data := self._protocol.data_to_send():
            self._socket.send(data, _net.AT_ONCE)
        if self._protocol.agreed is not None:
            self._open(frames)

    def _receive(self, pipe: Pipe, frames: Sequence[bytes]) -> None:
        runs, controls = self._framing.read(frames, pipe.origin)
        if runs:
            self._node.accept(pipe, runs)
        for control in controls:
            if isinstance(control, Hello):
                raise WireError("native peer has sent a second hello")
            asks = control == pipe.remote_sent
            self._node.on_account(pipe, control)
            if asks:
                self._report()
        framing = self._framing
        if isinstance(framing, Pair1Framing) and framing.dropped:
            with self._node.lock:
                self._node.ledger.add_locked(pipe, DropReason.HOPS, framing.dropped)
            framing.dropped = 0
            self._node.ledger.report()

    def _open(self, frames: list[bytes]) -> None:
        """Add the pipe, once the handshake and a hello are here; remove the hello."""
        node = None
        if self._protocol.agreed is EndpointType.NATIVE_BUS:
            if not isinstance(self._framing, NativeFraming):
                self._framing = NativeFraming(self._node.config.message_bytes)
                self._put_controls(Hello(self._node.id))
            if not frames:
                return
            hello = native.decode(frames.pop(0))
            if not isinstance(hello, Hello):
                raise WireError("native peer has not sent a hello first")
            node = hello.node
        elif self._protocol.agreed is EndpointType.PAIR1:
            self._framing = Pair1Framing(_HOPS_MAX)
        pipe = self._node.add_pipe(self, self._url, node)
        if pipe is None:
            raise ConnectionRefusedError("the socket takes no further connection")
        self._pipe = pipe
        self._host.on_open(self)

    def fail(self, error: BaseException) -> None:
        """End the connection because of an error of this process."""
        self._end(error)

    abort = fail

    @property
    def is_ending(self) -> bool:
        """True once it is closed, though perhaps not yet by the driver."""
        return self._is_closing

    def abandon_after_fork(self) -> None:
        """Abandon the descriptor: it belongs to the parent."""
        self._ended = True
        self._socket.close()
        self._node.abandon_after_fork()

    def _end(self, error: BaseException | None) -> None:
        if self._ended:
            return
        self._ended = True
        self._driver.unregister(self._descriptor)
        # First: no later write changes how many messages the system has taken, nor goes
        # to a descriptor that has become another file's.
        self._writer.queue.stop(self._socket.close)
        try:
            if self._pipe is not None:
                self._node.remove_pipe(self._pipe)
        finally:  # `on_drop` may have raised `SystemExit`
            self._driver.release()
            self._host.on_end(self, error)

    # For the node.

    def put(self, run: MessageRun) -> int:
        """Queue messages, as many as there is room for; return how many."""
        return self.queue.put(run, self._encode)

    def _encode(self, run: MessageRun) -> Pieces:
        return self._framing.encode(run, is_ipc=self._is_ipc)

    @property
    def is_idle(self) -> bool:
        """True if nothing waits, and a native peer has confirmed all that was sent."""
        # The order matters: the frame that a writing thread holds is at first in
        # neither of the two.
        if not (self._writer.is_idle and self.queue.is_idle):
            return False
        return self._pipe is None or self._pipe.node is None or self._pipe.has_arrived

    def flush_soon(self, flush: Callable[[], object], delay_s: float = 0.0) -> None:
        """Have the driver call ``flush``: one system call carries many messages."""
        if delay_s:
            self._driver.at(_sync.monotonic() + delay_s, flush, self)
        else:
            self._driver.call(flush, self)

    def report(self) -> None:
        """Send the accounts of this end soon; for any thread."""
        self._call_later(_REPORT_S, StreamConnection._on_report_due)

    def ask(self) -> None:
        """Ask a native peer for its accounts; for any thread."""
        if not self.is_idle:
            self._driver.call(partial(self._report, asks=True), self)

    def refresh(self) -> None:
        """Do nothing: the peer sends its account by itself."""

    @property
    def is_open(self) -> bool:
        """True from the end of the handshake until the end of the connection."""
        return self._pipe is not None and not self._ended

    def _on_report_due(self) -> None:
        if self._pipe is not None:
            with self._node.lock:  # before the report: a later change is due again
                self._pipe.is_report_due = False
        self._report()

    def _report(self, *, asks: bool = False) -> None:
        """Send the accounts that have changed; ``asks``: request those of the peer."""
        if self.queue.blocked:
            # Once there is room: frames without messages have no bound, and an account
            # replaces the earlier ones.
            self._owes_report = True
        elif self._pipe is not None and self._pipe.node is not None and not self._ended:
            accounts = self._node.accounts_of(self._pipe)
            controls = [each for each in accounts if each not in self._reported]
            self._reported = accounts
            if asks:
                controls.append(accounts[0])
            if controls:
                self._put_controls(*controls)

    def _put_controls(self, *controls: Control) -> None:
        """Send frames without messages, in one write with all that wait."""
        frames = [native.encode(control) for control in controls]
        self.queue.put_control(
            b"".join([frame_head(len(f), is_ipc=self._is_ipc) + f for f in frames])
        )
        self.queue.flush()
        self._node.on_room()

    def resume(self) -> None:
        """Read again; for any thread."""
        self._driver.call(self._resume, self)

    def _resume(self) -> None:
        if self._is_paused and not self._ended:
            self._is_paused = False
            self._watch()
            self.ready(_net.READ)

    def close(self) -> None:
        """End the connection; for any thread."""
        self._is_closing = True
        self._driver.call(self._finish, self)

    def _finish(self) -> None:
        if not self._ended:
            self._report()  # a last account, if there is room for it
        self._end(None)

    def _watch(self) -> None:
        """Have the driver report the events that this waits for."""
        with suppress(OSError, ValueError):  # closed just now
            self._watch_now()

    def _watch_now(self) -> None:
        # Again after each change by another thread, whose call may have come first.
        mask = -1
        while mask != (wanted := self._mask()):
            mask = wanted
            self._driver.watch(self._descriptor, mask)

    def _mask(self) -> int:
        if self._writer.awaits_room:
            return _net.WRITE if self._is_paused else _net.READ | _net.WRITE
        # The system reports the end of a connection also if nothing is asked for, and
        # again at once: nothing reads the end until `resume`.
        return _net.ONCE if self._is_paused else _net.READ

    def _fail_soon(self, error: BaseException) -> None:
        self._driver.call(partial(self._end, error), self)
