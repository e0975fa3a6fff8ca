"""`Batch`: messages with numbers that follow one another, as one frame (BUS-CHAN-6).

Packed, in network order: the header, then of every message its fixed part, then all of
the bodies. What a peer sent is looked through once, in constant memory, and refused as
a whole or not at all; messages are made of it when somebody asks for them, and bodies
stay where they lie in the frame until somebody decodes them.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from operator import itemgetter
from typing import Final

from msgspec import Struct

from bus.core.incoming_stream import NUMBERS
from bus.core.wire.frames import FrameType
from bus.errors import WireError
from bus.message import Kind

__all__ = [
    "FAILED",
    "LEASED",
    "MESSAGES_MAX",
    "NO_DEADLINE",
    "WANTS_REPLY",
    "Batch",
    "Message",
    "decode_batch",
    "encode_batch",
]

# Messages are some 20 times as large in memory as an empty one is on the wire.
MESSAGES_MAX: Final = 4096

NO_DEADLINE: Final = 2**32 - 1  # for `Message.milliseconds_left`

# For `Message.flags`. Numbers, since to join members of an `IntFlag` costs more than
# to decode the message does.
WANTS_REPLY: Final = 1  # somebody waits for an answer (BUS-MSG-7)
FAILED: Final = 2  # an answer that is no payload but says what went wrong (BUS-MSG-13)
LEASED: Final = 4  # the body is the u64 of a lease: see `Descriptor`

_MSG: Final = FrameType.MSG.value

# Type, epoch, incarnation, first - floor, first, count.
_HEADER: Final = struct.Struct("!BQQIQH")
# Destination, source, kind, flags, id, milliseconds left, hop, length.
_FIXED: Final = struct.Struct("!IIBBQIBI")
_KIND_AT: Final = 8
_FLAGS_AT: Final = 9
_LENGTH: Final = struct.Struct("!23xI")
assert _LENGTH.size == _FIXED.size

_KINDS: Final = {each.value: each for each in Kind}  # quicker than to call `Kind`
_KIND_BYTES: Final = bytes(_KINDS)
_FLAG_BYTES: Final = bytes(range((WANTS_REPLY | FAILED | LEASED) + 1))


class Message(Struct, frozen=True, gc=False):
    """One message on a link; its number follows from its place in the batch.

    to, source: relay numbers, each chosen by the process of the task it means.
    id: which of the sender's waits an answer belongs to.
    milliseconds_left: `NO_DEADLINE` for ever; never a time of the clock (OPEN-7).
    hop: how many processes have passed it on.
    body: the encoded payload; as decoded, a part of the frame, which it keeps alive.
    """

    to: int
    source: int
    kind: Kind
    flags: int
    id: int
    milliseconds_left: int
    hop: int
    body: bytes | memoryview


class Batch(Struct, frozen=True, gc=False):
    """MSG: a run of messages of one stream; with none of them it tells the floor alone.

    epoch: of the stream's numbers; incarnation: of the receiver it is meant for.
    floor: no number below it will be sent again (AMO-12); at most ``first``.
    first: the number of the first message, or of the next where there is none.
    messages: at most `MESSAGES_MAX`. Of a batch that was decoded, each time they are
      gone through they are made anew.
    """

    epoch: int
    incarnation: int
    floor: int
    first: int
    messages: Collection[Message]


def encode_batch(batch: Batch) -> bytes:
    """Return the frame of a batch.

    Raises:
        ValueError: a field does not fit its place; the text says which bound.
    """
    messages = batch.messages
    first = batch.first
    if len(messages) > MESSAGES_MAX:
        msg = f"batch must have <= {MESSAGES_MAX} messages, got {len(messages)}"
        raise ValueError(msg)
    if not 1 <= batch.floor <= first <= NUMBERS - max(1, len(messages)):
        msg = (
            "batch must have numbers of 64 bits and 1 <= floor <= first, "
            f"got {len(messages)} from {first}, floor {batch.floor}"
        )
        raise ValueError(msg)
    try:
        header = _HEADER.pack(
            _MSG,
            batch.epoch,
            batch.incarnation,
            first - batch.floor,
            first,
            len(messages),
        )
        pack = _FIXED.pack
        fixed = [
            pack(
                each.to,
                each.source,
                each.kind,
                each.flags,
                each.id,
                each.milliseconds_left,
                each.hop,
                len(each.body),
            )
            for each in messages
        ]
    except struct.error as error:
        raise ValueError(f"batch cannot be packed: {error}") from error
    return b"".join([header, *fixed, *[each.body for each in messages]])


def decode_batch(frame: memoryview, message_bytes_max: int) -> Batch:
    """Return the batch of a frame, whose first byte is known to be MSG.

    Raises:
        WireError: it is not the frame of one batch and nothing more, or a body in it is
          longer than ``message_bytes_max``.
    """
    if len(frame) < _HEADER.size:
        raise WireError(f"MSG is cut short: {len(frame)} of {_HEADER.size} bytes")
    _, epoch, incarnation, above_floor, first, count = _HEADER.unpack_from(frame)
    if first < 1 or first + count > NUMBERS:
        raise WireError(f"MSG has numbers outside 64 bits: {count} from {first}")
    if above_floor >= first:
        raise WireError(f"MSG has a floor below 1: {above_floor} below {first}")
    if count > MESSAGES_MAX:
        raise WireError(f"MSG has more than {MESSAGES_MAX} messages: {count}")
    bodies_at = _HEADER.size + count * _FIXED.size
    if len(frame) < bodies_at:
        raise WireError(f"MSG is cut short: {len(frame)} of {bodies_at} bytes")
    fixed = frame[_HEADER.size : bodies_at]
    _check_fixed(fixed, len(frame) - bodies_at, message_bytes_max)
    messages = _Packed(fixed, frame[bodies_at:], count)
    return Batch(epoch, incarnation, first - above_floor, first, messages)


def _check_fixed(fixed: memoryview, bodies: int, message_bytes_max: int) -> None:
    announced = sum(_lengths(fixed))
    if announced != bodies:
        raise WireError(f"MSG has bodies of {bodies} bytes, announced: {announced}")
    if announced > message_bytes_max:
        longest = max(_lengths(fixed))
        if longest > message_bytes_max:
            msg = f"MSG has a body of {longest} bytes, allowed: {message_bytes_max}"
            raise WireError(msg)
    # One byte of each message, all of them at once.
    if unknown := fixed[_KIND_AT :: _FIXED.size].tobytes().lstrip(_KIND_BYTES):
        raise WireError(f"MSG has a message of unknown kind: {unknown[0]}")
    if unknown := fixed[_FLAGS_AT :: _FIXED.size].tobytes().lstrip(_FLAG_BYTES):
        raise WireError(f"MSG has a message with unknown flags: {unknown[0]:#x}")


def _lengths(fixed: memoryview) -> Iterable[int]:
    return map(itemgetter(0), _LENGTH.iter_unpack(fixed))


class _Packed(Collection[Message]):
    """The messages of a frame that was looked through."""

    __slots__ = ("_bodies", "_count", "_fixed")

    def __init__(self, fixed: memoryview, bodies: memoryview, count: int) -> None:
        self._fixed = fixed
        self._bodies = bodies
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Message]:
        bodies = self._bodies
        at = 0
        for to, source, kind, flags, number, left, hop, length in _FIXED.iter_unpack(
            self._fixed
        ):
            end = at + length
            yield Message(
                to, source, _KINDS[kind], flags, number, left, hop, bodies[at:end]
            )
            at = end

    def __contains__(self, message: object) -> bool:
        return any(each == message for each in self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Collection):
            return NotImplemented
        return len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none
