"""Write, read and disconnect on a connection that carries bytes.

The same machine as for messages, with one more freedom: a call may move fewer bytes
than requested, but not none (QB-CHAN-1, QB-CHAN-2). The rules therefore take the
maximum to move as an argument, and `ChannelPair` moves as many as it can.
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
    """Return a new connection for bytes."""
    return Connection((b"", b""), capacity=capacity, strict_half=strict_half)


def write(
    channel: Bytes,
    end: int,
    data: bytes,
    *,
    most: int | None = None,
    waited: bool = False,
) -> tuple[Answer, Bytes]:
    """Write the bytes of ``data`` that fit, at most ``most``; DONE with their number.

    waited: True if this very write found no room before; it is then never dropped (A2).
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
    """Read up to ``length`` bytes, at most ``most``; DONE with the bytes."""
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
    timeout for a caller that does not wait.
    """

    state: Bytes

    @classmethod
    def open(cls, capacity: int, *, strict_half: bool = False) -> ChannelPair:
        """A new connection."""
        return cls(open_channel(capacity, strict_half=strict_half))

    def status(self, end: int) -> Status:
        """Return the present status of the end."""
        return status(self.state, end)

    def disconnected(self, end: int) -> bool:
        """Return True if no write or read on this end can succeed any more."""
        return self.status(end) is Status.DISCONNECTED

    def remote_disconnected(self, end: int) -> bool:
        """Return True if the peer has disconnected."""
        return self.state.closed[1 - end]

    def pending(self, end: int) -> int:
        """Return the number of unread bytes of the end."""
        return len(self.state.inbound[end])

    def can_write(self, end: int, length: int, *, waited: bool = False) -> bool:
        """Return True if a write of ``length`` bytes would end at once or raise."""
        return write(self.state, end, bytes(length), waited=waited)[0] != _WAITS

    def can_read(self, end: int, length: int) -> bool:
        """Return True if a read of ``length`` bytes would end at once or raise."""
        return read(self.state, end, length)[0] != _WAITS

    def write(self, end: int, data: bytes, *, waited: bool = False) -> Answer:
        """Write the bytes that fit; DONE with their number."""
        answer, self.state = write(self.state, end, data, waited=waited)
        return answer

    def read(self, end: int, length: int) -> Answer:
        """Read the bytes there, up to ``length``; DONE with the bytes."""
        answer, self.state = read(self.state, end, length)
        return answer

    def disconnect(self, end: int) -> None:
        """Disconnect one end."""
        self.state = disconnect(self.state, end)
