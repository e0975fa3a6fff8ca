"""Long messages: the body is a frame of its own, and no other frame replaces it."""

from __future__ import annotations

from typing import Any

import pytest

from bus.errors import WireError
from bus.kernel import wire
from bus.kernel.wire import (
    FOLLOWS_MIN,
    Batch,
    FrameReader,
    Ping,
    decode,
    encode,
    pieces,
)
from bus.kernel.wire.batch import FOLLOWS
from bus.model.message import Kind
from specs.clauses import clause

SIZES = (0, 1, FOLLOWS_MIN - 1, FOLLOWS_MIN, FOLLOWS_MIN + 1, 2**20)


def run(*bodies: bytes, flags: int = wire.RAW) -> wire.Run:
    return wire.Run(1, 2, Kind.COMMAND, flags, 3, wire.NO_DEADLINE, 0, bodies)


def batch(*runs: wire.Run) -> Batch:
    return Batch(1, 2, 5, 5, runs)


def long(size: int = FOLLOWS_MIN) -> tuple[bytes, bytes]:
    """Return the two frames of a long message."""
    head, body = pieces(batch(run(bytes(size))))
    return head, body


def plain(frame: Any) -> list[tuple[int, list[bytes]]]:
    return [(each.flags, [bytes(body) for body in each.bodies]) for each in frame.runs]


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("flags", [0, wire.RAW, wire.WANTS_REPLY])
def test_the_reader_returns_the_batch_that_was_sent(size: int, flags: int) -> None:
    sent, reader = batch(run(b"x" * size, flags=flags)), FrameReader()

    frames = [reader.read(each) for each in pieces(sent)]

    assert len(frames) == (2 if size >= FOLLOWS_MIN else 1)
    assert frames[:-1] in ([], [None])
    assert plain(frames[-1]) == plain(sent)
    assert isinstance(reader.read(encode(Ping(number=1))), Ping)


@clause("BUS-WIRE-1")
def test_the_bytes_of_a_long_body_are_copied_nowhere() -> None:
    payload, reader = bytes(FOLLOWS_MIN), FrameReader()
    head, body = pieces(batch(run(payload)))
    assert body is payload
    reader.read(head)

    frame = reader.read(body)

    assert isinstance(frame, Batch)
    assert frame.runs[0].bodies[0] is payload


@clause("BUS-WIRE-1")
@pytest.mark.parametrize(
    "sent",
    [
        batch(),
        batch(run(bytes(FOLLOWS_MIN), b"")),
        batch(run(bytes(FOLLOWS_MIN)), run(b"")),
        Ping(number=1),
    ],
    ids=["the floor alone", "two messages", "two runs", "a control frame"],
)
def test_anything_but_a_lone_long_message_is_sent_in_one_frame(sent: Any) -> None:
    (data,) = pieces(sent)

    assert data == encode(sent)
    assert decode(data) == sent or plain(decode(data)) == plain(sent)


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("size", [1, FOLLOWS_MIN - 1, FOLLOWS_MIN + 1])
def test_a_body_of_another_length_is_refused(size: int) -> None:
    reader = FrameReader()
    reader.read(long()[0])

    with pytest.raises(WireError, match=f"body has {size} bytes, announced: 131072"):
        reader.read(bytes(size))


@clause("BUS-WIRE-1", "BUS-MSG-20")
def test_an_empty_body_stands_for_one_without_memory() -> None:
    """The message keeps the flag, and its body is the length."""
    reader = FrameReader()
    reader.read(long()[0])

    frame = reader.read(b"")

    assert isinstance(frame, Batch)
    assert plain(frame) == [(wire.RAW | FOLLOWS, [FOLLOWS_MIN.to_bytes(4)])]
    assert reader.begun is None


@clause("BUS-WIRE-1")
def test_a_body_may_be_as_long_as_any() -> None:
    head, _ = long(2**20)
    assert decode(head, message_bytes_max=2**20) is not None

    with pytest.raises(WireError, match="body of 1048576 bytes, allowed: 1048575"):
        decode(head, message_bytes_max=2**20 - 1)


def followed(*runs: wire.Run) -> bytes:
    """Encode runs as if the body of each was to follow."""
    with_flag = [
        wire.Run(
            each.to,
            each.source,
            each.kind,
            each.flags | FOLLOWS,
            each.id,
            each.milliseconds_left,
            each.hop,
            each.bodies,
        )
        for each in runs
    ]
    return encode(batch(*with_flag))


@clause("BUS-WIRE-1")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (
            followed(run(bytes(FOLLOWS_MIN - 1))),
            "of 131071 bytes, allowed: from 131072",
        ),
        (followed(run(bytes(FOLLOWS_MIN), b"")), "and another message"),
        (followed(run(bytes(FOLLOWS_MIN)), run(b"")), "and another message"),
        (long()[0] + b"!", "a separate body, and another one of 1 bytes"),
        (long()[0][:-1], "cut short"),
    ],
    ids=["short", "two messages", "two runs", "and bytes", "cut"],
)
def test_an_invalid_announcement_of_a_body_is_rejected(data: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        decode(data)


def test_it_is_known_whether_a_body_comes_next() -> None:
    reader, seen = FrameReader(), list[bool]()
    for data in long()[:2]:
        seen.append(reader.begun is not None)
        reader.read(data)

    assert [*seen, reader.begun is not None] == [False, True, False]
