"""`FrameReader`: splits the bytes that arrive into frames.

It keeps the part of an incomplete frame, and checks each length before it keeps a byte
of the body. Of messages it reads the numbers, to return successive ones together; it
decodes nothing else, and does not know which frame may follow which.
"""

from __future__ import annotations

import functools
import struct
from io import BytesIO
from typing import Final

from queuebroker.sockets.errors import ProtocolError
from queuebroker.sockets.frames import (
    HEAD,
    MESSAGE_HEAD,
    NUMBER,
    OVERHEAD_BYTES,
    Frame,
    Messages,
)
from queuebroker.sockets.memory import keep_memory

__all__ = ["FIRST_FRAME_BYTES_MAX", "RUN_BYTES_MAX", "FrameReader", "Gathering"]

# Maximum bytes in the body of a frame: of every frame until the connection is agreed
# on, and of every frame other than messages after that.
FIRST_FRAME_BYTES_MAX: Final = 16384

# A sender of several messages at once keeps the body of a frame below this, in bytes.
RUN_BYTES_MAX: Final = 1 << 18

_MESSAGE: Final = int(Frame.MESSAGE)
_RUN: Final = int(Frame.RUN)
_WITH_FDS: Final = int(Frame.MESSAGE_WITH_FDS)

# So many frames of one length are read together.
_SEVERAL: Final = 4

# The bytes of all messages that are dropped, one over the other. It exists before the
# memory is short.
_DROPPED = memoryview(bytearray(1 << 16))


class FrameReader:
    """The frames in the bytes of one connection. Not for several threads at once.

    The caller passes bytes to `feed` and handles the frame that it returns, then those
    of `next_frame`, until one is None. A frame may change ``limit`` before the next is
    read. Successive messages are returned as `Messages`, any other frame as its kind
    and its body.

    first_max: maximum bytes in the body of a frame other than messages.
    unanswered_max: maximum bytes of a message before this side has sent one; None: no
      other limit than afterwards.
    limit, capacity: maximum bytes of a message, and the maximum number of messages that
      wait to be received, once the connection is open.
    unanswered: True while ``unanswered_max`` applies.
    parts: the bytes of the incomplete frame, empty if there is none or it is gathered.
    wanted: bytes still missing from the incomplete frame, 0 if that is unknown.
    gathering: the buffer for the rest of a long message, None if none has begun.
    drops: True to return an empty message in place of a long one for which there is no
      memory.
    """

    __slots__ = (
        "_at",
        "_data",
        "_first_max",
        "_long_number",
        "_unanswered_max",
        "capacity",
        "drops",
        "gathering",
        "limit",
        "parts",
        "unanswered",
        "wanted",
    )

    def __init__(
        self,
        first_max: int = FIRST_FRAME_BYTES_MAX,
        unanswered_max: int | None = None,
    ) -> None:
        self.limit: int = 0
        self.capacity: int = 0
        self.unanswered: bool = unanswered_max is not None
        self.parts: list[bytes] = []
        self.wanted: int = 0
        self.gathering: Gathering | Dropping | None = None
        self.drops: bool = False
        self._first_max = first_max
        self._unanswered_max = unanswered_max or 0
        self._data = b""  # the bytes that arrived last, taken up to `_at`
        self._at = 0
        # The number of the incomplete message, of which ``parts`` then holds the body
        # alone; None for any other frame.
        self._long_number: int | None = None

    def feed(self, data: bytes) -> Messages | tuple[int, bytes] | None:
        """Add bytes that arrived, in pieces of any size; return the first frame.

        Raises:
            ProtocolError: as for `next_frame`.
        """
        parts = self.parts
        if self.wanted:
            excess = data[self.wanted :]
            parts.append(data[: self.wanted] if excess else data)
            self.wanted = max(0, self.wanted - len(data))
            if self.wanted:
                return None
            try:
                whole = b"".join(parts)
            except MemoryError:
                if self._long_number is None or not self.drops:
                    raise
                whole = b""
            parts.clear()
            if self._long_number is not None:
                self._data = excess
                return self._long_message(whole)
            data = whole + excess
        elif parts:
            data = parts.pop() + data  # the last ones were less than a head
        self._data = data
        return self.next_frame()

    def next_frame(self) -> Messages | tuple[int, bytes] | None:
        """Return the next frame of the bytes that arrived; None if no other is whole.

        Raises:
            ProtocolError: the next frame is too long.
        """
        data, begin = self._data, self._at
        if not data:
            return None
        size, longest = len(data), self.longest()
        unpack, number_at = HEAD.unpack_from, NUMBER.unpack_from
        first = 0
        run: list[bytes] = []
        while size - begin >= 5:
            kind, length = unpack(data, begin)
            # By far most frames are messages: successive ones are returned together.
            plain = kind == _MESSAGE and 8 <= length <= longest + 8
            if not plain:
                if run:
                    break  # earlier messages are received all the same
                self._check_length(kind, length)
            body = begin + 5
            end = body + length
            if end > size:
                self.wanted = end - size
                self._keep_part(data, begin, is_message=kind == _MESSAGE)
                return Messages(first, run) if run else None
            if not plain:
                self._at = end
                return kind, data[body:end]
            (number,) = number_at(data, body)
            if not run:
                first = number
                run = _equal_messages(data, begin, end - begin, number)
                if run:
                    begin += len(run) * (end - begin)
                    continue
            elif number != first + len(run):
                break
            run.append(data[body + 8 : end])
            begin = end
        else:
            if begin < size:
                self.parts.append(data[begin:])
            data, begin = b"", 0
        self._data, self._at = data, begin
        return Messages(first, run) if run else None

    def _keep_part(self, data: bytes, begin: int, *, is_message: bool) -> None:
        """Keep the part of a frame that has arrived; of a message the body alone."""
        number_at = begin + HEAD.size
        if is_message and len(data) - number_at >= NUMBER.size:
            # So that the body is not copied out later.
            (self._long_number,) = NUMBER.unpack_from(data, number_at)
            begin = number_at + NUMBER.size
        self.parts.append(data[begin:])
        self._data, self._at = b"", 0

    def longest(self) -> int:
        """Return the maximum bytes of a message that arrives now."""
        if self.unanswered:
            return min(self._unanswered_max, self.limit)
        return self.limit

    def _check_length(self, kind: int, length: int) -> None:
        """Reject a frame that is too long, before any of its body is kept."""
        longest = self.longest()
        if kind == _MESSAGE:
            most = longest + OVERHEAD_BYTES
        elif kind == _RUN:
            # A run fits the free slots, and its sender keeps it short. Before an answer
            # it takes no more memory than its messages would take one by one.
            most = max(longest, RUN_BYTES_MAX) + OVERHEAD_BYTES
            if self.unanswered:
                most = min(most, self.capacity * (longest + OVERHEAD_BYTES))
        else:
            most = self._first_max + (longest if kind == _WITH_FDS else 0)
        if length > most:
            msg = f"frame of kind {kind} has {length} bytes, at most {most} are allowed"
            raise ProtocolError(msg + " before an answer" * self.unanswered)

    # A long message is read into its final buffer.

    def long_bytes(self) -> int:
        """Return the length of the incomplete message, 0 if `gather` does not apply."""
        if self._long_number is None or self.gathering is not None:
            return 0
        return self.wanted + sum(map(len, self.parts))

    def gather(self) -> None:
        """Allocate memory for the incomplete message; the rest is read into it."""
        self.gathering = Gathering(b"".join(self.parts), self.wanted)
        self.parts.clear()

    def feed_gathering(self, count: int) -> Messages | None:
        """Record that ``count`` bytes were read into the gathering.

        Return the message once it is complete.
        """
        gathering = self.gathering
        assert gathering is not None
        gathering.wanted = self.wanted = self.wanted - count
        if self.wanted:
            return None
        self.gathering = None
        return self._long_message(gathering.message())

    def drop_message(self) -> bool:
        """Drop the incomplete message, for which there is no memory.

        Return False if the connection must end instead.
        """
        dropping = isinstance(self.gathering, Dropping)
        if dropping or not (self.drops and self.wanted) or self._long_number is None:
            return False
        self.parts.clear()
        self.gathering = Dropping(self.wanted)
        return True

    def _long_message(self, message: bytes) -> Messages:
        number, self._long_number = self._long_number, None
        assert number is not None
        return Messages(number, [message])

    def drop(self) -> None:
        """Drop all bytes kept: the connection has ended."""
        self._data, self._at = b"", 0
        self.parts.clear()
        self.gathering = self._long_number = None
        self.wanted = 0


def _equal_messages(data: bytes, begin: int, size: int, first: int) -> list[bytes]:
    """Return the messages of all whole frames, if all of these have one length.

    Else return an empty list. Many short messages are read three times as fast together
    as one after the other.

    begin, size, first: the first frame and its length in bytes, the number of its
      message.
    """
    count = (len(data) - begin) // size
    end = begin + count * size
    if count < _SEVERAL or HEAD.unpack_from(data, end - size) != (
        HEAD.unpack_from(data, begin)
    ):
        return []
    kinds, lengths, numbers, messages = zip(
        *_message_frame(size).iter_unpack(data[begin:end]), strict=True
    )
    if (
        kinds.count(_MESSAGE) != count
        or lengths.count(size - HEAD.size) != count
        or numbers != tuple(range(first, first + count))
    ):
        return []
    return list(messages)


@functools.lru_cache
def _message_frame(size: int) -> struct.Struct:
    """Return the layout of the frame of a message, by the length of both."""
    return struct.Struct(f"{MESSAGE_HEAD.format}{size - MESSAGE_HEAD.size}s")


class _Bytes(BytesIO):
    """A `BytesIO` that its finalizer does not close.

    The finalizer cannot close it while a view of it exists, as in the garbage of a
    connection that was lost amid a message. CPython 3.15 reports that failure.
    """

    __slots__ = ()

    close = staticmethod(int)  # type: ignore[assignment] # in C, and does nothing


class Gathering:
    """The buffer of a long message, of known length, that is filled in pieces.

    The message is read into its final place. The buffer is allocated when the length is
    known, the socket writes into it, and at the end its bytes are the message.
    Rejected: pieces joined at the end (a copy), and a reused buffer (also a copy, and a
    pool to manage). A fresh bytearray costs several times as much as the read itself.
    """

    __slots__ = ("_bytes", "_view", "wanted")

    def __init__(self, begun: bytes, wanted: int) -> None:
        """Start with the bytes in ``begun``; ``wanted``: how many are still missing."""
        keep_memory()
        self.wanted: int = wanted
        # A BytesIO with the only reference to its bytes lets them be written, and
        # returns them without a copy. Zero pages without a write take no memory.
        self._bytes = _Bytes(bytes(len(begun) + wanted))
        self._view = self._bytes.getbuffer()
        self._view[: len(begun)] = begun

    @property
    def room(self) -> memoryview:
        """The space for the rest; release it before the call of `message`."""
        return self._view[len(self._view) - self.wanted :]

    def message(self) -> bytes:
        """Return the complete message; called once, at the end."""
        self._view.release()
        return self._bytes.getvalue()


class Dropping:
    """Takes the place of a `Gathering` without memory; yields an empty message."""

    __slots__ = ("wanted",)

    def __init__(self, wanted: int) -> None:
        """wanted: how many bytes are still missing."""
        self.wanted: int = wanted

    @property
    def room(self) -> memoryview:
        """The space for the next bytes, the rest at most."""
        return _DROPPED[: self.wanted]

    def message(self) -> bytes:
        """Return the empty message."""
        return b""
