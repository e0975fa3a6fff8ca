"""What write, read and disconnect do to a connection that carries bytes.

The same machine as for messages, with one more freedom: a call may move fewer bytes
than asked for, but not none (QB-CHAN-1, QB-CHAN-2). The rules are therefore told how
many to move at most, and `ChannelPair` moves as many as it can.
"""

from __future__ import annotations

import attrs

from specs.models.answers import Answer, Ending
from specs.models.connection import Connection, Status, disconnect, status

__all__ = ["Bytes", "ChannelPair", "open_channel", "read", "write"]

Bytes = Connection[bytes]

_WAITS = Answer(Ending.WAITS)
_DISCONNECTED = Answer(Ending.DISCONNECTED)


def open_channel(capacity: int, *, strict_half: bool = False) -> Bytes:
    """A new connection for bytes."""
    return Connection((b"", b""), capacity=capacity, strict_half=strict_half)


def write(
    channel: Bytes,
    end: int,
    data: bytes,
    *,
    most: int | None = None,
    waited: bool = False,
) -> tuple[Answer, Bytes]:
    """As many bytes of ``data`` as fit, at most ``most``; DONE with their number.

    waited: this very write found no room before; it is then never dropped (A2).
    """
    peer = 1 - end
    match status(channel, end):
        case Status.DISCONNECTED:
            return _DISCONNECTED, channel
        case Status.HALF:
            refused = waited or channel.strict_half
            taken = Answer(Ending.DONE, len(data))
            return (_DISCONNECTED if refused else taken), channel
        case Status.CONNECTED:
            count = min(len(data), channel.free(peer))
            count = count if most is None else min(count, most)
            if data and not count:
                return _WAITS, channel
            unread = channel.inbound[peer] + data[:count]
            return Answer(Ending.DONE, count), channel.with_inbound(peer, unread)


def read(
    channel: Bytes, end: int, length: int, *, most: int | None = None
) -> tuple[Answer, Bytes]:
    """Up to ``length`` bytes, at most ``most``; DONE with the bytes."""
    if status(channel, end) is Status.DISCONNECTED:
        return _DISCONNECTED, channel
    unread = channel.inbound[end]
    count = length if most is None else min(length, most)
    if length and not unread[:count]:
        return _WAITS, channel
    rest = channel.with_inbound(end, unread[count:])
    return Answer(Ending.DONE, unread[:count]), rest


@attrs.define
class ChannelPair:
    """Both ends of one channel, step by step.

    Every operation returns its `Answer`; one that WAITS has changed nothing and is a
    timeout for a caller who does not wait.
    """

    state: Bytes

    @classmethod
    def open(cls, capacity: int, *, strict_half: bool = False) -> ChannelPair:
        """A new connection."""
        return cls(open_channel(capacity, strict_half=strict_half))

    def status(self, end: int) -> Status:
        """What the end is now."""
        return status(self.state, end)

    def disconnected(self, end: int) -> bool:
        """Whether nothing can be written or read on this end ever again."""
        return self.status(end) is Status.DISCONNECTED

    def remote_disconnected(self, end: int) -> bool:
        """Whether the peer has hung up."""
        return self.state.closed[1 - end]

    def pending(self, end: int) -> int:
        """How many bytes the end has to read."""
        return len(self.state.inbound[end])

    def can_write(self, end: int, length: int, *, waited: bool = False) -> bool:
        """Whether a write of so many bytes would end at once, well or badly."""
        return write(self.state, end, bytes(length), waited=waited)[0] != _WAITS

    def can_read(self, end: int, length: int) -> bool:
        """Whether a read of up to so many bytes would end at once, well or badly."""
        return read(self.state, end, length)[0] != _WAITS

    def write(self, end: int, data: bytes, *, waited: bool = False) -> Answer:
        """Write what fits; DONE with the number of bytes."""
        answer, self.state = write(self.state, end, data, waited=waited)
        return answer

    def read(self, end: int, length: int) -> Answer:
        """Read what is there, up to ``length``; DONE with the bytes."""
        answer, self.state = read(self.state, end, length)
        return answer

    def disconnect(self, end: int) -> None:
        """Hang up one end."""
        self.state = disconnect(self.state, end)
