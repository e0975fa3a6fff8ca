"""Checks of arguments, tested without any queue or broker."""

from __future__ import annotations

import array
import ctypes
import math
import sys
import threading
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import queuebroker
from bus.pattern import SocketConfig
from queuebroker import MessageTooLargeError, _sync, aio
from queuebroker.arguments import (
    byte_range,
    check_error,
    check_instance,
    check_name,
    check_port,
    deadline_after,
    flat_view,
    index,
    known_as,
    positive,
    snapshot,
)
from queuebroker.channel.locked_queue import LockedMessageQueue
from queuebroker.lockfree.fast_queue import FastMessageQueue


class Indexed:
    """An object that is not an int but has `__index__`."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


@pytest.mark.parametrize(
    "name", ["a", "A", " ", "\u00e9", "e\u0301", "\0", "x" * 10_000]
)
def test_check_name_keeps_a_string_as_it_is(name: str) -> None:
    """The name is not stripped, case-folded or normalised."""
    assert check_name(name) is name


@pytest.mark.parametrize("name", [None, b"a", 1, ("a",), bytearray(b"a"), object()])
def test_check_name_refuses_other_types(name: object) -> None:
    """The text names the type."""
    with pytest.raises(TypeError, match=f"got {type(name).__name__}$"):
        check_name(name)


def test_check_name_refuses_the_empty_string() -> None:
    """A broker needs a name."""
    with pytest.raises(ValueError, match="must not be empty"):
        check_name("")


@pytest.mark.parametrize("port", [0, 1, 2**31 - 1, Indexed(7)])
def test_check_port_takes_31_bits(port: int | Indexed) -> None:
    """Both bounds are ports."""
    number = check_port(port)

    assert type(number) is int
    assert number == port.__index__()


@pytest.mark.parametrize("port", [-1, 2**31, -(2**31), 2**100, Indexed(-1)])
def test_check_port_refuses_numbers_out_of_range(port: object) -> None:
    """The text has the number."""
    with pytest.raises(ValueError, match=r"^port must be in 0\.\.2147483647, got "):
        check_port(port)


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, b"1", 1j, [1]])
def test_index_refuses_a_bool_and_other_types(value: object) -> None:
    """A bool is an int to Python, but a mistake here."""
    with pytest.raises(TypeError, match=f"^thing must be an int, got {_kind(value)}$"):
        index("thing", value)


@given(st.integers())
def test_index_gives_any_int_back(value: int) -> None:
    """An int, or an object with `__index__`."""
    assert index("thing", value) == value
    assert index("thing", Indexed(value)) == value


@pytest.mark.parametrize("value", [0, -1, Indexed(0)])
def test_positive_refuses_less_than_one(value: object) -> None:
    """The text has the bound and the value."""
    with pytest.raises(ValueError, match=r"^capacity must be >= 1, got (0|-1)$"):
        positive("capacity", value)


def test_positive_takes_one() -> None:
    """The bound is included."""
    assert positive("capacity", 1) == 1


@pytest.mark.parametrize(
    "timeout", [None, math.inf, 1e300, 10**400, threading.TIMEOUT_MAX * 2]
)
def test_deadline_is_none_for_an_unbounded_or_too_long_timeout(
    timeout: float | None,
) -> None:
    """A value that the platform cannot wait for is not an error."""
    assert deadline_after(timeout) is None


@pytest.mark.parametrize("timeout", [0, 0.0, 1.5, 3, threading.TIMEOUT_MAX])
def test_deadline_counts_from_now(
    timeout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It uses the monotonic clock at the time of the call."""
    monkeypatch.setattr(_sync, "monotonic", lambda: 1000.0)

    assert deadline_after(timeout) == 1000.0 + timeout


@pytest.mark.parametrize("timeout", [-1, -1e-9, -math.inf, math.nan])
def test_deadline_refuses_negative_and_nan(timeout: float) -> None:
    """Neither is a duration."""
    with pytest.raises(ValueError, match=r"^timeout must be >= 0, got "):
        deadline_after(timeout)


@pytest.mark.parametrize("timeout", ["1", True, False, b"", 1j, object()])
def test_deadline_refuses_other_types(timeout: float) -> None:
    """The text names the type."""
    with pytest.raises(TypeError, match=r"^timeout must be a number or None, got "):
        deadline_after(timeout)


@given(st.integers(0, 6), st.integers(-3, 9), st.none() | st.integers(-3, 9))
def test_byte_range_returns_begin_and_end_or_raises_with_the_numbers(
    size: int, offset: int, length: int | None
) -> None:
    """It returns begin and end, or raises with the numbers that were passed."""
    count = size - offset if length is None else length
    if offset >= 0 and count >= 0 and offset + count <= size:
        assert byte_range(size, offset, length) == (offset, offset + count)
        return
    given = "" if length is None else f"length {length}, "
    numbers = f"offset {offset}, {given}size {size}"
    with pytest.raises(ValueError, match=f"^range outside the buffer: {numbers}$"):
        byte_range(size, offset, length)


def test_flat_view_counts_bytes_whatever_the_items_are() -> None:
    """Items of four bytes in two dimensions are contiguous bytes."""
    numbers = array.array("I", [1, 2, 3])
    square = memoryview(bytes(6)).cast("B", shape=[2, 3])

    assert bytes(flat_view(numbers)) == numbers.tobytes()
    assert flat_view(square).shape == (6,)


def test_flat_view_of_nothing_is_empty() -> None:
    """This includes items that are not bytes: a cast rejects shapes with a zero."""
    assert flat_view(array.array("I")).shape == (0,)


@pytest.mark.parametrize("item", [ctypes.c_uint, ctypes.c_char, ctypes.c_double])
def test_flat_view_of_memory_of_c_is_that_memory(item: type[ctypes.c_uint]) -> None:
    """Its format names a byte order, which a cast rejects; it is contiguous."""
    memory = (item * 2)()

    view = flat_view(memory)

    assert (view.format, view.nbytes) == ("B", ctypes.sizeof(memory))
    view[0] = 65
    assert bytes(memory)[0] == 65


@pytest.mark.parametrize(
    ("data", "got"), [("text", "str: encode it"), (7, "int"), (None, "NoneType")]
)
def test_the_error_for_data_that_is_not_bytes_names_its_type(
    data: object, got: str
) -> None:
    """The text is the library's own, with any interpreter."""
    with pytest.raises(TypeError, match=f"^data must be bytes-like, got {got}$"):
        flat_view(data)  # type: ignore[arg-type]  # under test


@pytest.mark.parametrize("error", ["oops", ValueError, 1])
def test_an_error_is_an_exception(error: object) -> None:
    """The caller gets the TypeError, not the peer that would raise the value."""
    with pytest.raises(TypeError, match=r"^error must be an exception or None, got"):
        check_error(error)


@pytest.mark.parametrize("data", ["text", 7, None, memoryview(b"abcd")[::2]])
def test_flat_view_refuses_data_that_is_no_contiguous_buffer(data: object) -> None:
    """A str has no buffer, and a strided view is not contiguous."""
    with pytest.raises(TypeError):
        flat_view(data)  # type: ignore[arg-type]  # under test


def test_snapshot_of_whole_bytes_is_no_copy() -> None:
    """Bytes are immutable, so a copy would be waste."""
    data = b"x" * 1000

    assert snapshot(data, 0, None, None) is data


def test_snapshot_copies_other_buffers_and_subclasses_to_exact_bytes() -> None:
    """A bytearray and a subclass of bytes are copied."""

    class Changing(bytes):
        pass

    for data in (bytearray(b"abc"), Changing(b"abc"), memoryview(b"abc")):
        message = snapshot(data, 0, None, None)
        assert type(message) is bytes
        assert message == b"abc"


@given(st.binary(max_size=9), st.data())
def test_snapshot_is_the_range(data: bytes, draw: st.DataObject) -> None:
    """It has that many bytes from the offset on."""
    offset = draw.draw(st.integers(0, len(data)))
    length = draw.draw(st.none() | st.integers(0, len(data) - offset))

    message = snapshot(bytearray(data), offset, length, None)

    stop = None if length is None else offset + length
    assert message == data[offset:stop]


@pytest.mark.parametrize(("size", "fits"), [(3, True), (4, True), (5, False)])
def test_snapshot_keeps_to_the_limit(size: int, fits: bool) -> None:
    """The limit itself is allowed; the text has both numbers."""
    for data in (b"x" * size, bytearray(size)):
        if fits:
            assert len(snapshot(data, 0, None, 4)) == size
        else:
            with pytest.raises(MessageTooLargeError, match=r"^message of 5 .* 4$"):
                snapshot(data, 0, None, 4)


def test_snapshot_limit_is_on_the_range_not_on_the_data() -> None:
    """A small part of a large buffer is a small message."""
    assert snapshot(b"abcdefgh", 2, 3, 4) == b"cde"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (int, "int"),
        (type(None), "NoneType"),
        (Indexed, f"{__name__}.Indexed"),
        (SocketConfig, "bus.pattern.SocketConfig"),  # from its package, not its module
        (queuebroker.MessageQueue, "MessageQueue"),
        (LockedMessageQueue, "MessageQueue"),
        (FastMessageQueue, "MessageQueue"),
        (queuebroker.Channel, "Channel"),
        (queuebroker.TypedQueue, "TypedQueue"),
        (queuebroker.Broker, "Broker"),
        (queuebroker.QueueBroker, "QueueBroker"),
        (aio.MessageQueue, "aio.MessageQueue"),
        (aio.QueueBroker, "aio.QueueBroker"),
    ],
)
def test_a_class_is_known_by_the_name_that_users_know(kind: type, name: str) -> None:
    """Ours has its public name; a user's class is named with its module."""
    assert known_as(kind) == name


def test_an_error_of_a_package_does_not_hide_a_wrong_argument(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its module may import a part of it as late as an attribute is read."""

    def fail(name: str) -> object:
        raise ImportError(f"{name} needs another package")

    package: Any = ModuleType("theirs")
    package.__getattr__ = fail
    monkeypatch.setitem(sys.modules, "theirs", package)
    monkeypatch.setitem(sys.modules, "theirs.part", ModuleType("theirs.part"))
    kind = type("Thing", (), {"__module__": "theirs.part"})

    with pytest.raises(TypeError, match=r"must be an int, got theirs\.part\.Thing$"):
        check_instance("thing", kind(), int)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [(int, "an int"), (str, "a str"), (aio.QueueBroker, "an aio.QueueBroker")],
)
def test_check_instance_distinguishes_classes_of_the_same_name(
    kind: type, wanted: str
) -> None:
    """The text distinguishes the classes even if they have one name."""
    MessageQueue = type("MessageQueue", (), {"__module__": "theirs"})  # noqa: N806  # a class
    with pytest.raises(TypeError) as caught:
        check_instance("thing", MessageQueue(), kind)

    assert str(caught.value) == f"thing must be {wanted}, got theirs.MessageQueue"


def _kind(value: object) -> str:
    return type(value).__name__
