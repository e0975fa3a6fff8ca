"""A long message is written to its final place."""

import tracemalloc

import pytest

from queuebroker.sockets.frame_reader import Gathering


def test_the_gathered_memory_becomes_the_message_without_a_copy() -> None:
    """No copy of it is made."""
    size = 1 << 20
    tracemalloc.start()
    try:
        gathering = Gathering(b"begun", size - 5)
        with gathering.room as room:
            room[:] = b"x" * len(room)
        tracemalloc.reset_peak()
        message = gathering.message()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert message == b"begun" + b"x" * (size - 5)
    assert peak < 1.5 * size


def test_a_room_that_is_held_costs_a_copy_and_not_the_message() -> None:
    """A holder of the memory cannot change the message that was returned."""
    gathering = Gathering(b"", 3)
    room = gathering.room
    room[:] = b"abc"

    message = gathering.message()
    room[:] = b"xyz"

    assert message == b"abc"


@pytest.mark.parametrize("received", [0, 1, 9])
def test_the_room_has_the_size_of_the_missing_bytes(received: int) -> None:
    """The memory begins after the bytes that have arrived."""
    gathering = Gathering(b"head", 10)
    gathering.wanted -= received
    with gathering.room as room:
        assert len(room) == 10 - received
