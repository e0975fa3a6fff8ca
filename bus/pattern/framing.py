"""`Framing`: how messages look on one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from bus.errors import WireError
from bus.pattern import native
from bus.pattern.message_run import MessageRun
from bus.pattern.wire import frame_head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.pattern.native import Control

__all__ = ["Framing", "NativeFraming", "Pair1Framing", "PlainFraming", "whole_frames"]

# A body of this length is a piece of its own, and never copied.
_LONG_BYTES: Final = 1 << 16
# The most bytes of a run of several messages from a peer of another library.
_RUN_BYTES: Final = 1 << 16
_LENGTH_BYTES: Final = 8  # of the length of a frame, the end of its head
_HOPS_BYTES: Final = 4
_HOPS_STATED_MAX: Final = 0xFF
_FIRST_HOP: Final = (1).to_bytes(_HOPS_BYTES)

Pieces = bytes | tuple[bytes, bytes]


def whole_frames(pieces: Pieces, size: int, *, is_ipc: bool) -> int:
    """Return how many of some frames are whole in their first ``size`` bytes."""
    data = pieces if isinstance(pieces, bytes) else pieces[0]
    head_bytes = len(frame_head(0, is_ipc=is_ipc))
    count, end = 0, 0
    while end < size:
        end += head_bytes
        end += int.from_bytes(data[end - _LENGTH_BYTES : end])
        count += end <= size
    return count


class Framing(Protocol):
    """The layout of the frames of one connection."""

    def encode(self, run: MessageRun, *, is_ipc: bool) -> Pieces:
        """Return the frames of some messages; a long body is a piece by itself.

        Raises:
            MessageTooLargeError: one of them is too long for this layout.
        """

    def read(
        self, frames: Sequence[bytes], origin: int
    ) -> tuple[list[MessageRun], list[Control]]:
        """Return the messages, and the other frames, among those that arrived.

        origin: stands for a peer that states none (BP-16).

        Raises:
            WireError: the peer broke the rules.
        """


class PlainFraming:
    """BUS and PAIR version 0: a frame for each message, with nothing but its body."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count: int = 0

    def encode(self, run: MessageRun, *, is_ipc: bool) -> Pieces:
        """Return a frame for each message."""
        key = PlainFraming, is_ipc
        if (made := run.encoded.get(key)) is None:
            run.encoded[key] = made = _frames(run.bodies, b"", is_ipc=is_ipc)
        return made

    def read(
        self, frames: Sequence[bytes], origin: int
    ) -> tuple[list[MessageRun], list[Control]]:
        """Number the messages in the order of their arrival.

        Several runs, if they are long: a device sends each run to a native peer as one
        frame, which must not be much longer than the longest message.
        """
        if sum(map(len, frames)) <= _RUN_BYTES:
            return [self._run(origin, frames)], []
        runs, bodies, size = [], list[bytes](), 0
        for frame in frames:
            if bodies and size + len(frame) > _RUN_BYTES:
                runs.append(self._run(origin, bodies))
                bodies, size = [], 0
            bodies.append(frame)
            size += len(frame)
        runs.append(self._run(origin, bodies))
        return runs, []

    def _run(self, origin: int, bodies: Sequence[bytes]) -> MessageRun:
        run = MessageRun(origin, self._count + 1, bodies)
        self._count += len(bodies)
        return run


class Pair1Framing:
    """PAIR version 1: a number of hops before the body, of 4 bytes.

    hops_max: a message that has made more is dropped.

    Attributes:
        dropped: how many were, since the owner last set it to 0.
    """

    __slots__ = ("_count", "_hops_max", "dropped")

    def __init__(self, hops_max: int) -> None:
        self._count: int = 0
        self._hops_max: Final = hops_max
        self.dropped: int = 0

    def encode(self, run: MessageRun, *, is_ipc: bool) -> Pieces:
        """Return a frame for each message: this is its first hop."""
        return _frames(run.bodies, _FIRST_HOP, is_ipc=is_ipc)

    def read(
        self, frames: Sequence[bytes], origin: int
    ) -> tuple[list[MessageRun], list[Control]]:
        """Remove the number of hops, and number the messages as they arrive."""
        bodies = []
        for frame in frames:
            hops = int.from_bytes(frame[:_HOPS_BYTES])
            if len(frame) < _HOPS_BYTES or hops > _HOPS_STATED_MAX:
                raise WireError(f"PAIR1 message has a wrong head: {frame[:4].hex()!r}")
            if hops > self._hops_max:
                self.dropped += 1
            else:
                bodies.append(frame[_HOPS_BYTES:])
        run = MessageRun(origin, self._count + 1, bodies)
        self._count += len(bodies)
        return [run] if bodies else [], []


class NativeFraming:
    """Between sockets of this package: see `bus.pattern.native`.

    message_bytes_max: the maximum length of an incoming message; 0 for no limit.
    """

    __slots__ = ("_message_bytes_max",)

    def __init__(self, message_bytes_max: int = 0) -> None:
        self._message_bytes_max: Final = message_bytes_max

    def encode(self, run: MessageRun, *, is_ipc: bool) -> Pieces:
        """Return one frame for all of them."""
        key = NativeFraming, is_ipc
        if (made := run.encoded.get(key)) is None:
            head = native.head(run)
            head = frame_head(len(head) + run.size, is_ipc=is_ipc) + head
            bodies = run.bodies
            if len(bodies) == 1 and len(bodies[0]) >= _LONG_BYTES:
                made = head, bodies[0]
            else:
                made = b"".join([head, *bodies])
            run.encoded[key] = made
        return made

    def read(
        self,
        frames: Sequence[bytes],
        origin: int,  # noqa: ARG002 # each message states its own
    ) -> tuple[list[MessageRun], list[Control]]:
        """Read the origin and the number of each message."""
        runs: list[MessageRun] = []
        controls: list[Control] = []
        most = self._message_bytes_max
        for frame in frames:
            found = native.decode(frame)
            if not isinstance(found, MessageRun):
                controls.append(found)
                continue
            if most and len(frame) > most:
                longest = max(map(len, found.bodies))
                if longest > most:
                    raise WireError(
                        f"message has {longest} bytes, allowed: {most}; "
                        "SocketConfig.message_bytes of the receiver is the limit"
                    )
            runs.append(found)
        return runs, controls


def _frames(bodies: Sequence[bytes], prefix: bytes, *, is_ipc: bool) -> Pieces:
    extra = len(prefix)
    if len(bodies) == 1:
        body = bodies[0]
        head = frame_head(extra + len(body), is_ipc=is_ipc) + prefix
        return (head, body) if len(body) >= _LONG_BYTES else head + body
    pieces = []
    for body in bodies:
        pieces.append(frame_head(extra + len(body), is_ipc=is_ipc) + prefix)
        pieces.append(body)
    return b"".join(pieces)
