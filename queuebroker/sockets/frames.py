"""The frames of a connection between processes: bytes to values and back.

A frame consists of one byte for its kind, the length of its body, and the body. Numbers
are in network order. A decoder reads a body in one pass, and the body must end where
its length says. This module defines the format of frames, not their order. The protocol
checks a length before it keeps a byte of the body.
"""

from __future__ import annotations

import enum
import struct
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from queuebroker.observer import SHARED_CHANNELS
from queuebroker.sockets.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "BODY_BYTES_MAX",
    "CREDIT_HEAD",
    "HEAD",
    "MAGIC",
    "MESSAGE_BYTES_MAX",
    "MESSAGE_HEAD",
    "NUMBER",
    "NUMBER_MAX",
    "OVERHEAD_BYTES",
    "VERSIONS",
    "Credit",
    "Frame",
    "Goodbye",
    "Hello",
    "Messages",
    "Ping",
    "Pong",
    "Refusal",
    "Refused",
    "Welcome",
    "credit_before",
    "decode",
    "encode",
    "encode_message",
    "encode_run",
    "head_of_message",
    "pack_head",
]

MAGIC: Final = b"QUEUEBRK"
VERSIONS: Final = (1, 1)  # the lowest and the highest supported version

HEAD: Final = struct.Struct(">BI")  # kind, bytes of the body
NUMBER_MAX: Final = 2**32 - 1  # of lengths and capacities
BODY_BYTES_MAX: Final = NUMBER_MAX
TEXT_BYTES_MAX: Final = 4096  # of a text in a frame; a longer one is truncated
# Bytes of a body besides its messages: a number, a count, a length for each.
OVERHEAD_BYTES: Final = 64
MESSAGE_BYTES_MAX: Final = BODY_BYTES_MAX - OVERHEAD_BYTES

_HELLO: Final = struct.Struct(">8sBBBBII")
_WELCOME: Final = struct.Struct(">BBIIQ")
NUMBER: Final = struct.Struct(">Q")
_COUNT: Final = struct.Struct(">I")
_RUN: Final = struct.Struct(">QI")
_GOODBYE: Final = struct.Struct(">QB")
_TEXT: Final = struct.Struct(">H")
MESSAGE_HEAD: Final = struct.Struct(">BIQ")  # kind, bytes of the body, number
_FDS: Final = struct.Struct(">QB")


class Frame(enum.IntEnum):
    """The kinds of frame. The numbers are part of the protocol."""

    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    MESSAGE = 4
    RUN = 5
    CREDIT = 6
    GOODBYE = 7
    PING = 8
    PONG = 9
    MESSAGE_WITH_FDS = 10


# The bytes that precede a message, from the length of the body and the number; in C,
# for every message. An Enum lookup would be slow.
pack_head: Final = partial(MESSAGE_HEAD.pack, int(Frame.MESSAGE))


# The first bytes of a credit; its count follows.
CREDIT_HEAD: Final = HEAD.pack(Frame.CREDIT, _COUNT.size)
_CREDIT: Final = struct.Struct(">BII")


class Refusal(enum.IntEnum):
    """The reason a connect was refused. The numbers are part of the protocol."""

    TIMED_OUT = 1
    BROKER_CLOSED = 2
    UNKNOWN_BROKER = 3
    NOT_ADMITTED = 4
    PROTOCOL = 5
    BUSY = 6


class Hello(NamedTuple):
    """A connect: the name of the caller, the port it wants, the limits it accepts.

    limit: bytes of the longest message it accepts.
    descriptors: maximum descriptors per message it accepts, 0 for none.
    waits: True if the caller waits when no accept matches at once.
    """

    name: str
    port: int
    limit: int
    waits: bool = True
    descriptors: int = 0
    versions: tuple[int, int] = VERSIONS


class Welcome(NamedTuple):
    """An accept: the name of the acceptor, and the agreed limits.

    capacity: messages that each direction holds.
    limit, descriptors: as in `Hello`, for both directions.
    number: of the connection, for the observers of both ends.
    """

    name: str
    capacity: int
    limit: int
    descriptors: int = 0
    version: int = VERSIONS[1]
    number: int = SHARED_CHANNELS


class Refused(NamedTuple):
    """A refused connect, with the reason."""

    reason: Refusal
    text: str = ""


class Messages(NamedTuple):
    """Messages in order; ``first`` is the number of the first, from 1.

    descriptors: number of descriptors that arrived with the only message.
    """

    first: int
    messages: Sequence[bytes]
    descriptors: int = 0


class Credit(NamedTuple):
    """A report that ``received`` more messages were received."""

    received: int


class Goodbye(NamedTuple):
    """A disconnect; the end had received ``received`` messages in total.

    kind, text: class and text of the error that caused it, if any.
    """

    received: int
    abnormal: bool = False
    kind: str = ""
    text: str = ""


class Ping(NamedTuple):
    """A request for a `Pong` with the same number."""

    number: int


class Pong(NamedTuple):
    """The answer to a `Ping`."""

    number: int


Value = Hello | Welcome | Refused | Messages | Credit | Goodbye | Ping | Pong


# Encoding.


def encode(value: Hello | Welcome | Refused | Credit | Goodbye | Ping | Pong) -> bytes:
    """Return the frame of any value except messages."""
    kind, body = _body_of(value)
    return _framed(kind, body)


def _body_of(
    value: Hello | Welcome | Refused | Credit | Goodbye | Ping | Pong,
) -> tuple[Frame, bytes]:
    match value:
        case Hello():
            wants = (value.waits, value.descriptors, value.port, value.limit)
            fixed = _HELLO.pack(MAGIC, *value.versions, *wants)
            found = Frame.HELLO, fixed + _text(value.name)
        case Welcome():
            agreed = (value.descriptors, value.capacity, value.limit, value.number)
            fixed = _WELCOME.pack(value.version, *agreed)
            found = Frame.WELCOME, fixed + _text(value.name)
        case Refused():
            found = Frame.REFUSED, bytes((value.reason,)) + _text(value.text)
        case Credit():
            found = Frame.CREDIT, _COUNT.pack(value.received)
        case Goodbye():
            fixed = _GOODBYE.pack(value.received, value.abnormal)
            found = Frame.GOODBYE, fixed + _text(value.kind) + _text(value.text)
        case Ping():
            found = Frame.PING, NUMBER.pack(value.number)
        case Pong():
            found = Frame.PONG, NUMBER.pack(value.number)
    return found


def head_of_message(number: int, size: int) -> bytes:
    """Return the bytes that precede a message of ``size`` bytes in its frame."""
    return pack_head(8 + size, number)


def encode_message(number: int, message: bytes, descriptors: int = 0) -> bytes:
    """Return the frame of one message."""
    if descriptors:
        body = _FDS.pack(number, descriptors) + message
        return _framed(Frame.MESSAGE_WITH_FDS, body)
    return head_of_message(number, len(message)) + message


def encode_run(first: int, messages: Sequence[bytes]) -> bytes:
    """Return one frame for several messages."""
    lengths = list(map(len, messages))
    count = len(lengths)
    size = _RUN.size + _COUNT.size * count + sum(lengths)
    return b"".join(
        (
            HEAD.pack(Frame.RUN, size),
            _RUN.pack(first, count),
            struct.pack(f">{count}I", *lengths),
            *messages,
        )
    )


def _framed(kind: Frame, body: bytes) -> bytes:
    return HEAD.pack(kind, len(body)) + body


def _text(text: str) -> bytes:
    # A name may contain lone surrogates; they are sent as they are.
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > TEXT_BYTES_MAX:
        data = data[:TEXT_BYTES_MAX].decode("utf-8", "ignore").encode()
    return _TEXT.pack(len(data)) + data


# Decoding.


def credit_before(data: bytes) -> tuple[int, bytes]:
    """Return the count of the credit at the start of ``data``, and the bytes after it.

    ``data`` begins with `CREDIT_HEAD`. Without the whole count, that is 0, before all.
    """
    if len(data) < _CREDIT.size:
        return 0, data
    return _CREDIT.unpack_from(data)[2], data[_CREDIT.size :]


def decode(kind: int, body: bytes) -> Value:
    """Return the value of a frame.

    Raises:
        ProtocolError: the kind is unknown, or the body does not have its format.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        msg = f"frame of unknown kind {kind}"
        raise ProtocolError(msg)
    try:
        return decoder(body)
    except (struct.error, UnicodeDecodeError):
        raise _broken(kind, "is malformed") from None


def _decode_message(body: bytes) -> Messages:
    (number,) = NUMBER.unpack_from(body)
    return Messages(number, (body[NUMBER.size :],))


def _decode_run(body: bytes) -> Messages:
    if len(body) < _RUN.size:
        raise _broken(Frame.RUN, "is too short")
    first, count = _RUN.unpack_from(body)
    begin = _RUN.size + _COUNT.size * count
    if not count or begin > len(body):
        raise _broken(Frame.RUN, f"has no room for {count} messages")
    lengths = struct.unpack_from(f">{count}I", body, _RUN.size)
    ends = list(accumulate(lengths, initial=begin))
    if ends[-1] != len(body):
        raise _broken(Frame.RUN, f"ends at {len(body)}, its messages at {ends[-1]}")
    return Messages(first, [body[start:stop] for start, stop in pairwise(ends)])


def _decode_described(body: bytes) -> Messages:
    number, descriptors = _FDS.unpack_from(body)
    if not descriptors:
        raise _broken(Frame.MESSAGE_WITH_FDS, "has none")
    return Messages(number, (body[_FDS.size :],), descriptors)


def _decode_hello(body: bytes) -> Hello:
    magic, low, high, waits, descriptors, port, limit = _HELLO.unpack_from(body)
    if magic != MAGIC:
        raise _broken(Frame.HELLO, "does not begin with the magic")
    name = _last_text(Frame.HELLO, body, _HELLO.size)
    if low > high or waits > 1 or port >= 2**31 or not name:
        raise _broken(Frame.HELLO, "has a value out of range")
    return Hello(name, port, limit, bool(waits), descriptors, (low, high))


def _decode_welcome(body: bytes) -> Welcome:
    version, descriptors, capacity, limit, number = _WELCOME.unpack_from(body)
    name = _last_text(Frame.WELCOME, body, _WELCOME.size)
    # A number below would be that of a channel of this process.
    if not capacity or not name or not SHARED_CHANNELS <= number < 2 * SHARED_CHANNELS:
        raise _broken(Frame.WELCOME, "has a value out of range")
    return Welcome(name, capacity, limit, descriptors, version, number)


def _decode_refused(body: bytes) -> Refused:
    text = _last_text(Frame.REFUSED, body, 1)
    try:
        return Refused(Refusal(body[0]), text)
    except ValueError:
        raise _broken(Frame.REFUSED, f"gives reason {body[0]}") from None


def _decode_goodbye(body: bytes) -> Goodbye:
    received, abnormal = _GOODBYE.unpack_from(body)
    error, end = _text_at(body, _GOODBYE.size)
    text = _last_text(Frame.GOODBYE, body, end)
    if abnormal > 1:
        raise _broken(Frame.GOODBYE, "has a value out of range")
    return Goodbye(received, bool(abnormal), error, text)


_DECODERS: Final[Mapping[int, Callable[[bytes], Value]]] = {
    Frame.MESSAGE: _decode_message,
    Frame.RUN: _decode_run,
    Frame.MESSAGE_WITH_FDS: _decode_described,
    Frame.HELLO: _decode_hello,
    Frame.WELCOME: _decode_welcome,
    Frame.REFUSED: _decode_refused,
    Frame.CREDIT: lambda body: Credit(*_COUNT.unpack(body)),
    Frame.GOODBYE: _decode_goodbye,
    Frame.PING: lambda body: Ping(*NUMBER.unpack(body)),
    Frame.PONG: lambda body: Pong(*NUMBER.unpack(body)),
}


def _last_text(kind: Frame, body: bytes, start: int) -> str:
    """Return the text from ``start`` to the end of the body."""
    text, end = _text_at(body, start)
    if end != len(body):
        raise _broken(kind, f"has {len(body) - end} bytes too many")
    return text


def _text_at(body: bytes, start: int) -> tuple[str, int]:
    """Return the text at ``start`` and the offset of its end."""
    (size,) = _TEXT.unpack_from(body, start)
    begin = start + _TEXT.size
    end = begin + size
    if end > len(body) or size > TEXT_BYTES_MAX:
        msg = f"text of {size} bytes in a body of {len(body)}"
        raise ProtocolError(msg)
    return body[begin:end].decode("utf-8", "surrogatepass"), end


def _broken(kind: int, what: str) -> ProtocolError:
    return ProtocolError(f"{Frame(kind).name} frame {what}")
