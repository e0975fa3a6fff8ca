"""`SocketSession`: sends lines of stdin on a socket, and prints its messages."""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

import click

from bus.cli.json_text import to_json
from bus.journal.wording import counted, printable
from bus.pattern.drop_reason import DropReason
from bus.pattern.pair_socket import PairSocket
from queuebroker import _net, _sync
from queuebroker.errors import ReceiveTimeoutError, SendTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bus.pattern.bus_socket import BusSocket
    from bus.pattern.pipe import PeerStats

__all__ = ["PRINTERS", "SocketSession"]

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
        self._input: Final = None if sys.stdin is None else sys.stdin.fileno()
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
        assert self._input is not None
        data = os.read(self._input, _READ_BYTES)
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
