"""The wire: every small fault in a golden frame."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec
import pytest

from bus.errors import WireError
from bus.kernel import wire
from bus.kernel.wire import OPTIONAL, FrameType, decode
from specs.clauses import clause
from tests.kernel.golden import FRAMES, VECTORS
from tests.kernel.raw_frames import REGISTRATION, control, head, msg, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTROL = [name for name in FRAMES if not name.startswith("MSG")]
BATCHES = [name for name in FRAMES if name.startswith("MSG")]
HEADER_BYTES = 49
HEAD_BYTES = 33
COUNT_AT = 23  # in a head


# Small faults.


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("name", VECTORS)
def test_a_frame_that_is_cut_short_is_refused(name: str) -> None:
    data = VECTORS[name]

    for length in range(len(data)):
        with pytest.raises(WireError):
            decode(data[:length])


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("more", [b"\x00", b"\x80", b"\xc0"])
def test_a_frame_with_something_after_it_is_refused(name: str, more: bytes) -> None:
    with pytest.raises(WireError):
        decode(VECTORS[name] + more)


@pytest.mark.deep
@clause("BUS-WIRE-1")
@pytest.mark.parametrize("name", VECTORS)
def test_a_frame_with_one_bit_wrong_is_another_frame_or_refused(name: str) -> None:
    data = VECTORS[name]
    for at in range(len(data)):
        for bit in range(8):
            wrong = bytearray(data)
            wrong[at] ^= 1 << bit

            found = outcome(bytes(wrong))

            assert isinstance(found, WireError) or found != FRAMES[name]
            known = wrong[0] in set(FrameType)
            assert (found is None) == (wrong[0] >= OPTIONAL and not known)


# Lengths.


def edges(right: int) -> list[int]:
    every = [0, 1, right - 1, right + 1, 2**16, 2**31 - 1, 2**32 - 1]
    return [edge for edge in every if edge >= 0 and edge != right]


def lengths(data: bytes, at: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """Yield the positions of MessagePack lengths in the short form of golden frames.

    For each: start and end of its head, the head of the form with a length of four
    bytes, and the length.
    """
    while at < len(data):
        head = data[at]
        if 0x80 <= head <= 0x8F:
            yield at, at + 1, 0xDF, head & 15
            at += 1
        elif 0x90 <= head <= 0x9F:
            yield at, at + 1, 0xDD, head & 15
            at += 1
        elif 0xA0 <= head <= 0xBF:
            yield at, at + 1, 0xDB, head & 31
            at += 1 + (head & 31)
        else:
            widths = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
            assert head < 0x80 or head >= 0xC2, hex(head)
            at += 1 + widths.get(head, 0)


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("name", CONTROL)
def test_every_length_in_a_control_frame_is_at_its_edges(name: str) -> None:
    data = VECTORS[name]
    seen = 0
    for start, stop, marker, right in lengths(data, 1):
        seen += 1
        frames = {
            length: data[:start] + struct.pack("!BI", marker, length) + data[stop:]
            for length in (right, *edges(right))
        }

        assert decode(frames.pop(right)) == FRAMES[name]
        for length, wrong in frames.items():
            found = outcome(wrong)
            # A key longer by one is unknown, so its field is skipped.
            assert isinstance(found, WireError) or found != FRAMES[name]
            assert isinstance(found, WireError) or length <= right + 1
    assert seen


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("name", BATCHES)
def test_every_length_in_a_batch_is_at_its_edges(name: str) -> None:
    data = VECTORS[name]
    runs, count = struct.unpack_from("!HH", data, HEADER_BYTES - 4)
    lengths_at = HEADER_BYTES + runs * HEAD_BYTES
    counts = [HEADER_BYTES - 4, HEADER_BYTES - 2]
    counts += range(HEADER_BYTES + COUNT_AT, lengths_at, HEAD_BYTES)

    for at in counts:
        (right,) = struct.unpack_from("!H", data, at)
        for wrong in {*edges(right), 2**16 - 1} - {2**16, 2**31 - 1, 2**32 - 1}:
            changed = bytearray(data)
            struct.pack_into("!H", changed, at, wrong)
            with pytest.raises(WireError):
                decode(bytes(changed))
    for at in range(lengths_at, lengths_at + 4 * count, 4):
        (right,) = struct.unpack_from("!I", data, at)
        for wrong in edges(right):
            changed = bytearray(data)
            struct.pack_into("!I", changed, at, wrong)
            with pytest.raises(WireError, match=r"bodies of \d+ bytes, announced"):
                decode(bytes(changed))


# Errors name the fault.


@clause("BUS-WIRE-1")
@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (b"", "frame is empty"),
        (msg()[:48], "MSG is cut short: 48 of 49 bytes"),
        (msg(first=0), "numbers outside 64 bits: 0 from 0"),
        (
            msg(head(count=2), first=2**64 - 1, lengths=[0, 0]),
            f"numbers outside 64 bits: 2 from {2**64 - 1}",
        ),
        (msg(first=5, floor=5), "a floor below 1: 5 below 5"),
        (msg(head(count=4097), lengths=[0] * 4097), "more than 4096 messages: 4097"),
        (msg(*[head()] * 4097, lengths=[0] * 4097), "more than 4096 messages: 4097"),
        (msg(head(), runs=2, lengths=[0]), "MSG is cut short: 86 of 119 bytes"),
        (msg(head(), count=2, lengths=[0]), "MSG is cut short: 86 of 90 bytes"),
        (msg(head(count=2), lengths=[0]), "runs of 2 messages, announced: 1"),
        (msg(head(), head(), lengths=[0]), "runs of 2 messages, announced: 1"),
        (msg(head(), lengths=[0, 0]), "runs of 1 messages, announced: 2"),
        (msg(lengths=[0]), "runs of 0 messages, announced: 1"),
        (msg(head(count=0)), "a run of no messages"),
        (msg(head(), head(count=0), lengths=[0]), "a run of no messages"),
        (
            msg(head(), lengths=[4], bodies=b"abc"),
            "bodies of 3 bytes, announced: 4",
        ),
        (
            msg(head(count=2), lengths=[2, 2**32 - 1], bodies=b"a"),
            f"bodies of 1 bytes, announced: {2**32 + 1}",
        ),
        (msg(bodies=b"a"), "bodies of 1 bytes, announced: 0"),
        (
            msg(head(), head(kind=5), head(), lengths=[0] * 3),
            "a message of unknown kind: 5",
        ),
        (msg(head(kind=0), lengths=[0]), "a message of unknown kind: 0"),
        (
            msg(head(), head(flags=0x28), lengths=[0, 0]),
            "a message with unknown flags: 0x28",
        ),
        (msg(head(flags=0x20), lengths=[0]), "a message with unknown flags: 0x20"),
        (
            msg(head(flags=wire.RAW | wire.FAILED), lengths=[0]),
            "flags that exclude one another: 0xa",
        ),
        (
            msg(head(), head(flags=wire.FAILED | wire.LEASED), lengths=[0, 0]),
            "flags that exclude one another: 0x6",
        ),
        (
            msg(head(flags=wire.LEASED | 16), lengths=[32]),
            "flags that exclude one another: 0x14",
        ),
        (
            msg(head(), head(flags=wire.LEASED), lengths=[0, 32]),
            "a body elsewhere, and another message",
        ),
        (
            msg(head(flags=wire.LEASED), lengths=[31], bodies=bytes(31)),
            "a location of 31 bytes",
        ),
        (b"\x14" + bytes(8192), "PING is longer than 8192 bytes: 8193"),
        (b"\x14\x80", "PING cannot be decoded: Object missing required field `number`"),
        (b"\x14\xc1", "PING cannot be decoded: MessagePack data is malformed"),
        (b"\x14\x90", "PING cannot be decoded: Expected `object`, got `array`"),
        (control(FrameType.PING, number=-1), "PING cannot be decoded: Expected `int`"),
        (control(FrameType.PING, number="1"), "Expected `int`, got `str`"),
        (control(FrameType.BYE, text="x" * 257), "`str` of length <= 256"),
        (control(FrameType.BYE, reason="no"), "Invalid enum value 'no'"),
        (control(FrameType.BYE, reason="x" * 8000), "Invalid enum value 'xxx"),
        (b"\x16\x81\xa4text\xa1\xff", "BYE cannot be decoded: "),
        (
            control(FrameType.EXPORT, id=REGISTRATION, name="a//b", registered_ns=1),
            "module name must have no empty segment",
        ),
        (
            control(FrameType.UNEXPORT, id=REGISTRATION | {"machine": "../x"}),
            "machine name must match",
        ),
        (
            control(FrameType.UNEXPORT, id=REGISTRATION | {"process": "a/"}),
            "module name must have no empty segment",
        ),
        (
            control(FrameType.UNEXPORT, id=REGISTRATION | {"process": "p" * 129}),
            "must be <= 128 long, got 129",
        ),
        (
            control(FrameType.UNEXPORT, id=REGISTRATION | {"number": 0}),
            "number of a registration must be >= 1, got 0",
        ),
        (
            control(FrameType.REFUSED, reason="version", versions=[2, 1]),
            "versions must be lowest and highest, got 2, 1",
        ),
        (
            control(FrameType.ACK, epoch=1, incarnation=1, last=9, missing=[[5, 5]]),
            "missing ranges must rise, got 5 to 5 after 0",
        ),
        (
            control(FrameType.ACK, epoch=1, incarnation=1, last=9, missing=[[0, 2]]),
            "missing ranges must rise, got 0 to 2 after 0",
        ),
        (
            control(
                FrameType.ACK, epoch=1, incarnation=1, last=9, missing=[[2, 3], [3, 4]]
            ),
            "missing ranges must rise, got 3 to 4 after 3",
        ),
        (
            control(FrameType.ACK, epoch=1, incarnation=1, last=9, missing=[[9, 10]]),
            "missing ranges must end at 9, got 10",
        ),
        (
            control(FrameType.RELEASE, leases=[[1, 1]] * 257),
            "`array` of length <= 256",
        ),
        (control(FrameType.RELEASE, leases=[[1]]), "`array` of length 2, got 1"),
    ],
)
def test_the_error_names_the_fault(data: bytes, fact: str) -> None:
    with pytest.raises(WireError) as failed:
        decode(data)

    assert fact in str(failed.value)
    assert len(str(failed.value)) < 400


@clause("BUS-WIRE-1")
@pytest.mark.parametrize(
    ("name", "field", "last", "beyond"),
    [
        ("HELLO", "versions", [0, 2**16 - 1], [0, 2**16]),
        ("HELLO", "message_bytes_max", 2**32 - 1, 2**32),
        ("OPEN_STREAM", "first", 1, 0),
        ("OPEN_STREAM", "window", 1, 0),
        ("OPEN_STREAM", "window", 2**32 - 1, 2**32),
        ("OPEN_STREAM", "epoch", 0, -1),
        ("SEARCH", "hops", 3, 4),
        ("SUBSCRIBE", "hops", 3, 4),
        ("SUBSCRIBE", "overflow", "disconnect", "forget"),
        ("ADD_RELAY", "addresses", ["x"] * 8, ["x"] * 9),
        ("ADD_RELAY", "addresses", ["x" * 128], ["x" * 129]),
        ("EXPORT", "name", "x" * 128, "x" * 129),
        ("CONNECT_OFFER", "machine", "x" * 63, "x" * 64),
        ("UNRELAY", "relay", 2**32 - 1, 2**32),
        ("DISMISS", "relay", 2**32 - 1, 2**32),
        ("DISMISSED", "relay", 2**32 - 1, 2**32),
        ("GAP", "count", 0, -1),
        (
            "ACK",
            "missing",
            [[n, n + 1] for n in range(1, 257, 2)],
            [[n, n + 1] for n in range(1, 259, 2)],
        ),
        ("ACK", "extracted", [[1, 1]] * 256, [[1, 1]] * 257),
        ("RELEASE", "leases", [[1, 1]] * 256, [[1, 1]] * 257),
        ("RELEASE", "leases", [[1, 1]], []),
        ("OFFER_SLAB", "descriptor", 2**32 - 1, 2**32),
        ("OFFER_SLAB", "token", "x" * 64, "x" * 65),
        ("SLAB_ANSWER", "slab", 0, -1),
        ("CLOSE_SLAB", "slab", 0, -1),
    ],
)
def test_every_field_is_bounded(
    name: str, field: str, last: object, beyond: object
) -> None:
    fields = msgspec.msgpack.decode(VECTORS[name][1:])
    assert field in fields | {"overflow": None}

    assert decode(control(FrameType[name], **fields | {field: last})) is not None
    with pytest.raises(WireError, match=rf" at `\$\.{field}"):
        decode(control(FrameType[name], **fields | {field: beyond}))


@clause("BUS-MOVE-9")
def test_a_task_moves_to_another_machine_of_the_same_bus() -> None:
    new = control(FrameType.ERROR, reason="moved", text="ism://m/a")
    assert decode(new) == wire.Error(reason=wire.Reason.MOVED, text="ism://m/a")

    for text in ("a", "ism://*/a", "ism://bus1@m/a"):
        with pytest.raises(WireError, match="must name a machine and no bus"):
            decode(control(FrameType.ERROR, reason="moved", text=text))


def names_in(data: bytes) -> Iterator[int]:
    """Yield the positions of the names that must be legal."""
    for key in ("bus", "machine", "machine_id", "process", "name", "specification"):
        head = msgspec.msgpack.encode(key)
        at = data.find(head)
        while at >= 0:
            yield at + len(head)
            at = data.find(head, at + 1)


@clause("BUS-WIRE-1")
@pytest.mark.parametrize(
    ("name", "at"), [(name, at) for name in CONTROL for at in names_in(VECTORS[name])]
)
def test_no_name_in_a_frame_is_an_illegal_one(name: str, at: int) -> None:
    """A name that becomes part of a path must not lead out of a folder."""
    data = VECTORS[name]
    right = data[at] & 31

    with pytest.raises(WireError, match="name must match"):
        decode(data[:at] + b"\xa4../x" + data[at + 1 + right :])


@clause("BUS-WIRE-1")
def test_a_body_may_be_as_long_as_was_agreed_and_no_longer() -> None:
    data = msg(head(count=2), lengths=[6, 10], bodies=bytes(16))

    assert decode(data, message_bytes_max=10) is not None
    with pytest.raises(WireError, match="a body of 10 bytes, allowed: 9"):
        decode(data, message_bytes_max=9)


# Unknown types and fields.


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("name", CONTROL)
def test_keys_that_are_not_known_are_ignored(name: str) -> None:
    data = VECTORS[name]
    fields = msgspec.msgpack.decode(data[1:])
    strange = {"a": 1, "zz": [{"deep": [None, b"\x00", 1.5]}], "type": 3}

    more = data[:1] + msgspec.msgpack.encode(strange | fields)

    assert decode(more) == FRAMES[name]


@clause("BUS-WIRE-3")
@pytest.mark.parametrize("rest", [b"", b"\x80", b"\xc1", bytes(10_000)])
def test_a_type_that_is_not_known_is_skipped_only_if_it_says_so(rest: bytes) -> None:
    known = set(FrameType)
    for kind in set(range(256)) - known:
        data = bytes((kind,)) + rest
        if kind & OPTIONAL:
            assert decode(data) is None
        else:
            with pytest.raises(WireError, match=f"of unknown type: {kind}"):
                decode(data)
