"""`Batch`: messages with consecutive numbers, as one frame (BUS-CHAN-6).

Packed, in network byte order: the header, the head of each run, the length of each
body, then all bodies. A received frame is checked in one pass, before anything but a
list of those lengths is made from it. It is rejected or accepted as a whole. The runs
of a long batch are made on first access.

`encode_single` and `read_single` pack and unpack a batch of one message in one step.
A message that arrives alone is mostly a question or its answer, and a task waits for
it. The bytes are the same; `read_single` returns None for each frame that is not as
simple.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

from msgspec import Struct

from bus.errors import WireError
from bus.kernel.streams.incoming_stream import NUMBERS
from bus.kernel.wire.frames import FrameType
from bus.kernel.wire.lengths import Bodies, Lengths
from bus.model.message import Kind

__all__ = [
    "BATCH_BYTES_MAX",
    "FAILED",
    "FOLLOWS",
    "FOLLOWS_MIN",
    "FRAME_BYTES_MAX",
    "HEAD_BYTES",
    "LEASED",
    "LOCATION_BYTES",
    "MESSAGES_MAX",
    "NO_DEADLINE",
    "RAW",
    "WANTS_REPLY",
    "Batch",
    "Run",
    "decode_batch",
    "decode_single",
    "encode_batch",
    "encode_located",
    "encode_single",
    "ends_head",
    "frame_bytes_max",
    "read_single",
    "stream_head",
]

# An empty message is some 50 times as large in memory as on the wire.
MESSAGES_MAX: Final = 4096

# Maximum total length of the bodies, if there is more than one.
BATCH_BYTES_MAX: Final = 512 * 2**10

# Minimum length of a body that may be a frame of its own: below that a second frame
# costs more than a copy.
FOLLOWS_MIN: Final = 128 * 2**10

# The runs of a batch of at most this many messages are made along with the batch, which
# is faster; they are 32 KiB at most.
_AT_ONCE: Final = 64

_GROUP: Final = 32  # payloads of one length that one call unpacks

NO_DEADLINE: Final = 2**32 - 1  # for `Run.milliseconds_left`

# For `Run.flags`. Plain integers, since combining members of an `IntFlag` costs more
# than decoding the message.
WANTS_REPLY: Final = 1  # a task waits for an answer (BUS-MSG-7)
FAILED: Final = 2  # an answer that carries an error, not a payload (BUS-MSG-13)
LEASED: Final = 4  # the body of the only message is in shared memory, at a location
RAW: Final = 8  # the bodies are payloads of bytes as they are, not MessagePack
FOLLOWS: Final = 16  # the body of the only message is the next frame of the link

# Length of a location, which takes the place of a body with `LEASED`.
LOCATION_BYTES: Final = 32

_MSG: Final = FrameType.MSG.value

# Type, epoch, incarnation, first - floor, first, acknowledged, extracted, runs,
# messages.
_HEADER: Final = struct.Struct("!BQQIQQQHH")
# Destination, source, kind, flags, id, milliseconds left, hop, messages, mid.
_HEAD: Final = struct.Struct("!IIBBQIBHQ")
_CHECKED: Final = struct.Struct("!8xBB13xH8x")  # kind, flags and messages of a head
_FLAGS_AT: Final = 9
_LENGTH: Final = struct.Struct("!I")
assert _CHECKED.size == _HEAD.size

# Maximum length of a frame, except a frame that is the body of a message. Every link
# accepts this length, however short the messages that its processes accept.
FRAME_BYTES_MAX: Final = (
    _HEADER.size + MESSAGES_MAX * (_HEAD.size + _LENGTH.size) + BATCH_BYTES_MAX
)
_KINDS: Final = {each.value: each for each in Kind}  # faster than a call of `Kind`
_FLAGS_ALL: Final = WANTS_REPLY | FAILED | LEASED | RAW | FOLLOWS
# With RAW the body is a payload, so it is no error. Errors are too short for shared
# memory, and a body is in one place.
_FLAGS: Final = frozenset(
    flags
    for flags in range(_FLAGS_ALL + 1)
    if not (flags & FAILED and flags & (RAW | LEASED))
    and not (flags & LEASED and flags & FOLLOWS)
)


def frame_bytes_max(message_bytes_max: int) -> int:
    """Return the maximum length of a frame on a link to a process, in bytes.

    message_bytes_max: its longest message. Messages that are sent together may be
      longer (BUS-CHAN-6).
    """
    return max(message_bytes_max, FRAME_BYTES_MAX)


class Run(Struct, frozen=True, gc=False):
    """Consecutive messages of one task for another, which differ only in their bodies.

    to, source: relay numbers, each assigned by the process of its task.
    id: the number that the asking task gave its wait; the answer repeats it.
    milliseconds_left: time left, `NO_DEADLINE` for no limit; never a clock time
      (OPEN-7).
    hop: how many processes have forwarded them.
    bodies: the encoded payloads, at least one. If decoded, they are `Bodies` with
      `RAW`; else parts of the frame, which they keep alive. They are empty while a body
      follows. With `LEASED` the only one is a location.
    mid: the number of the only message in journals; 0 if none records it.
    """

    to: int
    source: int
    kind: Kind
    flags: int
    id: int
    milliseconds_left: int
    hop: int
    bodies: Sequence[bytes | memoryview]
    mid: int = 0


class Batch(Struct, frozen=True, gc=False):
    """MSG: messages of one stream, run by run; without a run it only carries the floor.

    epoch: of the stream's numbers; incarnation: of the receiver that it is meant for.
    floor: no number below it will be sent again (AMO-12); at most ``first``.
    first: the number of the first message, or of the next one if there is none. Further
      messages have the numbers after it, across all runs.
    runs: of at most `MESSAGES_MAX` messages together.
    acknowledged: the sender of the frame has received all messages up to this number; 0
      for none, or if some are missing.
    extracted: the task that sends the first run has taken all of its messages up to
      this number.
    """

    type: ClassVar = FrameType.MSG
    epoch: int
    incarnation: int
    floor: int
    first: int
    runs: Sequence[Run]
    acknowledged: int = 0
    extracted: int = 0

    @property
    def count(self) -> int:
        """The number of messages in all runs."""
        return sum([len(run.bodies) for run in self.runs])


def encode_batch(batch: Batch) -> bytes:
    """Return the frame of a batch.

    Raises:
        ValueError: a field is out of range, or a run is empty; the text names the
          bound.
    """
    runs = batch.runs
    first = batch.first
    bodies: list[bytes | memoryview] = []
    for run in runs:
        if not run.bodies:
            raise ValueError("batch must have no run without a message")
        bodies += run.bodies
    count = len(bodies)
    if count > MESSAGES_MAX:
        msg = f"batch must have <= {MESSAGES_MAX} messages, got {count}"
        raise ValueError(msg)
    if not 1 <= batch.floor <= first <= NUMBERS - max(1, count):
        msg = (
            "batch must have numbers of 64 bits and 1 <= floor <= first, "
            f"got {count} from {first}, floor {batch.floor}"
        )
        raise ValueError(msg)
    try:
        header = _HEADER.pack(
            _MSG,
            batch.epoch,
            batch.incarnation,
            first - batch.floor,
            first,
            batch.acknowledged,
            batch.extracted,
            len(runs),
            count,
        )
        pack = _HEAD.pack
        heads = [
            pack(
                run.to,
                run.source,
                run.kind,
                run.flags,
                run.id,
                run.milliseconds_left,
                run.hop,
                len(run.bodies),
                run.mid,
            )
            for run in runs
        ]
        if count == 1:  # the most frequent case, and faster by far
            lengths = _LENGTH.pack(len(bodies[0]))
        elif len(runs) == 1 and type(runs[0].bodies) is Bodies:
            lengths = runs[0].bodies.lengths.pack()
        else:
            lengths = struct.pack(f"!{count}I", *map(len, bodies))
    except struct.error as error:
        raise ValueError(f"batch cannot be packed: {error}") from error
    if count == 1 and runs[0].flags & FOLLOWS:
        bodies.clear()
    return b"".join([header, *heads, lengths, *bodies])


def decode_batch(frame: bytes | memoryview, message_bytes_max: int) -> Batch:
    """Return the batch of a frame, whose first byte is known to be MSG.

    Raises:
        WireError: it is not the frame of one batch and nothing more, or a body in it is
          longer than ``message_bytes_max``.
    """
    size = len(frame)
    if size < _HEADER.size:
        raise WireError(f"MSG is cut short: {size} of {_HEADER.size} bytes")
    (
        _,
        epoch,
        incarnation,
        above_floor,
        first,
        acknowledged,
        extracted,
        runs,
        count,
    ) = _HEADER.unpack_from(frame)
    if first < 1 or first + count > NUMBERS:
        raise WireError(f"MSG has numbers outside 64 bits: {count} from {first}")
    if above_floor >= first:
        raise WireError(f"MSG has a floor below 1: {above_floor} below {first}")
    if count > MESSAGES_MAX:
        raise WireError(f"MSG has more than {MESSAGES_MAX} messages: {count}")
    lengths_at = _HEADER.size + runs * _HEAD.size
    bodies_at = lengths_at + count * _LENGTH.size
    if size < bodies_at:
        raise WireError(f"MSG is cut short: {size} of {bodies_at} bytes")
    heads = frame[_HEADER.size : lengths_at]
    _check_heads(heads, count)
    lengths = Lengths.unpack(frame[lengths_at:bodies_at])
    if runs == 1 and heads[_FLAGS_AT] & FOLLOWS:
        _check_alone(lengths.total, size - bodies_at)
        _check_lengths(lengths, lengths.total, message_bytes_max)
        made: Sequence[Run] = _bodiless(heads)
    else:
        _check_lengths(lengths, size - bodies_at, message_bytes_max)
        if runs == 1 and heads[_FLAGS_AT] & LEASED and lengths.total != LOCATION_BYTES:
            raise WireError(f"MSG has a location of {lengths.total} bytes")
        if count <= _AT_ONCE:
            made = _unpacked(frame, heads, lengths, bodies_at)
        else:
            made = _Packed(runs, frame, heads, lengths, bodies_at)
    floor = first - above_floor
    return Batch(epoch, incarnation, floor, first, made, acknowledged, extracted)


def _check_heads(heads: bytes | memoryview, count: int) -> None:
    announced = 0
    for kind, flags, messages in _CHECKED.iter_unpack(heads):
        if kind not in _KINDS:
            raise WireError(f"MSG has a message of unknown kind: {kind}")
        if flags not in _FLAGS:
            if flags > _FLAGS_ALL:
                raise WireError(f"MSG has a message with unknown flags: {flags:#x}")
            raise WireError(f"MSG has flags that exclude one another: {flags:#x}")
        if not messages:
            raise WireError("MSG has a run of no messages")
        if flags & (FOLLOWS | LEASED) and count > 1:
            raise WireError("MSG has a body elsewhere, and another message")
        announced += messages
    if announced != count:
        raise WireError(f"MSG has runs of {announced} messages, announced: {count}")


def _check_lengths(lengths: Lengths, bodies: int, message_bytes_max: int) -> None:
    announced = lengths.total
    if announced != bodies:
        raise WireError(f"MSG has bodies of {bodies} bytes, announced: {announced}")
    if announced > message_bytes_max and lengths.longest > message_bytes_max:
        msg = f"MSG has a body of {lengths.longest} bytes, allowed: {message_bytes_max}"
        raise WireError(msg)


def _check_alone(length: int, bodies: int) -> None:
    if bodies:
        raise WireError(f"MSG has a separate body, and another one of {bodies} bytes")
    if length < FOLLOWS_MIN:
        raise WireError(
            f"MSG has a separate body of {length} bytes, allowed: from {FOLLOWS_MIN}"
        )


def _bodiless(heads: bytes | memoryview) -> list[Run]:
    to, source, kind, flags, id_, left, hop, _, mid = _HEAD.unpack(heads)
    return [Run(to, source, _KINDS[kind], flags, id_, left, hop, (), mid)]


def _unpacked(
    frame: bytes | memoryview,
    heads: bytes | memoryview,
    lengths: Lengths,
    bodies_at: int,
) -> list[Run]:
    views = memoryview(frame)
    end = bodies_at
    begun = 0
    runs = []
    for head in _HEAD.iter_unpack(heads):
        to, source, kind, flags, id_, left, hop, count, mid = head
        own = lengths.part(begun, begun + count)
        begun += count
        bodies: Sequence[bytes | memoryview]
        if flags & RAW:
            bodies = _payloads(frame, end, own)
            end += own.total
        else:
            bodies = [views[end : (end := end + length)] for length in own]
        runs.append(Run(to, source, _KINDS[kind], flags, id_, left, hop, bodies, mid))
    return runs


def _payloads(frame: bytes | memoryview, end: int, lengths: Lengths) -> Bodies:
    """Return the payloads of bytes that lie one behind the other in a frame."""
    made: list[bytes] = []
    rest, count = lengths, lengths.count
    # Messages that are sent together mostly have one length. Then one call unpacks many
    # of them, in a fifth of the time.
    if count >= _GROUP and lengths.alike:
        group = _group_of(lengths.alike)
        for _ in range(count // _GROUP):
            made += group.unpack_from(frame, end)
            end += group.size
        rest = lengths.part(len(made), count)
    # Each begins where the one before it ends.
    made += [bytes(frame[end : (end := end + length)]) for length in rest]
    return Bodies(made, lengths)


@lru_cache(maxsize=64)
def _group_of(length: int) -> struct.Struct:
    """Return the struct that unpacks `_GROUP` payloads of one length."""
    return struct.Struct(f"{length}s" * _GROUP)


class _Packed(Sequence[Run]):
    """The runs of a frame that was checked: made on first access, and kept."""

    __slots__ = ("_made", "_parts", "_runs")

    def __init__(self, runs: int, *parts: Any) -> None:
        self._runs = runs
        self._parts = parts
        self._made: list[Run] | None = None

    def __len__(self) -> int:
        return self._runs

    def __iter__(self) -> Iterator[Run]:
        return iter(self._list())

    def __getitem__(self, index: Any) -> Any:
        return self._list()[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return self._list() == list(other)

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash

    def _list(self) -> list[Run]:
        if self._made is None:
            self._made = _unpacked(*self._parts)
        return self._made


_SINGLE_FLAGS: Final = frozenset(
    (0, WANTS_REPLY, FAILED, RAW, WANTS_REPLY | RAW, WANTS_REPLY | FAILED)
)
_LEASED_FLAGS: Final = frozenset(
    LEASED | each for each in (0, WANTS_REPLY, RAW, WANTS_REPLY | RAW)
)
# Type, epoch, incarnation.
_STREAM: Final = struct.Struct("!BQQ")
# Runs, messages, destination, source, kind.
_ENDS: Final = struct.Struct("!HHIIB")
# The header of a batch, the head of its one run, and the length of the one body: the
# stream, how far the number is above the floor, the number, `Batch.acknowledged`,
# `Batch.extracted`, the ends; the flags, id, time left and hop of the run; the count of
# messages, the trace's number, the length.
_SINGLE: Final = struct.Struct(f"!{_STREAM.size}sIQQQ{_ENDS.size}sBQIBHQI")
HEAD_BYTES: Final = _SINGLE.size


def stream_head(epoch: int, incarnation: int) -> bytes:
    """Return the beginning of the frames of a stream."""
    return _STREAM.pack(_MSG, epoch, incarnation)


def ends_head(to: int, source: int, kind: Kind) -> bytes:
    """Return the part of a frame with one message that names its ends and kind."""
    return _ENDS.pack(1, 1, to, source, kind)


def encode_single(
    stream: bytes,
    floor: int,
    number: int,
    ends: bytes,
    flags: int,
    id_: int,
    left: int,
    body: bytes | memoryview,
    acknowledged: int = 0,
    extracted: int = 0,
) -> bytes:
    """Return the frame of one short message that originates in this process.

    Its body must be shorter than `FOLLOWS_MIN` bytes. The fields are passed by position
    and no object is made of them, since a task waits.

    Raises:
        struct.error: a field is out of range.
    """
    return (
        _SINGLE.pack(
            stream,
            number - floor,
            number,
            acknowledged,
            extracted,
            ends,
            flags,
            id_,
            left,
            0,
            1,
            0,
            len(body),
        )
        + body
    )


def encode_located(batch: Batch, location: bytes) -> bytes:
    """Return the frame of a batch whose only body is in shared memory.

    The batch itself has the body. No copies of its objects are made, since the same
    message may be for many links.

    location: takes the place of the body.

    Raises:
        struct.error: a field is out of range.
    """
    run = batch.runs[0]
    head = _SINGLE.pack(
        stream_head(batch.epoch, batch.incarnation),
        batch.first - batch.floor,
        batch.first,
        batch.acknowledged,
        batch.extracted,
        ends_head(run.to, run.source, run.kind),
        run.flags | LEASED,
        run.id,
        run.milliseconds_left,
        run.hop,
        1,
        run.mid,
        len(location),
    )
    return head + location


def read_single(frame: bytes) -> tuple[Any, ...] | None:
    """Return the fields of the head of a frame with one short message.

    None for other frames. `stream_head` and `ends_head` make the first and the sixth
    field, which are not checked: a process compares them with those it expects. A
    location counts as a short message (`LEASED`).
    """
    size = len(frame) - HEAD_BYTES
    if not 0 <= size < FOLLOWS_MIN:
        return None
    head = _SINGLE.unpack_from(frame)
    _, above_floor, first, _, _, _, flags, _, _, _, messages, _, length = head
    if (
        length != size
        or messages != 1
        or above_floor >= first
        or (
            flags not in _SINGLE_FLAGS
            and not (flags in _LEASED_FLAGS and size == LOCATION_BYTES)
        )
    ):
        return None
    return head


def decode_single(frame: bytes) -> Batch | None:
    """Return the batch of a frame with one short message; None for other frames."""
    head = read_single(frame)
    if head is None:
        return None
    stream, above_floor, first, acked, extracted, ends, *run = head
    flags, id_, left, hop, _, mid, _ = run
    type_, epoch, incarnation = _STREAM.unpack(stream)
    runs, count, to, source, kind = _ENDS.unpack(ends)
    if type_ != _MSG or runs != 1 or count != 1 or kind not in _KINDS:
        return None
    body = frame[HEAD_BYTES:]
    bodies = [body if flags & RAW else memoryview(body)]
    return Batch(
        epoch,
        incarnation,
        first - above_floor,
        first,
        [Run(to, source, _KINDS[kind], flags, id_, left, hop, bodies, mid)],
        acked,
        extracted,
    )
