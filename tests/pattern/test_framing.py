"""`Framing`: messages within the frames of each kind of connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import WireError
from bus.pattern import native
from bus.pattern.framing import NativeFraming, Pair1Framing, PlainFraming
from bus.pattern.message_run import MessageRun
from bus.pattern.native import Hello, SenderAccount
from bus.pattern.wire import frame_head
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.pattern.framing import Framing

LONG = 1 << 16
BODIES = st.lists(st.binary(max_size=20), min_size=1, max_size=5)
FRAMINGS: list[Callable[[], Framing]] = [
    PlainFraming,
    lambda: Pair1Framing(8),
    NativeFraming,
]


def frames_of(framing: Framing, run: MessageRun, *, is_ipc: bool) -> list[bytes]:
    """Return the frames of some messages, without their heads.

    The run keeps them, so it does not equal a new one: compare a `part` of it.
    """
    encoded = framing.encode(run, is_ipc=is_ipc)
    data = encoded if isinstance(encoded, bytes) else b"".join(encoded)
    skipped = 1 if is_ipc else 0
    frames = []
    while data:
        begin = skipped + 8
        assert data[:skipped] == b"\1" * skipped
        end = begin + int.from_bytes(data[skipped:begin])
        frames.append(data[begin:end])
        data = data[end:]
    return frames


@clause("BP-9", "BP-16", "BP-19", "BP-20")
def test_plain_frames_are_the_bodies_in_their_order() -> None:
    framing = PlainFraming()

    first = framing.read([b"a", b""], 7)
    second = framing.read([b"c"], 7)

    assert first == ([MessageRun(7, 1, [b"a", b""])], [])
    assert second == ([MessageRun(7, 3, [b"c"])], [])


@clause("BP-9", "BP-19", "BP-20")
@pytest.mark.parametrize("make", FRAMINGS)
@given(bodies=BODIES, first=st.integers(1, 2**64 - 6), is_ipc=st.booleans())
def test_messages_are_read_as_they_were_sent(
    make: Callable[[], Framing], bodies: list[bytes], first: int, *, is_ipc: bool
) -> None:
    frames = frames_of(make(), MessageRun(5, first, bodies), is_ipc=is_ipc)

    runs, controls = make().read(frames, 9)

    assert [each for run in runs for each in run.bodies] == bodies
    assert controls == []
    if make is NativeFraming:
        assert runs == [MessageRun(5, first, bodies)]
    else:
        assert [(run.origin, run.first) for run in runs] == [(9, 1)]


@clause("BP-20")
@pytest.mark.parametrize("is_ipc", [True, False])
@pytest.mark.parametrize("make", FRAMINGS)
def test_a_long_body_is_not_copied(
    make: Callable[[], Framing], *, is_ipc: bool
) -> None:
    long, short = bytes(LONG), bytes(LONG - 1)

    pieces = make().encode(MessageRun(1, 1, [long]), is_ipc=is_ipc)
    joined = make().encode(MessageRun(1, 1, [short]), is_ipc=is_ipc)

    assert isinstance(pieces, tuple)
    assert pieces[1] is long
    assert isinstance(joined, bytes)
    assert joined.endswith(short)
    assert len(joined) == len(pieces[0]) + LONG - 1


@clause("BP-9")
def test_a_run_for_several_peers_is_encoded_for_each_kind_of_them() -> None:
    run = MessageRun(1, 1, [b"x"])
    made = [
        make().encode(run, is_ipc=is_ipc)
        for _ in range(2)
        for make in FRAMINGS
        for is_ipc in (True, False)
    ]

    assert len({*made}) == 6
    assert made[:6] == made[6:]


@clause("BP-16")
def test_native_messages_and_accounts_are_distinguished() -> None:
    run = MessageRun(1, 2, [b"\3 like an account", b"\2"])
    framing = NativeFraming()
    frames = [
        native.encode(SenderAccount(4, 0)),
        *frames_of(framing, run, is_ipc=False),
        native.encode(Hello(8)),
    ]

    assert framing.read(frames, 99) == ([run.part(0)], [SenderAccount(4, 0), Hello(8)])


@clause("BP-4", "BP-16")
def test_a_native_frame_that_breaks_the_rules_is_refused() -> None:
    good = native.head(MessageRun(1, 1, [b"good"])) + b"good"

    with pytest.raises(WireError):
        NativeFraming().read([good, b"\0"], 1)


@clause("BP-4")
@pytest.mark.parametrize("others", [[], [b"short"]])
def test_a_native_message_above_the_limit_is_refused(others: list[bytes]) -> None:
    """Several short ones together may be longer."""
    allowed = MessageRun(1, 1, [*others, bytes(100), bytes(100)])
    refused = MessageRun(1, 1, [*others, bytes(101)])
    framing = NativeFraming(100)

    frames = frames_of(framing, allowed, is_ipc=False)
    assert framing.read(frames, 1) == ([allowed.part(0)], [])
    with pytest.raises(WireError, match="message has 101 bytes, allowed: 100"):
        framing.read(frames_of(framing, refused, is_ipc=False), 1)
    assert NativeFraming(0).read(frames_of(framing, refused, is_ipc=False), 1)


# PAIR version 1: the head of its messages is a part of the wire.


@clause("BP-4")
@pytest.mark.parametrize("hops", [0, 1, 7, 8])
def test_pair1_messages_with_few_hops_are_read(hops: int) -> None:
    framing = Pair1Framing(8)

    runs, _ = framing.read([hops.to_bytes(4) + b"body", hops.to_bytes(4)], 3)

    assert runs == [MessageRun(3, 1, [b"body", b""])]
    assert framing.dropped == 0


@clause("BP-4")
@pytest.mark.parametrize("hops", [9, 100, 255])
def test_pair1_messages_with_many_hops_are_dropped_and_counted(hops: int) -> None:
    framing = Pair1Framing(8)
    far, near = hops.to_bytes(4) + b"far", (1).to_bytes(4) + b"near"

    assert framing.read([far, near, far], 3) == ([MessageRun(3, 1, [b"near"])], [])
    assert framing.dropped == 2
    assert framing.read([far], 3) == ([], [])
    assert framing.read([near], 3) == ([MessageRun(3, 2, [b"near"])], [])


@clause("BP-4")
@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        b"\0\0\1",
        b"\0\0\1\0body",
        b"\xff\xff\xff\xffbody",
        b"\1\0\0\0",
    ],
)
def test_a_pair1_message_without_a_number_of_hops_is_refused(frame: bytes) -> None:
    with pytest.raises(WireError, match="PAIR1 message has a wrong head"):
        Pair1Framing(8).read([frame], 3)


@clause("BP-9")
def test_the_head_of_a_frame() -> None:
    assert frame_head(258, is_ipc=False) == bytes.fromhex("00 00 00 00 00 00 01 02")
    assert frame_head(258, is_ipc=True) == bytes.fromhex("01 00 00 00 00 00 00 01 02")
