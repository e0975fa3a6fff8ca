"""The wire: a lone message has the same bytes, and is read as any batch is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bus.errors import WireError
from bus.kernel.streams.incoming_stream import NUMBERS
from bus.kernel.wire import (
    FAILED,
    FOLLOWS_MIN,
    LEASED,
    LOCATION_BYTES,
    NO_DEADLINE,
    RAW,
    WANTS_REPLY,
    Batch,
    Run,
    decode,
    decode_single,
    encode,
    encode_located,
    encode_single,
    ends_head,
    stream_head,
)
from bus.model.message import Kind
from specs.clauses import clause

_FLAGS = (0, WANTS_REPLY, FAILED, RAW, RAW | WANTS_REPLY)


@st.composite
def lone_batches(draw: st.DrawFn) -> Batch:
    """Draw batches of one short message."""
    first = draw(st.integers(1, NUMBERS - 1))
    above = draw(st.integers(0, min(first - 1, 2**32 - 1)))
    short = st.integers(0, 2**32 - 1)
    run = Run(
        draw(short),
        draw(short),
        draw(st.sampled_from(Kind)),
        draw(st.sampled_from(_FLAGS)),
        draw(st.integers(0, 2**64 - 1)),
        draw(st.just(NO_DEADLINE) | short),
        draw(st.integers(0, 255)),
        (draw(st.binary(max_size=100)),),
        draw(st.integers(0, 2**64 - 1)),
    )
    long = st.integers(0, 2**64 - 1)
    floor = first - above
    return Batch(draw(long), draw(long), floor, first, (run,), draw(long), draw(long))


def _plain(batch: Batch) -> Batch:
    """Return a batch whose bodies are bytes, in lists."""
    runs = [
        Run(
            run.to,
            run.source,
            run.kind,
            run.flags,
            run.id,
            run.milliseconds_left,
            run.hop,
            [bytes(body) for body in run.bodies],
            run.mid,
        )
        for run in batch.runs
    ]
    return replace(batch, runs=runs)


@clause("BUS-WIRE-1")
@given(lone_batches())
def test_a_lone_message_is_packed_as_any_batch(batch: Batch) -> None:
    [run] = batch.runs
    made_here = replace(run, hop=0, mid=0)

    frame = encode_single(
        stream_head(batch.epoch, batch.incarnation),
        batch.floor,
        batch.first,
        ends_head(run.to, run.source, run.kind),
        run.flags,
        run.id,
        run.milliseconds_left,
        bytes(run.bodies[0]),
        batch.acknowledged,
        batch.extracted,
    )

    assert frame == encode(replace(batch, runs=[made_here]))


@clause("BUS-WIRE-1")
@given(lone_batches())
def test_a_location_is_packed_as_any_batch(batch: Batch) -> None:
    location = bytes(range(LOCATION_BYTES))
    [run] = batch.runs
    elsewhere = replace(run, flags=run.flags | LEASED, bodies=[location])

    frame = encode_located(batch, location)

    assert frame == encode(replace(batch, runs=[elsewhere]))


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("flags", [0, WANTS_REPLY, RAW | WANTS_REPLY])
def test_a_location_is_read_as_any_batch(flags: int) -> None:
    location = bytes(range(LOCATION_BYTES))
    run = Run(1, 2, Kind.COMMAND, flags, 3, NO_DEADLINE, 0, (b"long",))
    frame = encode_located(Batch(1, 2, 5, 5, [run]), location)

    found, there = decode_single(frame), decode(frame)

    assert found is not None
    assert isinstance(there, Batch)
    assert _plain(found) == _plain(there)
    assert found.runs[0].bodies == [location]


@clause("BUS-WIRE-4")
@pytest.mark.parametrize("length", [0, LOCATION_BYTES - 1, LOCATION_BYTES + 1])
def test_decode_lone_declines_a_location_of_another_length(length: int) -> None:
    run = Run(1, 2, Kind.COMMAND, 0, 3, NO_DEADLINE, 0, (b"long",))
    frame = encode_located(Batch(1, 2, 5, 5, [run]), bytes(length))

    assert decode_single(frame) is None
    with pytest.raises(WireError):
        decode(frame)


@clause("BUS-WIRE-1")
@given(lone_batches())
def test_a_lone_message_is_read_as_any_batch(batch: Batch) -> None:
    found = decode_single(encode(batch))

    assert found is not None
    assert _plain(found) == _plain(batch)
    raw = batch.runs[0].flags & RAW
    assert type(found.runs[0].bodies[0]) is (bytes if raw else memoryview)


@clause("BUS-WIRE-4")
@given(lone_batches(), st.data())
def test_nothing_is_read_that_is_to_be_refused(
    batch: Batch, data: st.DataObject
) -> None:
    """For any changed byte, for any truncation of the frame, and for added bytes.

    The head is longer than most bodies, so a cut in the body is drawn by itself.
    """
    whole = encode(batch)
    frame = bytearray(whole)
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255) | st.just(whole[at]))
    body = len(batch.runs[0].bodies[0])
    cut = st.just(0) | st.integers(0, body) | st.integers(0, len(frame))
    frame = frame[: len(frame) - data.draw(cut)] + data.draw(st.binary(max_size=3))

    found = decode_single(bytes(frame))

    if found is not None:
        there = decode(bytes(frame))
        assert isinstance(there, Batch)
        assert _plain(found) == _plain(there)


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [Run(1, 2, Kind.COMMAND, RAW, 0, NO_DEADLINE, 0, (b"a", b"b"))],
        [Run(1, 2, Kind.COMMAND, RAW, 0, NO_DEADLINE, 0, (b"a",))] * 2,
        [Run(1, 2, Kind.COMMAND, RAW, 0, NO_DEADLINE, 0, (bytes(FOLLOWS_MIN),))],
    ],
)
def test_decode_lone_declines_a_batch_that_is_not_one_short_message(
    runs: list[Run],
) -> None:
    assert decode_single(encode(Batch(1, 2, 5, 5, runs))) is None


@pytest.mark.parametrize(
    ("at", "fault"),
    [
        pytest.param(17, b"\0\0\0\5", id="a floor below 1"),
        pytest.param(45, b"\0\2", id="two runs announced"),
        pytest.param(47, b"\0\2", id="two messages announced"),
        pytest.param(57, b"\xff", id="an unknown kind"),
        pytest.param(58, b"\x80", id="an unknown flag"),
        pytest.param(72, b"\0\2", id="two messages in the run"),
        pytest.param(82, b"\0\0\0\2", id="a longer body announced"),
    ],
)
def test_decode_lone_declines_a_frame_with_one_invalid_field(
    at: int, fault: bytes
) -> None:
    run = Run(1, 2, Kind.COMMAND, RAW, 0, NO_DEADLINE, 0, (b"a",))
    frame = encode(Batch(1, 2, 5, 5, [run]))
    assert decode_single(frame) is not None

    frame = frame[:at] + fault + frame[at + len(fault) :]

    assert decode_single(frame) is None
    with pytest.raises(WireError):
        decode(frame)


@pytest.mark.parametrize("frame", [b"", b"\x0e", bytes(200)])
def test_decode_lone_declines_a_frame_that_is_no_batch(frame: bytes) -> None:
    assert decode_single(frame) is None
    with pytest.raises(WireError):
        decode(frame)
