"""Arrays as payloads: their shape, their bytes on the wire, and what is copied."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import os
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import MessageTooLargeError, PayloadError
from bus.model import arrays, payload
from bus.model.arrays import is_array
from bus.model.payload import decode, encode, freeze, freeze_within, own_copy, size_of
from specs.clauses import clause
from tests.bus.arrays import (
    ARRAYS,
    FORMATS,
    NATIVE,
    OTHER,
    SHAPES,
    assert_same,
    decoded_array,
    extension,
    frozen_array,
    zeros,
)
from tests.kit.tasks import unwanted

if TYPE_CHECKING:
    import numpy.typing as npt


def address_of(view: memoryview) -> int:
    return int(np.asarray(view).__array_interface__["data"][0])


# What is received.


@clause("BUS-MSG-16")
@given(sent=ARRAYS)
def test_an_array_is_received_with_its_shape_and_item_type(
    sent: npt.NDArray[Any],
) -> None:
    """At any distance, at any depth, sent on, and as a copy for one more receiver."""
    frozen = frozen_array(sent)
    there = decoded_array(encode(frozen))
    inside: Any = decode(encode(freeze({"a": [sent, "x"], "b": sent})))

    for received in (frozen, there, inside["a"][0], inside["b"]):
        assert_same(received, sent)
        assert_same(own_copy(received), sent)
        assert_same(freeze(received), sent)
        assert encode(received) == encode(freeze(received)) == encode(frozen)
    assert inside["a"][1] == "x"


@clause("BUS-MSG-16")
@given(sent=ARRAYS)
def test_the_size_of_an_array_is_that_of_its_encoding(sent: npt.NDArray[Any]) -> None:
    for each in (sent, [sent], {"a": (1, sent)}, [{"b": sent}, sent]):
        frozen = freeze(each)
        assert size_of(frozen) == len(encode(frozen))


@clause("BUS-MSG-16")
@given(format_=st.sampled_from(FORMATS), shape=SHAPES)
def test_a_view_with_a_shape_or_an_item_type_keeps_both(
    format_: str, shape: tuple[int, ...]
) -> None:
    if 0 in shape and len(shape) > 1:
        shape = (0,)
    for prefix in ("", "@"):
        sent = zeros(prefix + format_, shape)
        frozen = freeze(sent)
        if len(shape) == 1 and prefix + format_ in ("B", "b", "c"):
            assert frozen == sent.tobytes()
            assert type(frozen) is bytes
            continue
        for received in (frozen, decode(encode(frozen))):
            assert isinstance(received, memoryview)
            assert received.shape == shape
            assert received.format.lstrip("@") == format_
            assert received.tolist() == sent.tolist()


@clause("BUS-MSG-16")
@pytest.mark.parametrize(
    ("sent", "format_", "items"),
    [
        (array.array("h", [1, -2]), "h", [1, -2]),
        (array.array("d"), "d", []),
        (array.array("B", b"ab"), "@B", [97, 98]),
        ((ctypes.c_double * 2 * 3)(), "d", [[0.0, 0.0]] * 3),
        ((ctypes.c_ubyte * 2)(1, 2), "@B", [1, 2]),
        (memoryview((ctypes.c_int16 * 2)(1, 2)), "h", [1, 2]),
        (np.array([1, 2], np.uint8), "@B", [1, 2]),
        (np.array([[1], [2]], np.uint8), "B", [[1], [2]]),
        (np.array([True, False]), "?", [True, False]),
        (np.zeros((0, 4), np.float32), "f", []),
        (np.zeros((2, 0), np.int8), "b", [[], []]),
    ],
    ids=lambda value: type(value).__name__.partition("_Array")[0],
)
def test_each_object_that_exports_numbers_is_an_array(
    sent: object, format_: str, items: list[Any]
) -> None:
    """An array of bytes is told from bytes by its format."""
    for received in (freeze(sent), decode(encode(freeze(sent)))):
        assert isinstance(received, memoryview)
        assert received.format == format_
        assert received.tolist() == items
        assert is_array(received)


@clause("BUS-MSG-16")
def test_memory_that_is_mapped_is_an_array_of_bytes() -> None:
    with mmap.mmap(-1, 4096) as memory:
        memory[:2] = b"ab"
        received = frozen_array(memory)

    assert (received.format, received.shape) == ("@B", (4096,))
    assert bytes(received[:3]) == b"ab\0"


@clause("BUS-MSG-16")
def test_a_view_of_bytes_of_ctypes_is_sent_as_bytes() -> None:
    """Their format, "<B", names an order that bytes do not have."""
    assert freeze(memoryview((ctypes.c_ubyte * 2)(1, 2))) == b"\1\2"


@clause("BUS-MSG-16")
def test_a_sender_cannot_change_an_array_that_it_has_sent() -> None:
    """Nor can a receiver change it."""
    sent = np.arange(6.0).reshape(2, 3)
    frozen = frozen_array(sent)
    sent[:] = 0

    assert np.asarray(frozen).tolist() == [[0, 1, 2], [3, 4, 5]]
    for received in (frozen, decoded_array(encode(frozen)), own_copy(frozen)):
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(received)[0, 0] = 9


@clause("BUS-MSG-17")
def test_each_receiver_may_release_its_view() -> None:
    frozen = freeze({"a": (np.arange(3), 1)})
    first: Any = own_copy(frozen)
    second: Any = own_copy(frozen)

    first["a"][0].release()

    assert second["a"][0].tolist() == [0, 1, 2]
    assert encode(frozen) == encode(second)
    assert np.shares_memory(second["a"][0], own_copy(second)["a"][0])  # type: ignore[index,call-overload]


# Views of bytes, as a message in shared memory will be one.


@clause("BUS-MSG-16")
@pytest.mark.parametrize("length", [0, 1, 255, 256, 65_536])
def test_a_view_of_bytes_counts_and_is_encoded_as_these_bytes(length: int) -> None:
    """Alone and in containers, and each receiver may release its own."""
    plain = bytes(range(256)) * 256
    view = memoryview(plain)[:length]

    assert not is_array(view)
    assert size_of(view) == len(encode(view))
    assert encode(view) == encode(plain[:length])
    assert encode((view, {"a": view})) == encode((view[:], {"a": plain[:length]}))
    frozen_array(np.zeros(1))  # from now on the encoder looks for arrays
    assert encode((view, {"a": view})) == encode((view[:], {"a": plain[:length]}))
    copy = own_copy(view)
    view.release()
    assert copy == plain[:length]


# Arrays that cannot be sent.

AS_BYTES = "not native numbers; send its bytes, value.tobytes.., together with shape"
RECORD = np.dtype([("a", "i4"), ("b", "f8")])


@clause("BUS-MSG-16")
@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (np.zeros(2, f"{OTHER}f8"), f"'{OTHER}d', .* order of bytes, value.astype.'d'"),
        (np.zeros(2, "f2"), "format 'e', .*; send its bits, value.view.'u2'"),
        (np.zeros(2, "c8"), "format 'Zf', .*; send its parts, value.view.'f'"),
        (np.zeros(2, "c16"), "format 'Zd', .*; send its parts, value.view.'d'"),
        (np.zeros(2, "O"), "format 'O', .*; send a list, value.tolist"),
        (np.zeros(2, "U3"), "format '3w', " + AS_BYTES),
        (np.zeros(2, "S3"), "format '3s', " + AS_BYTES),
        (np.zeros(2, RECORD), "format 'T{.*}', " + AS_BYTES),
        (np.zeros(2, "longdouble"), "format 'g', " + AS_BYTES),
        (zeros("P", [2]), "format 'P', " + AS_BYTES),
        (np.zeros(2, "M8[s]"), "cannot be read: .* send numbers, value.view.'i8'"),
        (np.zeros((3, 2)).T, r"shape \(2, 3\) is not contiguous .*ascontiguousarray"),
        (np.zeros(6)[::2], r"shape \(3,\) is not contiguous .*ascontiguousarray"),
        (zeros("d", (6,))[::2], r"shape \(3,\) is not contiguous"),
        (np.zeros((1,) * 33), r"33 dimensions, more than 32; .*value.reshape\(-1\)"),
        (np.array(1.0), r"numpy.ndarray; send the Python number: value.item\(\)"),
        (memoryview(bytes(8)).cast("d", ()), "no dimension; send its bytes, bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_an_array_that_cannot_be_sent_is_refused_with_a_remedy(
    sent: object, text: str
) -> None:
    with pytest.raises(PayloadError, match=rf"payload\['a'\]\[1\]: .*{text}") as caught:
        freeze({"a": [0, sent]})

    assert caught.value.path == "payload['a'][1]"


@clause("BUS-MSG-16")
def test_an_array_that_messagepack_cannot_hold_is_refused_uncopied() -> None:
    """Its length has 32 bits there."""
    row = np.broadcast_to(np.zeros(1, np.uint8), 2**32)  # takes one byte
    whole = np.lib.stride_tricks.as_strided(np.zeros(8, np.uint8), (2**32,), (1,))

    with pytest.raises(PayloadError, match="not contiguous"):
        freeze(row)
    # Contiguous by its strides, and never read.
    with pytest.raises(PayloadError, match="4294967296 bytes is longer than 4 GiB"):
        freeze(whole)


@clause("BUS-MSG-16")
def test_the_limit_of_a_message_counts_the_header_of_an_array() -> None:
    sent = np.zeros(10)

    assert freeze_within(sent, 64 + 80)[1] == 144
    with pytest.raises(MessageTooLargeError, match="above 143 bytes: 144"):
        freeze_within(sent, 143)


@clause("BUS-MSG-16")
def test_an_encoder_for_arrays_comes_first() -> None:
    assert freeze(np.arange(2), {np.ndarray: lambda a: a.tolist()}) == (0, 1)


# What is not copied.


@clause("BUS-MSG-16")
@given(sent=ARRAYS.filter(lambda each: bool(each.size)))
def test_an_array_that_is_the_whole_payload_is_copied_once_at_the_sender(
    sent: npt.NDArray[Any],
) -> None:
    """Encoding returns the bytes behind it, and a receiver gets a view of them."""
    frozen = frozen_array(sent)
    data = encode(frozen)

    assert data is frozen.obj
    for body in (data, memoryview(data)):
        received = decoded_array(body)
        assert address_of(received) == address_of(frozen)
        assert encode(received) is data  # sent on as it is
    assert not np.shares_memory(np.asarray(frozen), sent)


@clause("BUS-MSG-16")
def test_an_array_in_memory_of_another_owner_is_not_copied() -> None:
    """The view keeps that memory: here a mapping, which cannot be closed."""
    sent = np.arange(12, dtype=np.int32).reshape(3, 4)
    data = encode(freeze(sent))
    memory = mmap.mmap(-1, 4096)
    memory[64 : 64 + len(data)] = data
    lent = memoryview(memory)[64 : 64 + len(data)].toreadonly()

    received = decoded_array(lent)
    lent.release()

    assert_same(received, sent)
    assert received.obj is memory
    assert address_of(received) % 64 == 0
    with pytest.raises(BufferError):
        memory.close()
    received.release()
    memory.close()


@clause("BUS-MSG-16")
def test_an_array_is_copied_out_of_memory_that_may_change_or_holds_more() -> None:
    """And so is one in a container, whose items may lie at any address."""
    sent = np.arange(5.0)
    data = encode(freeze(sent))
    changing, frame = bytearray(data), b"head" + data
    inside = encode(freeze([sent]))

    copied = decoded_array(memoryview(changing))
    short = decoded_array(memoryview(frame)[4:])
    (item,) = decode(inside)  # type: ignore[misc]
    changing[-8:] = b"\xff" * 8

    for received in (copied, short, item):
        assert_same(received, sent)
        assert encode(received) is received.obj  # type: ignore[union-attr]
    assert len(short.obj) == len(data)  # type: ignore[arg-type]


@clause("BUS-MSG-16")
@given(shape=SHAPES.filter(all))
def test_items_lie_at_a_multiple_of_64_bytes_from_the_beginning(
    shape: tuple[int, ...],
) -> None:
    data = encode(freeze(np.zeros(shape)))
    start = len(data) - 8 * int(np.prod(shape))

    assert start % 64 == 0
    assert start == -(-(11 + 8 * len(shape)) // 64) * 64
    assert data[11 + 8 * len(shape) :].count(0) == len(data) - 11 - 8 * len(shape)


@clause("BUS-WIRE-1")
def test_an_array_is_on_the_wire_as_the_contract_says() -> None:
    """Extension 1: version, order, item type and length, dimensions, shape, items."""
    data = encode(freeze(np.array([[1, 2, 3]], np.int16)))

    assert data == (
        b"\xc9\x00\x00\x00\x40\x01"
        + b"\x01" + NATIVE + b"h\x02\x02"
        + bytes(7) + b"\x01" + bytes(7) + b"\x03"
        + bytes(64 - 6 - 5 - 16)
        + struct.pack("=3h", 1, 2, 3)
    )  # fmt: skip
    assert len(data) == 70
    assert extension(char=b"h", item=2, shape=(1, 3), items=data[64:]) == data


@clause("BUS-MSG-16")
def test_a_cast_or_a_slice_of_an_array_is_sent_as_what_it_is() -> None:
    """Not as the bytes behind it."""
    frozen = frozen_array(np.arange(4, dtype=np.int32))

    for changed in (frozen[1:], frozen.cast("B").cast("i", (2, 2)), frozen[:0]):
        sent_on: Any = decode(encode(freeze(changed)))
        assert sent_on.tolist() == changed.tolist()
        assert sent_on.shape == changed.shape
        assert decode(encode(changed)) == changed


@clause("BUS-MSG-16")
def test_a_payload_without_arrays_is_not_searched_until_one_was_made() -> None:
    """The search takes longer than the encoding."""
    with patch.object(payload, "_encodable", unwanted):
        with patch.object(payload, "MADE", arrays._Made()):
            assert encode(({"a": 1}, (2,))) == msgspec.msgpack.encode([{"a": 1}, [2]])
        for _ in range(2):
            encode(b"x")

    made = arrays._Made()
    with patch.object(payload, "MADE", made), patch.object(arrays, "MADE", made):
        frozen = freeze({"a": [np.arange(3)]})
        assert size_of(frozen) == len(encode(frozen))
        assert made.any
    made.any = False
    with patch.object(payload, "MADE", made), patch.object(arrays, "MADE", made):
        received: Any = decode(msgspec.msgpack.encode([msgspec.Raw(extension())]))
        assert encode(received) == b"\x91" + extension()


# Views without items.


@clause("BUS-MSG-16")
@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0), (2, 0, 3), (0, 2**40)])
@pytest.mark.parametrize("format_", "bBhHiIlLqQfd?")
def test_a_view_without_items_is_one_as_any_other(
    format_: str, shape: tuple[int, ...]
) -> None:
    """It outlives the call that made it, and all views made from it."""
    sent = np.empty(shape, format_)
    views = [frozen_array(sent) for _ in range(50)]
    gc.collect()

    for view in views:
        again = memoryview(view)
        view.release()
        assert (again.format, again.shape, again.nbytes) == (format_, shape, 0)
        assert (again.strides, again.itemsize) == (_strides(sent), sent.itemsize)
        assert again.readonly
        assert again.c_contiguous
        assert again.tobytes() == b""
        assert np.asarray(again).shape == shape


def _strides(sent: npt.NDArray[Any]) -> tuple[int, ...]:
    """Return the strides of an array in C order, in which a 0 counts as 1."""
    made: list[int] = [sent.itemsize]
    for count in reversed(sent.shape[1:]):
        made.insert(0, made[0] * (count or 1))
    return tuple(made)


@clause("BUS-MSG-16")
def test_arrays_load_neither_numpy_nor_ctypes() -> None:
    """Not even when they are sent; ctypes is loaded for an empty one."""
    program = (
        "import sys, array\n"
        "from bus.model.payload import decode, encode, freeze\n"
        "assert decode(encode(freeze(array.array('d', [1, 2])))).tolist() == [1, 2]\n"
        "print(sorted({'numpy', 'bus.model.empty_view'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )

    assert done.stdout == "[]\n"
