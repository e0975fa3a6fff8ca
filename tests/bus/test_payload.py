"""Payloads: the valid ones, their received form, and invalid ones of a peer."""

from __future__ import annotations

import array
import enum
import json
from collections import OrderedDict, UserDict, deque, namedtuple
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bus.errors import MessageTooLargeError, PayloadError, WireError
from bus.model.loan import Loan
from bus.model.payload import (
    DEPTH_MAX,
    Payload,
    decode,
    encode,
    freeze,
    freeze_within,
    own_copy,
    size_of,
)
from specs.clauses import clause
from tests.bus.payloads import BORDERS, PAYLOADS, kinds, nested

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Lengths at which the MessagePack head changes.
LENGTHS = st.sampled_from([0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536])


class Text(str):
    __slots__ = ()


class Whole(int):
    """An int whose `__index__` differs from its value."""

    def __index__(self) -> int:
        return 0


class Broken(float):
    def __float__(self) -> float:
        return 0.0


class Blob(bytes):
    pass


class Colour(enum.IntEnum):
    RED = 7


Point = namedtuple("Point", ["x", "y"])  # noqa: PYI024  # the plainest kind


# Sent and received values.


@clause("BUS-MSG-16")
@given(payload=PAYLOADS)
def test_a_received_payload_has_equal_values_and_types_at_any_distance(
    payload: Payload,
) -> None:
    """Frozen here, or encoded and decoded there."""
    frozen = freeze(payload)
    there = decode(encode(frozen))

    assert msgspec.msgpack.encode(payload) == encode(frozen)
    assert there == frozen
    assert kinds(there) == kinds(frozen)


def _shown(one: object) -> str:
    """Return an ID of a value that is the same in each run: a view by its bytes."""
    return f"view of {bytes(one)!r}" if isinstance(one, memoryview) else repr(one)


@clause("BUS-MSG-16")
@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (None, None),
        (True, True),
        (-(2**63), -(2**63)),
        (2**64 - 1, 2**64 - 1),
        (1.5, 1.5),
        ("é\U0001f600\0", "é\U0001f600\0"),
        (b"\xff", b"\xff"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abcd")[1:3], b"bc"),
        (memoryview(array.array("b", [1, 2])), b"\x01\x02"),
        ([1, [2]], (1, (2,))),
        ((), ()),
        ({"a": [1]}, {"a": (1,)}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (UserDict(a=1), {"a": 1}),
        (MappingProxyType({"a": [1]}), {"a": (1,)}),
        (Text("t"), "t"),
        (Whole(5), 5),
        (Colour.RED, 7),
        (Broken(1.5), 1.5),
        (np.float64(1.5), 1.5),
        (Blob(b"b"), b"b"),
        (Point(1, [2]), (1, (2,))),
        ({Text("k"): 1}, {"k": 1}),
    ],
    ids=_shown,
)  # fmt: skip
def test_each_type_that_can_be_sent_is_received_as_a_plain_one(
    sent: object, received: Payload
) -> None:
    """Tuples for lists, dicts for maps, the base of a subclass."""
    frozen = freeze(sent)

    assert frozen == received
    assert kinds(frozen) == kinds(decode(encode(frozen)))
    assert kinds(frozen) == kinds(freeze(received))


@clause("BUS-MSG-16")
def test_the_sender_cannot_change_a_sent_payload() -> None:
    """Nor can the receiver change the sender's original."""
    inner, buffer = [1], bytearray(b"x")
    sent = {"a": inner, "b": buffer, "c": {"d": 1}}
    frozen: Any = freeze(sent)

    inner.append(2)
    buffer[0] = 0
    sent["c"]["d"] = 2  # type: ignore[index]  # a map, as above
    del sent["c"]

    assert frozen == {"a": (1,), "b": b"x", "c": {"d": 1}}
    frozen["c"]["new"] = 1
    assert sent == {"a": [1, 2], "b": bytearray(b"\0")}


@clause("BUS-MSG-16")
def test_a_received_map_can_be_completed_and_written_as_json() -> None:
    """At each distance: users reported `json.dumps` and an assignment."""
    sent = {"a": [1, {"b": None}], "c": {}}
    for received in (freeze(sent), decode(encode(freeze(sent)))):
        assert isinstance(received, dict)
        assert json.loads(json.dumps(received)) == sent
        received["d"] = 1
        assert received == {"a": (1, {"b": None}), "c": {}, "d": 1}


@pytest.mark.deep
@clause("BUS-MSG-17")
@given(payload=PAYLOADS)
def test_a_copy_for_one_more_receiver_shares_nothing_that_can_change(
    payload: Payload,
) -> None:
    """Equal, of the same types, and without a common dict."""
    frozen = freeze(payload)
    copy = own_copy(frozen)

    assert (copy, kinds(copy)) == (frozen, kinds(frozen))
    assert not {id(each) for each in dicts(frozen)} & {id(each) for each in dicts(copy)}
    if not list(dicts(frozen)):
        assert copy is frozen


@clause("BUS-MSG-17")
def test_a_receiver_that_releases_a_view_of_shared_memory_affects_no_other() -> None:
    view: Any = memoryview(b"shared")
    copy: Any = own_copy(view)

    view.release()

    assert copy == b"shared"
    assert type(copy) is memoryview


def dicts(payload: Any) -> Iterator[dict[str, Any]]:
    """Yield all dicts in a payload, empty ones too."""
    if type(payload) is dict:
        yield payload
        payload = tuple(payload.values())
    if type(payload) is tuple:
        for item in payload:
            yield from dicts(item)


@clause("BUS-MSG-16")
@pytest.mark.parametrize("same", [b"x" * 100, "text", (1, b"x", ("é",))], ids=repr)
def test_a_frozen_payload_is_not_copied(same: Payload) -> None:
    """Bytes are passed as they are, and so is a tuple of immutable parts."""
    assert freeze(same) is same
    (inside,) = freeze([same])  # type: ignore[misc]  # a tuple of one
    assert inside is same


def test_freezing_a_tuple_replaces_only_its_mutable_parts() -> None:
    kept = (1, "é")
    frozen: Any = freeze((kept, [2]))

    assert frozen == ((1, "é"), (2,))
    assert frozen[0] is kept


def test_a_map_that_is_read_only_is_copied_since_its_owner_may_write() -> None:
    owned = {"a": 1}
    frozen = freeze(MappingProxyType(owned))

    owned["a"] = 2

    assert frozen == {"a": 1}


# Values that cannot be sent.

CONVERT = "; convert it, or give an encoder for its type: BusConfig(encoders=...)"
AS_NUMBER = "; send the Python number: value.item()"
FAR = " is outside -2**63 to 2**64 - 1: it has {} bits; send it as a str, or as bytes"
COPY = "; send bytes(view)"
PAIRS = "; convert it, or send pairs"
SURROGATE = (
    "str holds a lone surrogate: at {}; send it as bytes,"
    " value.encode(errors='surrogatepass')"
)


@clause("BUS-MSG-16")
@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (object(), "payload: its type cannot be sent: object" + CONVERT),
        ({1}, "payload: its type cannot be sent: set" + CONVERT),
        ([1, 2, {"x": {1}}], "payload[2]['x']: its type cannot be sent: set" + CONVERT),
        ([deque()], "payload[0]: its type cannot be sent: collections.deque" + CONVERT),
        (Decimal(1), "payload: its type cannot be sent: decimal.Decimal" + CONVERT),
        (1j, "payload: its type cannot be sent: complex" + CONVERT),
        (range(2), "payload: its type cannot be sent: range" + CONVERT),
        (np.int8(1), "payload: its type cannot be sent: numpy.int8" + AS_NUMBER),
        (2**64, "payload: int" + FAR.format(65)),
        ([-(2**64)], "payload[0]: int" + FAR.format(65)),
        (-(2**63) - 1, "payload: int" + FAR.format(64)),
        (10**9999, "payload: int" + FAR.format(33216)),
        (Whole(2**64), "payload: int" + FAR.format(65)),
        ({"a": ["ok", "x\udc80"]}, "payload['a'][1]: " + SURROGATE.format(1)),
        ({"\ud800": 1}, "payload['\\ud800']: " + SURROGATE.format(0)),
        ({1: 2}, "payload: keys must be str, got int" + PAIRS),
        ([{b"k": 2}], "payload[0]: keys must be str, got bytes" + PAIRS),
        ({None: 2}, "payload: keys must be str, got NoneType" + PAIRS),
        (memoryview(b"abcd")[::2], "payload: memoryview is not contiguous" + COPY),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_an_unsupported_payload_is_refused_with_its_path_and_the_reason(
    payload: object, text: str
) -> None:
    """A path into the payload, then the reason."""
    for refuse in (freeze, lambda it: freeze_within(it, 2**20)):
        with pytest.raises(PayloadError) as caught:
            refuse(payload)

        assert str(caught.value) == f"cannot send {text}"
        assert caught.value.path == text.partition(":")[0]


@clause("BUS-MSG-16")
def test_32_deep_is_sent_and_33_is_not() -> None:
    """The same for a sender and for a payload from a peer."""
    deepest, deeper = nested(DEPTH_MAX), nested(DEPTH_MAX + 1)

    assert DEPTH_MAX == 32
    assert decode(encode(freeze(deepest))) == freeze(deepest)
    with pytest.raises(PayloadError, match=r"\]: it is more than 32 deep"):
        freeze(deeper)
    with pytest.raises(WireError, match="more than 32 deep"):
        decode(msgspec.msgpack.encode(deeper))


@clause("BUS-MSG-16")
def test_a_list_within_itself_is_too_deep() -> None:
    """However often the list contains itself."""
    own: list[object] = []
    own += [own, own, {"k": own}]

    with pytest.raises(PayloadError, match=r"payload(\[0\]){32}: it is more than 32"):
        freeze(own)


def test_a_view_that_was_released_is_refused() -> None:
    view = memoryview(b"ab")
    view.release()

    with pytest.raises(PayloadError, match=r"payload: cannot be read: .*released"):
        freeze(view)


class Homonym(str):
    """A str equal only to itself, so that one text can be two keys of a map."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def test_two_keys_of_one_text_are_refused() -> None:
    with pytest.raises(PayloadError, match="payload: two keys are the same text"):
        freeze({Homonym("a"): 1, Homonym("a"): 2})


# User types.


@clause("BUS-MSG-16")
def test_a_type_of_the_users_travels_by_its_encoder() -> None:
    """At any depth; the result of an encoder is frozen, or encoded again."""
    encoders: dict[type, Callable[[Any], Any]] = {
        Decimal: str,
        complex: lambda value: [Decimal(value.real), value.imag],
        Colour: lambda value: value.name,
    }

    frozen = freeze({"a": [1j, Decimal("1.5")], "b": Colour.RED, "c": 1}, encoders)

    assert frozen == {"a": (("0", 1.0), "1.5"), "b": "RED", "c": 1}
    assert freeze(Decimal(2), encoders) == "2"


@clause("BUS-MSG-16")
def test_an_encoder_is_for_exactly_its_type() -> None:
    """A subclass may be anything."""

    class Exact(Decimal):
        pass

    with pytest.raises(PayloadError, match=r"its type cannot be sent: .*Exact"):
        freeze([Exact(1)], {Decimal: str})


@clause("BUS-MSG-16")
def test_the_result_of_an_encoder_obeys_the_same_limits() -> None:
    """The same limits of type, range and depth, with a path in the error."""
    with pytest.raises(PayloadError, match=r"payload\[0\]: its type .*: set"):
        freeze([1j], {complex: lambda _: {1}})
    with pytest.raises(PayloadError, match=r"payload\['a'\]\[1\]: int is outside"):
        freeze({"a": 1j}, {complex: lambda _: [0, 2**64]})
    with pytest.raises(PayloadError, match=r"payload.* is more than 32 deep"):
        freeze(1j, {complex: lambda value: [value]})


def test_an_encoder_that_raises_is_reported_with_its_error() -> None:
    with pytest.raises(
        PayloadError,
        match=r"payload\[0\]: the encoder of complex raised ZeroDivisionError: .*zero",
    ) as caught:
        freeze([1j], {complex: lambda _: 1 // 0})

    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_encoder_may_raise_an_exception_without_text() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise OSError

    def encoder(_: complex) -> None:
        raise MuteError

    with pytest.raises(PayloadError, match="raised MuteError: its text cannot be had"):
        freeze(1j, {complex: encoder})


def test_a_payload_that_changes_while_it_is_frozen_is_sent_as_it_was() -> None:
    """An encoder makes the change, as another thread might."""
    items: list[object] = [1j]
    table: dict[str, object] = {"a": 1j}

    def change(_: complex) -> str:
        items.append(2)
        table["b"] = 2
        return "encoded"

    assert freeze(items, {complex: change}) == ("encoded",)
    assert freeze(table, {complex: change}) == {"a": "encoded", "b": 2}
    del table["b"]
    assert freeze(table, {complex: change}) == {"a": "encoded"}


def test_encoders_that_never_end_are_refused() -> None:
    """Encoders that return their own type, or one another's."""
    with pytest.raises(PayloadError, match="its encoders never end: at last complex"):
        freeze(1j, {complex: lambda value: value})
    with pytest.raises(PayloadError, match="its encoders never end"):
        freeze(1j, {complex: lambda _: Decimal(1), Decimal: lambda _: 1j})


# Size.


@pytest.mark.deep
@clause("BUS-MSG-16")
@given(payload=PAYLOADS)
@example(payload=[None] * 16)
@example(payload=[1] * 65_536)
@example(payload={str(number): 0 for number in range(65_536)})
def test_the_size_is_that_of_the_encoding(payload: Payload) -> None:
    """It is computed without encoding."""
    frozen = freeze(payload)

    assert size_of(frozen) == len(encode(frozen))


@pytest.mark.parametrize("number", [*BORDERS, 2**64 - 1])
def test_the_size_of_an_integer_is_that_of_its_encoding(number: int) -> None:
    assert size_of(number) == len(encode(number))


@given(length=LENGTHS, letter=st.sampled_from([b"x", "x", "é", "\U0001f600", (1,)]))
@example(length=65_536, letter=(1,))
def test_the_size_changes_where_the_head_does(length: int, letter: Any) -> None:
    frozen = letter * length

    assert size_of(frozen) == len(encode(frozen))


@clause("BUS-MSG-16")
@pytest.mark.parametrize(
    ("payload", "sent", "size"),
    [
        (bytes(10), bytes(10), 12),
        ([bytearray(10)], (bytes(10),), 13),
        ({"a": 1}, {"a": 1}, 4),
        ({"a": [1]}, {"a": (1,)}, 5),
    ],
    ids=str,
)
def test_the_limit_is_inclusive_and_counts_the_encoding(
    payload: object, sent: Payload, size: int
) -> None:
    """Without any headers."""
    assert freeze_within(payload, size)[:2] == (sent, size)
    with pytest.raises(MessageTooLargeError, match=f"bytes: {size}") as caught:
        freeze_within(payload, size - 1)
    assert (caught.value.got, caught.value.limit) == (size, size - 1)


@clause("BUS-MSG-16", "MC-41")
def test_a_loan_above_the_limit_is_refused_and_can_still_be_sent() -> None:
    with Loan("task", memoryview(bytearray(b"content")), shared=False) as loan:
        with pytest.raises(MessageTooLargeError, match="above 8 bytes: 9") as caught:
            freeze_within(loan, 8)
        assert (caught.value.got, caught.value.limit) == (9, 8)

        assert freeze_within(loan, 9) == (b"content", 9, None)
