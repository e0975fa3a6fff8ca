"""`SocketSession`: sends lines of stdin on a socket, and prints its messages."""

from __future__ import annotations

import functools
import os
import sys
from collections import Counter, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from bus.cli.exits import FAILED, TIMED_OUT, fail, one_line
from bus.cli.numbers import FiniteRange
from bus.cli.text import to_json
from bus.journal.wording import counted, printable
from bus.pattern.bus_socket import BusSocket
from bus.pattern.drop_reason import DropReason
from bus.pattern.pair_socket import PairSocket
from bus.pattern.socket_config import SocketConfig
from bus.pattern.socket_url import SocketUrl, Transport
from queuebroker import _net, _platform, _sync
from queuebroker.errors import ReceiveTimeoutError, SendTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bus.pattern.dialler import Dialler
    from bus.pattern.pipe import PeerStats

__all__ = ["PRINTERS", "SocketSession", "socket"]

_READ_BYTES: Final = 1 << 16
_PRINT_MAX: Final = 256  # messages before stdin has its turn
# A peer that has more messages than this waiting slows the lines down, so that a file
# does not overflow its queue: for this time at most, in seconds.
_QUEUED_MAX: Final = 256
_PATIENCE_S: Final = 1.0
_TURN_S: Final = 0.02  # between two checks for messages to print meanwhile
# How long the last lines may take to leave, in seconds.
_DRAIN_S: Final = 5.0
_ORDINARY: Final = {DropReason.DUPLICATE, DropReason.REPEAT}  # no message is missing


def _text(body: bytes) -> bytes:
    text = printable(body.decode("utf-8", "backslashreplace"))
    return text.encode(sys.stdout.encoding, "backslashreplace")


def _json(body: bytes) -> bytes:
    try:
        message: str | bytes = body.decode("utf-8")
    except UnicodeDecodeError:
        message = body
    return to_json({"message": message}).encode(sys.stdout.encoding)


# How a message is printed, by the option that selects it.
PRINTERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "": _text,
    "json": _json,
    "hex": lambda body: body.hex().encode(),
    "raw": lambda body: body,
}


def _under_way(peer: PeerStats) -> int:
    """Return how many messages have not left; of a native peer, have not arrived."""
    if not peer.is_native:
        return peer.queued
    arrived = 0 if peer.remote_taken is None else peer.remote_taken.arrived
    return peer.sent - arrived - peer.dropped.get(DropReason.SEND_QUEUE, 0)


def _readable(descriptor: int) -> tuple[int, Callable[[int], bytes]]:
    """Return a descriptor that can be waited for, and a function to read from it.

    Windows waits for sockets alone. There a thread copies the data to one.
    """
    if _platform.SYSTEM != "windows":
        return descriptor, functools.partial(os.read, descriptor)
    reader, writer = _platform.open_pair()
    writer.setblocking(True)

    def copy() -> None:
        with writer, suppress(OSError):  # the verb has ended
            while data := os.read(descriptor, _READ_BYTES):
                writer.sendall(data)

    _sync.Thread(target=copy, name="stdin", daemon=True).start()
    return reader.fileno(), reader.recv


class SocketSession:
    """The lines that a user types, and the messages of the peers.

    Args:
        socket: with a listener or a dialler.
        form: a key of `PRINTERS`.
        count: how many messages to print; None to end at the end of the lines.
        deadline: on the monotonic clock; None for no limit.

    Attributes:
        shown: how many messages were printed.
        failed: True if a line was not sent, or a message was dropped.
    """

    def __init__(
        self,
        socket: BusSocket | PairSocket,
        form: str,
        count: int | None,
        deadline: float | None,
    ) -> None:
        self.shown: int = 0
        self.failed: bool = False
        self._socket: Final = socket
        self._is_hex: Final = form == "hex"
        self._to_line: Final = PRINTERS[form]
        self._count: Final = count
        self._deadline: Final = deadline
        self._input: int | None = None
        self._read_input: Callable[[int], bytes]
        if sys.stdin is not None:
            self._input, self._read_input = _readable(sys.stdin.fileno())
        self._has_ended: bool = sys.stdin is None
        # Only a user who types needs to know of each loss at once.
        self._is_typed: Final = sys.stdin is not None and sys.stdin.isatty()
        self._rest: bytes = b""  # of a line that is not complete
        self._lines: Final[deque[bytes]] = deque()
        self._has_lost_patience: bool = False
        self._reported: Final[Counter[DropReason]] = Counter()

    def wait_for_peer(self) -> bool:
        """Wait for the first peer: a line sent before would reach nobody (BP-5)."""
        return self._socket.wait_for_peers(1, self._left_s())

    def run(self) -> None:
        """Send lines and print messages, to the end of either or the deadline.

        One thread does both: lines that are there when a message arrives are sent
        first, also if it is the last one to be printed.
        """
        while not self._is_over():
            sources = {self._socket.fileno()}
            if self._input is not None and not self._has_ended:
                sources.add(self._input)
            if self._input in _net.wait_to_read_any(sources, self._left_s()):
                self._read()
            while self._lines and self._send(self._lines[0]):
                self._lines.popleft()
            self._print()
            if self._is_typed:
                self._report_drops()
        self._finish()

    def _finish(self) -> None:
        missing = len(self._lines)
        if not self._socket.drain(min(_DRAIN_S, self._left_s())):
            missing += max(map(_under_way, self._socket.stats.peers))
        if missing:
            self._fail(f"{counted(missing, 'message')} not sent: a peer does not read")
        while self._print():
            pass
        self._report_drops()

    def _is_over(self) -> bool:
        if self._is_late():
            return True
        if self._count is not None:
            return self.shown >= self._count
        return self._has_ended

    def _is_late(self) -> bool:
        return self._deadline is not None and not self._left_s()

    def _left_s(self) -> float:
        if self._deadline is None:
            return _sync.WAIT_S_MAX
        return max(0.0, self._deadline - _sync.monotonic())

    # Lines.

    def _read(self) -> None:
        data = self._read_input(_READ_BYTES)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(lines)
        if not data:
            self._has_ended = True
            if self._rest:
                self._lines.append(self._rest)

    def _send(self, line: bytes) -> bool:
        """Send a line; return False if the session ends before that."""
        if self._is_late():
            return False
        if self._is_hex:
            try:
                line = bytes.fromhex(line.decode("ascii"))
            except ValueError:
                shown = printable(line[:40].decode("utf-8", "backslashreplace"))
                self._fail(f"not sent, since it is not hexadecimal: {shown!r}")
                return True
        if isinstance(self._socket, PairSocket):
            return self._send_to_peer(self._socket, line)
        self._socket.send(line)
        self._wait_for_room()
        return True

    def _wait_for_room(self) -> None:
        """Print messages until the peers have read enough of the lines sent to them.

        If a peer reads nothing for `_PATIENCE_S`, do not wait for it again until it
        reads: otherwise every line would be delayed by that time.
        """
        until = _sync.monotonic() + _PATIENCE_S
        while (is_crowded := self._is_crowded()) and not self._has_lost_patience:
            self._socket.drain(_TURN_S)
            self._print()
            self._has_lost_patience = _sync.monotonic() >= until
        if not is_crowded:
            self._has_lost_patience = False

    def _send_to_peer(self, pair: PairSocket, line: bytes) -> bool:
        """Send once the peer has room, and print its messages meanwhile."""
        while not self._is_late():
            try:
                pair.send(line, _TURN_S)
            except SendTimeoutError:
                self._print()
                if self.shown == self._count:
                    return False
            else:
                return True
        return False

    def _is_crowded(self) -> bool:
        return any(peer.queued > _QUEUED_MAX for peer in self._socket.stats.peers)

    # Messages.

    def _print(self) -> bool:
        """Print some messages that have arrived; return False if there were none."""
        lines = []
        for _ in range(_PRINT_MAX):
            if self.shown == self._count:
                break
            try:
                lines.append(self._to_line(self._socket.receive_nowait()))
            except ReceiveTimeoutError:
                break
            self.shown += 1
        if lines:
            click.echo(b"\n".join(lines))
        return bool(lines)

    def _report_drops(self) -> None:
        """Report messages that were dropped since the last call."""
        dropped = self._socket.stats.dropped
        for reason, count in dropped.items():
            lost = count - self._reported[reason]
            if lost and reason not in _ORDINARY:
                self._reported[reason] = count
                self._fail(f"{counted(lost, 'message')} dropped: {reason.value}")

    def _fail(self, problem: str) -> None:
        self.failed = True
        click.echo(f"bus: {problem}", err=True)


# Messages that arrive while the terminal is slow; the others are dropped (BP-6).
_CONFIG: Final = SocketConfig(receive_messages=1 << 16, receive_bytes=64 << 20)
_MULTICAST: Final = frozenset({Transport.MULTICAST})
_STREAMS: Final = frozenset(Transport) - {Transport.MULTICAST, Transport.INPROC}


@click.group(epilog="Example: bus socket listen tcp://127.0.0.1:5555")
def socket() -> None:
    """Send lines to other programs on a bus, and print their messages.

    Each line of stdin is a message to all peers, and each message of a peer is printed
    as a line. The peers are bus sockets of this package, of nanomsg or of NNG.

    Ends at the end of stdin, once all lines are sent; with --count, after that many
    messages instead. Exits with 1 if a message was dropped, and with 124 if the timeout
    came first.
    """


def _url(transports: frozenset[Transport]) -> Callable[..., Any]:
    """Return a click callback that accepts the addresses of some transports."""

    def read(_: object, __: object, text: str) -> str:
        try:
            transport = SocketUrl.parse(text).transport
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
        if transport not in transports:
            schemes = " or ".join(sorted(f"{each.value}://" for each in transports))
            raise click.BadParameter(f"{text!r} must begin with {schemes}")
        return text

    return read


def _options(*, has_pairs: bool) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a verb of a function that opens a socket.

    The function returns its `Dialler`, if any.
    """
    options = [
        click.option(
            "--count",
            type=click.IntRange(min=1),
            metavar="N",
            help="Exit after N messages were printed.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=FiniteRange(min=0.0),
            metavar="SECONDS",
            help="Exit after this time.  [default: never]",
        ),
        click.option(
            "--hex",
            is_flag=True,
            help="Print messages, and read lines, as hexadecimal digits.",
        ),
        click.option("--raw", is_flag=True, help="Print the bytes as they are."),
        click.option("--json", is_flag=True, help="Print JSON."),
    ]
    if has_pairs:
        options += [
            click.option("--pair", is_flag=True, help="Be a PAIR socket."),
            click.option(
                "--pair1", is_flag=True, help="Be a PAIR socket, version 1 of NNG."
            ),
        ]

    def decorated(begin: Callable[..., Dialler | None]) -> click.Command:
        @functools.wraps(begin)
        def run(
            url: str,
            count: int | None,
            timeout_s: float | None,
            **others: Any,
        ) -> None:
            form = _take_flag(others, ("hex", "raw", "json"))
            pair = _take_flag(others, ("pair", "pair1"))
            deadline = None if timeout_s is None else _sync.monotonic() + timeout_s
            with one_line(), _socket(pair) as opened:
                dialler = begin(opened, url, **others)
                session = SocketSession(opened, form, count, deadline)
                _exchange(session, count, timeout_s, dialler)

        command: Callable[..., None] = run
        for option in reversed(options):
            command = option(command)
        return socket.command()(command)

    return decorated


def _take_flag(options: dict[str, Any], names: Sequence[str]) -> str:
    """Remove flags that exclude each other; return the one that is set, or ""."""
    chosen = [name for name in names if options.pop(name, False)]
    if len(chosen) > 1:
        first, second = chosen[:2]
        raise click.UsageError(f"--{first} cannot be combined with --{second}")
    return chosen[0] if chosen else ""


def _socket(pair: str) -> BusSocket | PairSocket:
    if not pair:
        return BusSocket(_CONFIG)
    return PairSocket(_CONFIG, version=1 if pair == "pair1" else 0)


def _exchange(
    session: SocketSession,
    count: int | None,
    timeout_s: float | None,
    dialler: Dialler | None,
) -> None:
    try:
        if not session.wait_for_peer():
            fact = f"no peer has connected: waited for {timeout_s:g} s"
            if dialler is not None and dialler.error is not None:
                fact += f"; the last attempt failed: {dialler.error}"
            fail(fact, TIMED_OUT)
        if sys.stdin is not None and sys.stdin.isatty():
            click.echo("bus: connected; type lines to send, Ctrl-D to end", err=True)
        session.run()
    except KeyboardInterrupt:
        pass  # a regular end
    else:
        if count is not None and session.shown < count:
            fact = f"received {session.shown} of {count} messages before the timeout"
            fail(fact, TIMED_OUT)
    if session.failed:
        sys.exit(FAILED)


@_options(has_pairs=True)
@click.argument("url", metavar="URL", callback=_url(_STREAMS))
def listen(opened: BusSocket | PairSocket, url: str) -> None:
    """Accept peers at URL, such as tcp://host:port or ipc:///path.

    Port 0 lets the system choose one. The address is printed on stderr.
    """
    listener = opened.listen(url)
    click.echo(f"bus: listening at {listener.url}", err=True)


@_options(has_pairs=True)
@click.argument("url", metavar="URL", callback=_url(_STREAMS))
def dial(opened: BusSocket | PairSocket, url: str) -> Dialler:
    """Connect to URL, such as tcp://host:port or ipc:///path.

    Waits for a listener, and connects again after each loss.
    """
    return opened.dial(url)


@_options(has_pairs=False)
@click.argument("url", metavar="URL", callback=_url(_MULTICAST))
@click.option(
    "--source",
    default="",
    metavar="IP",
    help="Address of this host that selects the interface.",
)
def join(opened: BusSocket, url: str, source: str) -> None:
    """Join the multicast group URL, such as udp-mcast://239.1.2.3:7000.

    Only programs with this package understand the datagrams.
    """
    opened.join_group(url, source=source)
