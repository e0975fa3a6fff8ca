"""A batch of one message, packed and unpacked in one step (BUS-CHAN-6).

A message that arrives alone is mostly a question or its answer, and a task waits for
it. The bytes are those of `bus.core.wire.batch`, which reads and checks every frame
that is not as simple.
"""

from __future__ import annotations

import struct
from typing import Final

from bus.core.wire.batch import (
    FAILED,
    FOLLOWS_MIN,
    LEASED,
    LOCATION_BYTES,
    RAW,
    WANTS_REPLY,
    Batch,
    Run,
)
from bus.core.wire.frames import FrameType
from bus.message import Kind

__all__ = ["decode_single", "encode_located", "encode_single"]

_MSG: Final = FrameType.MSG.value
_KINDS: Final = {each.value: each for each in Kind}
_FLAGS: Final = frozenset(
    {
        *(0, WANTS_REPLY, FAILED, RAW, WANTS_REPLY | RAW, WANTS_REPLY | FAILED),
        *(LEASED, LEASED | WANTS_REPLY, LEASED | RAW, LEASED | WANTS_REPLY | RAW),
    }
)
# The header of a batch, the head of its one run, and the length of the one body.
_SINGLE: Final = struct.Struct("!BQQIQQQHHIIBBQIBHQI")


def encode_single(
    epoch: int,
    incarnation: int,
    floor: int,
    number: int,
    to: int,
    source: int,
    kind: Kind,
    flags: int,
    id_: int,
    left: int,
    body: bytes | memoryview,
    acknowledged: int = 0,
    extracted: int = 0,
) -> bytes:
    """Return the frame of one short message that originates in this process.

    Its body must be shorter than `FOLLOWS_MIN` bytes. The fields are those of `Batch`
    and `Run`. They are passed by position and no object is made of them, since a task
    waits.

    Raises:
        struct.error: a field is out of range.
    """
    head = _SINGLE.pack(
        _MSG,
        epoch,
        incarnation,
        number - floor,
        number,
        acknowledged,
        extracted,
        1,
        1,
        to,
        source,
        kind,
        flags,
        id_,
        left,
        0,
        1,
        0,
        len(body),
    )
    return head + body


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
        _MSG,
        batch.epoch,
        batch.incarnation,
        batch.first - batch.floor,
        batch.first,
        batch.acknowledged,
        batch.extracted,
        1,
        1,
        run.to,
        run.source,
        run.kind,
        run.flags | LEASED,
        run.id,
        run.milliseconds_left,
        run.hop,
        1,
        run.mid,
        len(location),
    )
    return head + location


def decode_single(frame: bytes) -> Batch | None:
    """Return the batch of a frame with one short message; None for other frames.

    A location counts as a short message (`LEASED`).
    """
    size = len(frame) - _SINGLE.size
    if size < 0 or frame[0] != _MSG:
        return None
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
        to,
        source,
        kind,
        flags,
        id_,
        left,
        hop,
        messages,
        mid,
        length,
    ) = _SINGLE.unpack_from(frame)
    if (
        runs != 1
        or count != 1
        or messages != 1
        or length != size
        or size >= FOLLOWS_MIN
        or above_floor >= first
        or flags not in _FLAGS
        or kind not in _KINDS
        or (flags & LEASED and size != LOCATION_BYTES)
    ):
        return None
    body = frame[_SINGLE.size :]
    bodies = [body if flags & RAW else memoryview(body)]
    run = Run(to, source, _KINDS[kind], flags, id_, left, hop, bodies, mid)
    floor = first - above_floor
    return Batch(epoch, incarnation, floor, first, [run], acknowledged, extracted)
