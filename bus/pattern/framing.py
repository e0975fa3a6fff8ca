"""`Framing`: how messages look on one connection, behind the head of their frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from bus.errors import WireError
from bus.pattern import native
from bus.pattern.pipe import Outgoing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.pattern.native import Control

__all__ = ["Framing", "NativeFraming", "Pair1Framing", "PlainFraming"]


class Framing(Protocol):
    """The layout of the frames of one connection."""

    def prefix(self, message: Outgoing) -> bytes:
        """Return the bytes before the body."""

    def read(
        self, frames: Sequence[bytes], origin: int
    ) -> tuple[list[Outgoing], list[Control]]:
        """Return the messages, and the other frames, among those that arrived.

        origin: stands for a peer that states none (BP-16).

        Raises:
            WireError: the peer broke the rules.
        """


class PlainFraming:
    """BUS and PAIR version 0: nothing but the body."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count: int = 0

    def prefix(self, message: Outgoing) -> bytes:  # noqa: ARG002 # part of `Framing`
        """Return nothing."""
        return b""

    def read(
        self, frames: Sequence[bytes], origin: int
    ) -> tuple[list[Outgoing], list[Control]]:
        """Number the messages in the order of their arrival."""
        arrivals = [
            Outgoing(frame, origin, number)
            for number, frame in enumerate(frames, self._count + 1)
        ]
        self._count += len(frames)
        return arrivals, []


class Pair1Framing:
    """PAIR version 1: a number of hops before the body, of 4 bytes.

    hops_max: a message that has made more is dropped.

    Attributes:
        dropped: how many were, since the owner last set it to 0.
    """

    __slots__ = ("_hops_max", "dropped")

    def __init__(self, hops_max: int) -> None:
        self._hops_max: Final = hops_max
        self.dropped: int = 0

    def prefix(self, message: Outgoing) -> bytes:  # noqa: ARG002 # part of `Framing`
        """Return the number of hops: this is the first."""
        return _FIRST_HOP

    def read(
        self, frames: Sequence[bytes], origin: int
    ) -> tuple[list[Outgoing], list[Control]]:
        """Remove the number of hops."""
        arrivals = []
        for frame in frames:
            hops = int.from_bytes(frame[:_HOPS_BYTES])
            if len(frame) < _HOPS_BYTES or hops > _HOPS_STATED_MAX:
                raise WireError(f"PAIR1 message has a wrong head: {frame[:4].hex()!r}")
            if hops > self._hops_max:
                self.dropped += 1
            else:
                arrivals.append(Outgoing(frame[_HOPS_BYTES:], origin, 0))
        return arrivals, []


_HOPS_BYTES: Final = 4
_HOPS_STATED_MAX: Final = 0xFF
_FIRST_HOP: Final = (1).to_bytes(_HOPS_BYTES)


class NativeFraming:
    """Between sockets of this package: see `bus.pattern.native`."""

    __slots__ = ()

    def prefix(self, message: Outgoing) -> bytes:
        """Return origin and number of the message."""
        return native.head(message.origin, message.number)

    def read(
        self,
        frames: Sequence[bytes],
        origin: int,  # noqa: ARG002 # each message states its own
    ) -> tuple[list[Outgoing], list[Control]]:
        """Read the origin and the number of each message."""
        arrivals, controls = [], []
        size = native.HEAD.size
        for frame in frames:
            found = native.decode(frame)
            if isinstance(found, tuple):
                arrivals.append(Outgoing(frame[size:], *found))
            else:
                controls.append(found)
        return arrivals, controls
