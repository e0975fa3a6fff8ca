"""QB-PY-12: the typed face of an end: what it sends and what it rejects."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import pickle
import threading
from typing import TYPE_CHECKING, Any, TypedDict

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuebroker import PayloadError, TypedQueue, aio
from specs.clauses import clause
from tests.pairs import channel_pair, queue_pair
from tests.spec.typed import READING, Point, Reading, both_kinds
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import MessageQueue, Observer


class Move(msgspec.Struct, tag=True):
    metres: int


class Stop(msgspec.Struct, tag=True):
    pass


@attrs.define
class Pair:
    left: bytes
    right: dict[str, int] = attrs.field(factory=dict)


class Labelled(TypedDict):
    label: str


class Unknown:
    """A class unknown to msgspec."""


FLOATS = st.floats(allow_nan=False)
INTS = st.integers(-(2**63), 2**64 - 1)
READINGS = st.builds(Reading, st.text(), FLOATS)
OBJECTS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "struct": (Reading, st.builds(Reading, st.text(), FLOATS, st.none() | READINGS)),
    "tagged union": (Move | Stop, st.builds(Move, INTS) | st.builds(Stop)),
    "dataclass": (Point, st.builds(Point, INTS, st.lists(st.text()))),
    "attrs class": (
        Pair,
        st.builds(Pair, st.binary(), st.dictionaries(st.text(), INTS)),
    ),
    "TypedDict": (Labelled, st.fixed_dictionaries({"label": st.text()})),
    "list": (list[int], st.lists(INTS)),
    "optional": (str | None, st.none() | st.text()),
    "object": (dict[str, object], st.dictionaries(st.text(), st.booleans() | INTS)),
}


@pytest.mark.deep
@clause("QB-PY-12")
@both_kinds
@pytest.mark.parametrize("name", OBJECTS)
@given(data=st.data())
def test_a_receiver_gets_equal_objects_of_the_same_class_in_order(
    observer: Observer | None, name: str, data: st.DataObject
) -> None:
    """Objects arrive equal, of the same class and in order, by every pair of calls."""
    wanted, strategy = OBJECTS[name]
    objs = data.draw(st.lists(strategy, min_size=4, max_size=4))
    with queue_pair(4, observer=observer) as (left, right):
        sender, receiver = left.of(wanted), right.of(wanted)

        sender.send(objs[0])
        sender.send_nowait(objs[1])
        assert sender.send_many(objs[2:]) == 2
        assert receiver.pending == 4
        left.disconnect()
        received = [receiver.receive(), receiver.receive_nowait(), *receiver]

    assert received == objs
    assert list(map(type, received)) == list(map(type, objs))


@clause("QB-PY-12")
def test_an_object_is_one_message_in_messagepack() -> None:
    """Any other language can read it, and may send it."""
    on_the_wire = b"\x82\xa1x\x01\xa4tags\x91\xa1a"
    with queue_pair(2) as (left, right):
        left.of(Point).send(Point(1, ["a"]))
        assert right.receive() == on_the_wire

        left.send(on_the_wire)
        assert right.of(Point).receive() == Point(1, ["a"])


HOLDS_ITSELF: list[Any] = []
HOLDS_ITSELF.append(HOLDS_ITSELF)
UNSET = copy.copy(READING)
del UNSET.celsius
CANNOT_BE_SENT: dict[str, tuple[Any, type[Exception]]] = {
    "lock": (threading.Lock(), TypeError),
    "unknown class": ([Unknown()], TypeError),
    "class": (Reading, TypeError),
    "65 bits": (2**64, ValueError),
    "surrogate": ("\ud800", ValueError),
    "holds itself": (HOLDS_ITSELF, ValueError),
    "unset field": (UNSET, ValueError),
}


@clause("QB-PY-12")
@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize(
    ("obj", "error"), CANNOT_BE_SENT.values(), ids=list(CANNOT_BE_SENT)
)
def test_a_send_refuses_an_object_that_cannot_be_encoded(
    obj: object, error: type[Exception], connected: bool
) -> None:
    """In any state; among many messages it ends the call with the count (QB-BULK-1)."""
    with queue_pair(4) as (left, right):
        if not connected:
            left.disconnect()
        face = left.of(object)

        with pytest.raises(error, match=f"cannot send {type(obj).__name__}: ") as one:
            face.send(obj)
        with pytest.raises(error, match="cannot send") as first:
            face.send_many([obj, 1])
        if connected:
            assert face.send_many([1, 2, obj, 3]) == 2
            assert right.receive_many() == [b"\x01", b"\x02"]

        assert type(one.value) is type(first.value) is error


HOLDER = dataclasses.make_dataclass("Holder", [("x", list[Reading]), ("y", Unknown)])
LOST = dataclasses.make_dataclass("Lost", [("x", "NoSuchName")])


@clause("QB-PY-12")
@pytest.mark.parametrize(
    "wanted",
    [
        Unknown,
        list[Unknown],
        dict[str, Unknown | None],
        HOLDER,
        LOST,
        Reading | Point,
        complex,
        threading.Lock,
        "Reading",
        5,
    ],
    ids=str,
)
def test_a_type_that_nothing_decodes_to_is_refused_at_once(wanted: Any) -> None:
    """`of` raises, not the receiver at each message."""
    with queue_pair() as (left, right):
        with pytest.raises(TypeError, match="cannot make a queue of "):
            left.of(wanted)

        left.send(b"as before")
        assert right.receive() == b"as before"


@clause("QB-PY-12")
def test_both_faces_of_an_end_are_used_at_once() -> None:
    """Several threads use both: no message is lost or repeated, each in order."""
    total = 500
    with queue_pair(8) as (left, right), Threads() as threads:
        faces = [left.of(int), left.of(int)]
        loops: list[Any] = [
            threads.start(list, right.of(int)),
            threads.start(list, right),
            threads.start(list, right.of(object)),
        ]
        senders: list[Any] = [
            threads.start(faces[0].send_many, range(total)),
            threads.start(_send_each, faces[1], range(total, 2 * total)),
            threads.start(_send_bytes, left, range(2 * total, 3 * total)),
        ]
        for sender in senders:
            sender.join()
        left.disconnect()
        numbers, payloads, objects = [loop.result() for loop in loops]

    decoded = [msgspec.msgpack.decode(payload) for payload in payloads]
    parts = [numbers, decoded, objects]
    for number in range(3):
        share = range(number * total, (number + 1) * total)
        for part in parts:
            mine = [each for each in part if each in share]
            assert mine == sorted(mine)
    assert sorted(itertools.chain(*parts)) == list(range(3 * total))


def _send_each(face: TypedQueue[int], numbers: range) -> None:
    for number in numbers:
        face.send(number)


def _send_bytes(end: MessageQueue, numbers: range) -> None:
    for number in numbers:
        end.send(msgspec.msgpack.encode(number))


@clause("QB-PY-12")
def test_the_face_gives_its_end_back_and_hangs_up_for_it() -> None:
    """Leaving its block disconnects, even on an exception, which propagates."""
    with queue_pair() as (left, right):
        face = left.of(int)
        assert face.queue is left
        assert not face.disconnected()
        assert not face.closed

        with pytest.raises(ZeroDivisionError), face as entered:
            _raise_unless(entered is face)

        assert left.disconnected()
        assert face.disconnected()
        assert right.of(int).disconnected()
        assert face.closed


@clause("QB-PY-12", "QB-PY-3")
def test_a_face_is_closed_as_its_end_is() -> None:
    """So `contextlib.closing` accepts it, too."""
    with queue_pair() as (left, right):
        with contextlib.closing(left.of(int)) as face:
            face.send(1)

        assert left.closed
        assert right.of(int).receive() == 1


@clause("QB-PY-12")
@pytest.mark.parametrize("name", ["NoneType", "Channel", "aio.MessageQueue"])
def test_a_face_is_of_an_end_for_messages(name: str) -> None:
    """Any other object is rejected when the face is created."""
    with channel_pair() as (channel, _), queue_pair() as (left, _):
        wrong: dict[str, Any] = {
            "NoneType": None,
            "Channel": channel,
            "aio.MessageQueue": aio.wrap(left),
        }
        with pytest.raises(TypeError) as caught:
            TypedQueue(wrong[name], int)

        assert str(caught.value) == f"queue must be a MessageQueue, got {name}"


# Encoding and decoding for other code that sends and receives.


@clause("QB-PY-12")
def test_encode_and_decode_use_the_bytes_of_send_and_receive() -> None:
    """The bytes are identical; a message may be in any buffer."""
    with queue_pair() as (left, right):
        face = left.of(Reading)
        face.send(READING)
        message = right.receive()

        assert face.encode(READING) == message
        for buffer in (message, bytearray(message), memoryview(message)):
            assert face.decode(buffer) == READING


@clause("QB-PY-12")
@pytest.mark.parametrize(
    ("obj", "error"), CANNOT_BE_SENT.values(), ids=list(CANNOT_BE_SENT)
)
def test_encode_refuses_the_same_objects_as_send(
    obj: object, error: type[Exception]
) -> None:
    """With the same text."""
    with queue_pair() as (left, _):
        face = left.of(object)
        with pytest.raises(error) as sent:
            face.send(obj)
        with pytest.raises(error) as encoded:
            face.encode(obj)

        assert type(encoded.value) is type(sent.value)
        assert str(encoded.value) == str(sent.value)


@clause("QB-PY-12")
def test_an_error_of_decode_keeps_the_bytes_of_the_message() -> None:
    """Even if the buffer is reused; a non-buffer is another error."""
    with queue_pair() as (left, _):
        face = left.of(Reading)
        buffer = bytearray(b"21.7 degrees")

        with pytest.raises(PayloadError, match=r"12 bytes .* no Reading") as caught:
            face.decode(buffer)
        buffer.clear()

        assert caught.value.payload == b"21.7 degrees"
        for wrong in ("text", None, memoryview(b"abcd")[::2]):
            with pytest.raises(TypeError, match=r"must be (bytes-like|C-contiguous)"):
                face.decode(wrong)  # type: ignore[arg-type]  # under test


def _raise_unless(is_same: bool) -> None:
    assert is_same
    raise ZeroDivisionError


@clause("QB-PY-12")
def test_a_face_shows_its_type_and_its_end() -> None:
    """Even if T is not a class."""
    with queue_pair() as (left, _):
        assert repr(left.of(Point)) == f"<TypedQueue of Point on {left!r}>"
        assert repr(left.of(list[int])) == f"<TypedQueue of list[int] on {left!r}>"


@clause("QB-PY-12", "QB-ERR-10")
@pytest.mark.parametrize("act", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_face_cannot_be_copied(act: Callable[[object], object]) -> None:
    """Nor can its end."""
    with (
        queue_pair() as (left, _),
        pytest.raises(TypeError, match="cannot pickle or copy TypedQueue"),
    ):
        act(left.of(int))
