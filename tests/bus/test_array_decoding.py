"""`bus.model.payload.decode`: valid and invalid arrays of a peer."""

from __future__ import annotations

import sys
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from bus.errors import WireError
from bus.model.payload import DEPTH_MAX, check_depth, decode, encode, freeze
from specs.clauses import clause
from tests.bus.arrays import NATIVE, OTHER, assert_same, decoded_array, extension
from tests.bus.payloads import nested
from tests.bus.test_payload_decoding import recursion_limit
from tests.depth import among

if TYPE_CHECKING:
    import numpy.typing as npt


@clause("BUS-MSG-16")
@pytest.mark.parametrize(
    ("sent", "order", "char", "item", "shape"),
    [
        (np.array([1, -2, 300], np.int16), OTHER, "h", 2, (3,)),
        (np.array([[1.5], [-2.5]], np.float64), OTHER, "d", 8, (2, 1)),
        (np.array([1, 2**31], np.uint32), OTHER, "L", 4, (2,)),  # of 32 bits there
        (np.array([1, -(2**40)], np.int64), OTHER, "n", 8, (2,)),
        (np.array([1, -2], np.int32), NATIVE.decode(), "l", 4, (2,)),
        (np.array([1, 2], np.int8), OTHER, "b", 1, (2,)),
        (np.array([1, 2**40], np.uint64), NATIVE.decode(), "Q", 8, (2,)),
        (np.array([True, False]), OTHER, "?", 1, (2,)),
    ],
    ids=str,
)
def test_the_numbers_of_another_kind_of_machine_are_converted(
    sent: npt.NDArray[Any], order: str, char: str, item: int, shape: tuple[int, ...]
) -> None:
    """Of another order of bytes, or of another length of a C type."""
    there = sent if order == NATIVE.decode() else sent.byteswap()
    data = extension(
        order=order.encode(),
        char=char.encode(),
        item=item,
        shape=shape,
        items=there.tobytes(),
    )

    assert_same(decoded_array(data), sent)
    (inside,) = decode(b"\x91" + data)  # type: ignore[misc]
    assert_same(inside, sent)


BIG = 2**64 - 1


@clause("BUS-MSG-16", "BUS-SEC-8")
@pytest.mark.parametrize(
    "fields",
    [
        {"content": b"\x01"},
        {"content": b"\x01<d\x08\x01"},
        {"content": extension()[6:63]},
        {"version": 0},
        {"version": 2},
        {"order": b"="},
        {"order": b"|"},
        {"char": b"e", "item": 2, "shape": (4,)},
        {"char": b"P"},
        {"char": b"O"},
        {"char": b"\xff"},
        {"char": b"\0"},
        {"item": 0},
        {"item": 0, "items": b""},
        {"item": 2, "shape": (4,)},
        {"item": 255},
        {"shape": ()},
        {"shape": (1,) * 33},
        {"shape": (0,) * 255, "items": b""},
        {"shape": (0,)},
        {"shape": (2,)},
        {"shape": (1, 2)},
        {"shape": (BIG,)},
        {"shape": (BIG, BIG)},
        {"shape": (2**61 + 1,)},  # times 8 is 8, in a word of 64 bits
        {"shape": (2**32, 2**32), "items": b""},
        {"shape": (BIG,) * 32},
        {"shape": (0, BIG), "items": b""},
        {"shape": (0, 2**60), "items": b""},
        {"shape": (2**31, 0, 2**31), "items": b""},
        {"items": bytes(7)},
        {"items": bytes(9)},
        {"items": b""},
        {"padding": 44},
        {"padding": 46},
    ],
    ids=str,
)
def test_an_array_that_no_correct_peer_sends_is_refused(fields: Any) -> None:
    """Alone, in a list and as a key."""
    data = extension(**fields)

    for body in (data, memoryview(data), b"\x91" + data, b"\x81\xa1a" + data):
        with pytest.raises(WireError, match=r"^payload holds an array "):
            decode(body)
    for body in (b"\x81" + extension() + b"\x01", extension() + b"\x01"):
        with pytest.raises(WireError, match=r"^payload "):
            decode(body)


@clause("BUS-MSG-16")
@pytest.mark.parametrize("shape", [(0, sys.maxsize), (sys.maxsize, 0)])
def test_a_shape_without_items_may_be_as_large_as_a_view_can_be(
    shape: tuple[int, ...],
) -> None:
    data = extension(char=b"B", item=1, shape=shape, items=b"")

    received = decoded_array(data)

    assert received.shape == shape
    assert encode(received) == data
    beyond = tuple(count and count + 1 for count in shape)
    with pytest.raises(WireError, match="out of range"):
        decode(extension(char=b"B", item=1, shape=beyond, items=b""))


@clause("BUS-MSG-16")
def test_padding_must_be_zeros() -> None:
    """So that equal arrays are equal bytes."""
    data = bytearray(extension())
    data[63] = 1

    with pytest.raises(WireError, match="not padded by 0"):
        decode(bytes(data))


@clause("BUS-MSG-16")
def test_an_array_may_come_in_a_shorter_form_of_the_extension() -> None:
    """Of MessagePack; other encoders choose the shortest."""
    content = extension()[6:]
    for data in (
        msgspec.msgpack.encode(msgspec.msgpack.Ext(1, content)),
        b"\xc8\x00" + bytes([len(content)]) + b"\x01" + content,
    ):
        assert data[0] in {0xC7, 0xC8}
        received = decoded_array(data)
        assert received.tolist() == [0.0]
        assert encode(received) == extension()


@pytest.mark.deep
@clause("BUS-MSG-16", "BUS-SEC-8")
def test_of_random_headers_each_is_an_array_or_that_error() -> None:
    """Thousands, and each truncation of some; no other error, whole or nested."""
    random = Random(20)
    accepted = 0
    for _ in range(among(10_000, 200_000)):
        char = random.choice("bBhHiIlLqQnNfd?cePO\0x")
        shape = [
            random.choice([0, 1, 1, 2, 2, 3, 2**32, 2**63, BIG])
            if random.random() < 0.4
            else random.choice([1, 2])
            for _ in range(random.choice([0, 1, 1, 2, 2, 3, 6, 7, 32, 33]))
        ]
        item = random.choice([0, 1, 2, 4, 8, 8, 8, 255])
        count = item * int(np.prod(shape, dtype=object)) if shape else 8
        data = bytearray(
            extension(
                version=random.choice([1] * 9 + [0, 2]),
                order=random.choice([b"<", b"<", b">", b"="]),
                char=char.encode(),
                item=item,
                shape=shape,
                items=bytes(count if count < 2048 else random.randrange(16)),
            )
        )
        if random.random() < 0.3:
            data[random.randrange(6, len(data))] = random.randrange(256)
        if random.random() < 0.1:
            del data[random.randrange(6, len(data)) :]
            data[1:5] = (len(data) - 6).to_bytes(4, "big")
        for prefix in (b"", b"\x91"):
            try:
                made: Any = decode(prefix + data)
            except WireError:
                continue
            accepted += 1
            (made,) = made if prefix else (made,)
            assert np.asarray(made).nbytes == made.nbytes <= len(data)
            assert encode(freeze(made)) == encode(made)
    assert accepted > 1000


@clause("BUS-MSG-16")
@pytest.mark.parametrize("shape", [(3,), (2, 1), (1,) * 7, (0, 4)])
def test_every_truncation_of_an_array_is_refused(shape: tuple[int, ...]) -> None:
    """Of its encoding, and of its content with the length adapted."""
    data = encode(freeze(np.zeros(shape)))

    for stop in range(len(data)):
        for cut in (data[:stop], extension(data[6:stop]) if stop > 6 else b""):
            with pytest.raises(WireError):
                decode(cut)


@clause("BUS-MSG-16")
def test_an_array_counts_as_no_level() -> None:
    """It may lie where a number may, however high the recursion limit is."""
    sent = nested(DEPTH_MAX, np.arange(3))
    data = encode(freeze(sent))

    for limit in (1000, 2**30):
        with recursion_limit(limit):
            assert encode(decode(data)) == data
            too_deep = msgspec.msgpack.encode([msgspec.Raw(data)])
            with pytest.raises(WireError, match="more than 32 deep"):
                decode(too_deep)


@clause("BUS-MSG-16", "BUS-SEC-8")
@pytest.mark.parametrize("width", [0xC7, 0xC8, 0xC9])
def test_the_levels_behind_an_extension_are_counted(width: int) -> None:
    content = extension()[6:]
    sizes = {0xC7: 1, 0xC8: 2, 0xC9: 4}
    item = bytes([width]) + len(content).to_bytes(sizes[width], "big") + b"\x01"
    level = b"\x92" + item + content

    # First without the decoder, which would exhaust the stack if they were not.
    with pytest.raises(WireError, match="more than 32 deep"):
        check_depth(level * 200_000)
    with recursion_limit(2**30), pytest.raises(WireError, match="more than 32 deep"):
        decode(level * 200_000)


@clause("BUS-MSG-16", "BUS-SEC-8")
@pytest.mark.parametrize("power", range(5))
def test_other_extensions_are_refused_and_counted(power: int) -> None:
    level = b"\x92" + bytes([0xD4 + power, 5]) + bytes(2**power)

    with recursion_limit(2**30), pytest.raises(WireError, match="more than 32 deep"):
        decode(level * 200_000)
    with pytest.raises(WireError, match="an extension type"):
        decode(level + b"\x01")
