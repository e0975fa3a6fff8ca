"""QB-ERR: the exceptions, and the arguments they are raised for."""

from __future__ import annotations

import contextlib
import copy
import fractions
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import queuebroker
from queuebroker import (
    Broker,
    BrokerClosedError,
    BrokerManager,
    BrokerNameInUseError,
    BufferEmptyError,
    BufferFullError,
    DisconnectedChannelError,
    DisconnectedError,
    DisconnectedQueueError,
    IncompleteReadError,
    MessageTooLargeError,
    NoCurrentBrokerError,
    PayloadError,
    PortInUseError,
    QueueBroker,
    QueueBrokerError,
    QueueBrokerTimeoutError,
    ReceiveTimeoutError,
    RendezvousTimeoutError,
    SendTimeoutError,
    UnknownBrokerError,
    errors,
    java,
)
from specs.clauses import clause
from tests.meetings import channels, queues
from tests.pairs import channel_pair, queue_pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import Channel, MessageQueue

# Every class, with its direct base classes.
TREE: dict[type[Exception], tuple[type[Exception], ...]] = {
    QueueBrokerError: (Exception,),
    DisconnectedError: (QueueBrokerError, ConnectionError),
    DisconnectedQueueError: (DisconnectedError,),
    DisconnectedChannelError: (DisconnectedError,),
    IncompleteReadError: (DisconnectedChannelError,),
    QueueBrokerTimeoutError: (QueueBrokerError, TimeoutError),
    RendezvousTimeoutError: (QueueBrokerTimeoutError,),
    SendTimeoutError: (QueueBrokerTimeoutError,),
    ReceiveTimeoutError: (QueueBrokerTimeoutError,),
    BrokerNameInUseError: (QueueBrokerError, ValueError),
    UnknownBrokerError: (QueueBrokerError, LookupError),
    BrokerClosedError: (QueueBrokerError,),
    PortInUseError: (QueueBrokerError,),
    BufferFullError: (QueueBrokerError,),
    BufferEmptyError: (QueueBrokerError,),
    NoCurrentBrokerError: (QueueBrokerError, RuntimeError),
    MessageTooLargeError: (QueueBrokerError, ValueError),
    PayloadError: (QueueBrokerError, ValueError),
}
EVERY = pytest.mark.parametrize("error", TREE, ids=lambda each: each.__name__)


@clause("QB-ERR-1")
@EVERY
def test_every_error_stands_in_its_place(error: type[Exception]) -> None:
    """Each class has the bases of the tree, including Python's own classes."""
    assert error.__bases__ == TREE[error]


@clause("QB-ERR-1")
def test_the_tree_is_complete_and_public() -> None:
    """No other class is defined, each is public, and Java's names are aliases."""
    defined = {each for each in vars(errors).values() if isinstance(each, type)}

    assert defined == set(TREE)
    for error in TREE:
        assert error.__name__ in errors.__all__
        assert error.__name__ in queuebroker.__all__
        assert getattr(queuebroker, error.__name__) is error
    assert java.DisconnectedQueueException is DisconnectedQueueError
    assert java.DisconnectQueueException is DisconnectedQueueError


@clause("QB-ERR-2")
@EVERY
def test_no_disconnect_is_a_timeout(error: type[Exception]) -> None:
    """No class is both a disconnect and a timeout, ours or Python's."""
    disconnects = issubclass(error, (DisconnectedError, ConnectionError))
    times_out = issubclass(error, (QueueBrokerTimeoutError, TimeoutError))

    assert not (disconnects and times_out)
    assert disconnects is issubclass(error, DisconnectedError)
    assert times_out is issubclass(error, QueueBrokerTimeoutError)


@clause("QB-ERR-2")
def test_the_order_of_except_clauses_does_not_matter() -> None:
    """`except TimeoutError` misses a disconnect, and vice versa."""
    with queue_pair() as (left, right):
        with pytest.raises(QueueBrokerError) as expired:
            left.receive(timeout=0)
        right.disconnect()
        with pytest.raises(QueueBrokerError) as ended:
            left.receive(timeout=0)

    assert not isinstance(expired.value, ConnectionError)
    assert not isinstance(ended.value, TimeoutError)


SIZE = 5
OFFSETS = st.integers(-3, SIZE + 3)


@clause("QB-ERR-3")
@given(offset=OFFSETS, length=st.none() | OFFSETS)
def test_a_range_is_right_or_a_value_error(offset: int, length: int | None) -> None:
    """0 <= offset, 0 <= length, offset + length <= size; the error has the numbers."""
    count = SIZE - offset if length is None else length
    right = offset >= 0 and count >= 0 and offset + count <= SIZE
    given = "" if length is None else f"length {length}, "
    text = f"offset {offset}, {given}size {SIZE}$"
    data = bytes(range(SIZE))

    with queue_pair() as (left, right_end), channel_pair(SIZE) as (near, far):
        far.write(b"-----")
        buffer = bytearray(data)
        calls: list[Callable[[], object]] = [
            lambda: left.send(data, offset, length),
            lambda: left.send(bytearray(data), offset, length),
            lambda: near.write(data, offset, length),
            lambda: near.read(buffer, offset, length),
        ]
        if not right:
            for call in calls:
                with pytest.raises(ValueError, match=text):
                    call()
            assert (right_end.pending, far.pending, near.pending) == (0, 0, SIZE)
            return
        calls[0]()
        assert right_end.receive() == data[offset : offset + count]
        assert calls[2]() == count
        assert calls[3]() == count


@clause("QB-ERR-3")
def test_the_empty_range_at_the_very_end_is_right() -> None:
    """Offset == size with length 0 sends an empty message."""
    with queue_pair() as (left, right):
        left.send(b"abc", 3, 0)
        assert right.receive() == b""
        left.send(b"abc", 3)
        assert right.receive() == b""


class Indexed:
    """Not an int, but has `__index__`."""

    def __index__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "Indexed()"


# Numbers of numpy with an index, and without one. Not every system has numpy.
NUMPY_INTS: list[Any] = []
NUMPY_OTHERS: list[Any] = []
with contextlib.suppress(ImportError):
    import numpy as np

    NUMPY_INTS += [np.int8(1), np.uint64(1)]
    NUMPY_OTHERS += [np.float64(0), np.bool_(False)]

NO_INTS: list[Any] = [
    True,
    False,
    0.0,
    1.0,
    "0",
    b"0",
    0j,
    fractions.Fraction(0),
    *NUMPY_OTHERS,
    [0],
]


@clause("QB-ERR-4")
@pytest.mark.parametrize("value", NO_INTS, ids=repr)
def test_an_offset_or_length_that_is_no_int_is_a_type_error(value: Any) -> None:
    """A value equal to an int is rejected too, as are a bool and the offset None."""
    with queue_pair() as (left, right), channel_pair() as (near, _):
        for call in (
            lambda: left.send(b"ab", value),
            lambda: left.send(bytearray(b"ab"), value),
            lambda: left.send(b"ab", 0, value),
            lambda: left.send(b"ab", None),  # type: ignore[arg-type]  # under test
            lambda: near.write(b"ab", value),
            lambda: near.write(b"ab", 0, value),
            lambda: near.read(bytearray(2), value),
            lambda: near.read(bytearray(2), 0, value),
        ):
            with pytest.raises(TypeError, match="must be an int"):
                call()
        assert right.pending == 0


@clause("QB-ERR-4")
@pytest.mark.parametrize("one", [1, Indexed(), *NUMPY_INTS], ids=repr)
def test_anything_with_an_index_is_an_offset(one: Any) -> None:
    """As in Python's own sequences, including numpy's integers."""
    with queue_pair() as (left, right), channel_pair(4) as (near, far):
        left.send(b"abc", one, one)
        assert right.receive() == b"b"
        assert near.write(b"abc", one, one) == 1
        buffer = bytearray(b"---")
        assert far.read(buffer, one, one) == 1
        assert buffer == b"-b-"


@clause("QB-ERR-7")
@EVERY
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickling_and_copying(
    error: type[Exception], protocol: int
) -> None:
    """Its text and attributes are kept: side, reason, partial, payload, notes."""
    original = error("what happened")
    if isinstance(original, DisconnectedError):
        original.side, original.reason = "remote", "disk full"
    if isinstance(original, IncompleteReadError):
        original.partial = b"abc"
    if isinstance(original, PayloadError):
        original.payload = b"abc"
    original.add_note("seen in a pool")

    for twin in (
        pickle.loads(pickle.dumps(original, protocol)),
        copy.copy(original),
        copy.deepcopy(original),
    ):
        assert type(twin) is error
        assert str(twin) == "what happened"
        assert twin.args == original.args
        assert vars(twin) == vars(original)


@clause("QB-ERR-7")
def test_an_error_as_it_is_raised_survives() -> None:
    """It keeps the side and the reason that it was raised with."""
    with queue_pair() as (left, right):
        right.disconnect(error=OSError("disk full"))
        with pytest.raises(DisconnectedQueueError) as caught:
            left.receive()

    for twin in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert (twin.side, twin.reason) == ("remote", "disk full")
        assert str(twin) == str(caught.value)


def refused(end: MessageQueue, pipe: Channel) -> list[Callable[[], object]]:
    """Return the calls that raise once everything is disconnected."""
    return [
        lambda: end.send(b""),
        end.receive,
        lambda: pipe.write(b"x"),
        lambda: pipe.read(bytearray(1)),
        lambda: pipe.read_exactly(1),
    ]


@clause("QB-ERR-8")
def test_an_ordinary_disconnect_has_no_cause() -> None:
    """Either side disconnects; checked at both ends, for every call."""
    for closer in (0, 1):
        with queues() as ends, channels() as pipes:
            ends[closer].disconnect()
            pipes[closer].disconnect()
            for end, pipe in zip(ends, pipes, strict=True):
                for call in refused(end, pipe):
                    with pytest.raises(DisconnectedError) as caught:
                        call()
                    assert caught.value.__cause__ is None
                    assert caught.value.reason is None


@clause("QB-ERR-8")
def test_an_abnormal_disconnect_has_its_cause() -> None:
    """It is the very error passed, at both ends, for every call."""
    cause = ZeroDivisionError("division by zero")
    with queues() as ends, channels() as pipes:
        ends[0].disconnect(error=cause)
        pipes[0].disconnect(error=cause)
        for end, pipe, side in zip(ends, pipes, ("local", "remote"), strict=True):
            for call in refused(end, pipe):
                with pytest.raises(DisconnectedError) as caught:
                    call()
                assert caught.value.__cause__ is cause
                assert caught.value.reason == "division by zero"
                assert caught.value.side == side


@clause("QB-ERR-10")
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_object_that_belongs_to_its_process_rejects_pickle_and_copy(
    protocol: int,
) -> None:
    """Managers, brokers, queues and channels reject pickle, copy and deepcopy."""
    with queues() as (queue, _), channels() as (channel, _), BrokerManager() as manager:
        broker = Broker("b", manager=manager)
        face = QueueBroker("q", manager=manager)
        for each in (manager, broker, face, queue, channel):
            for act in (
                lambda each=each: pickle.dumps(each, protocol),
                lambda each=each: copy.copy(each),
                lambda each=each: copy.deepcopy(each),
            ):
                with pytest.raises(TypeError, match="cannot pickle or copy"):
                    act()


@clause("QB-RECV-9", "QB-ERR-4")
@pytest.mark.parametrize("error", ["oops", ValueError])
def test_a_disconnect_with_an_error_that_is_no_exception_changes_nothing(
    error: object,
) -> None:
    """The call raises, and both ends are unchanged."""
    with queue_pair() as (left, right):
        with pytest.raises(TypeError, match="error must be an exception"):
            left.disconnect(error)  # type: ignore[arg-type]  # under test
        left.send(b"still connected")
        assert right.receive() == b"still connected"
