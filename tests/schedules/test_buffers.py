"""QB-BUF, QB-CHAN: a buffer alone and a stream, under every schedule."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    Channel,
    CircularBufferQueue,
    DisconnectedChannelError,
    IncompleteReadError,
    SendTimeoutError,
)
from specs.clauses import clause
from tests.pairs import channel_pair
from tests.schedules.outcome import failed, finish, outcome, result
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check

if TYPE_CHECKING:
    from queuebroker.testing import Run


def _whole(buffer: CircularBufferQueue[bytes]) -> bool:
    """Return whether exactly the capacity of the buffer fits."""
    while buffer.pull() is not None:
        pass
    for _ in range(buffer.capacity):
        buffer.push(b"fit", timeout=0)
    return buffer.full()


@scenario(spurious=1)
@clause("QB-BUF-4", "QB-BUF-2", "QB-CONC-6")
def pulls_let_pushes_go_on(run: Run) -> None:
    """Two pushes wait on a full buffer; each pull lets one of them continue."""
    buffer = CircularBufferQueue[bytes](1)
    buffer.push(b"0")
    pushes = [run.spawn(buffer.push, message) for message in (b"1", b"2")]
    run.settle()
    assert not any(push.done for push in pushes)

    got = []
    for released in (1, 2, 2):
        got.append(buffer.pull())
        run.settle()
        assert sum(push.done for push in pushes) == released

    run.join()
    assert got[0] == b"0"
    assert {*got[1:]} == {b"1", b"2"}
    assert buffer.pull() is None


@scenario()
@clause("QB-BUF-4", "QB-TIME-5")
def a_push_expires_as_room_is_made(run: Run) -> None:
    """The message is stored or not; another waiting push is still woken."""
    buffer = CircularBufferQueue[bytes](1)
    buffer.push(b"0")
    hasty = run.spawn(partial(buffer.push, b"hasty", timeout=1), name="hasty")
    patient = run.spawn(buffer.push, b"patient")
    run.sleep(1)

    assert buffer.pull() == b"0"
    run.settle()
    assert buffer.full(), "there is room, and somebody waits for it"
    first = buffer.pull()
    stored = outcome(hasty, SendTimeoutError) is None
    outcome(patient)
    rest = buffer.pull()
    assert {first, rest} == ({b"hasty", b"patient"} if stored else {b"patient", None})
    assert _whole(buffer)


@scenario(quick=1)
@clause("QB-BUF-4", "QB-BUF-2")
def an_interrupted_push_leaves_the_buffer_whole(run: Run) -> None:
    """One of two pushes is interrupted: the other continues, the capacity is whole."""
    buffer = CircularBufferQueue[bytes](1)
    buffer.push(b"0")
    interrupted = run.spawn(buffer.push, b"interrupted")
    other = run.spawn(buffer.push, b"other")
    pull = run.spawn(buffer.pull)

    run.interrupt(interrupted, KeyboardInterrupt)
    outcome(interrupted, KeyboardInterrupt)
    assert outcome(pull) == b"0"
    run.settle()
    assert buffer.full()
    got = [buffer.pull()]
    run.settle()
    got.append(buffer.pull())
    assert outcome(other) is None
    assert b"other" in got
    assert _whole(buffer)


@scenario()
@clause("QB-CHAN-1", "QB-CHAN-2", "QB-CHAN-3", "QB-CHAN-7")
def a_stream_through_two_bytes(run: Run) -> None:
    """With any split into pieces, the bytes are read as written, in order."""
    with channel_pair(2) as (left, right):
        writer = run.spawn(left.write_all, b"abcde")

        read = right.read_exactly(1) + right.read_exactly(3) + right.read_exactly(1)

        assert read == b"abcde"
        assert outcome(writer) is None


@scenario(quick=1)
@clause("QB-CHAN-3", "QB-CONC-4")
def two_readers_share_a_stream(run: Run) -> None:
    """Two that read one byte each: each byte goes to one, neither sleeps on."""
    with channel_pair(1) as (left, right):
        readers = [run.spawn(right.read_exactly, 1) for _ in range(2)]
        writer = run.spawn(left.write_all, b"ab")

        assert sorted(str(outcome(reader)) for reader in readers) == ["b'a'", "b'b'"]
        assert outcome(writer) is None


@scenario(quick=1, variants={"the writer": (0,), "the reader": (1,)})
@clause("QB-CHAN-4", "QB-CHAN-5", "QB-CHAN-7")
def a_stream_is_cut_off(run: Run, hangs_up: int) -> None:
    """A disconnect in the middle: the reader gets a prefix, then the error."""
    with channel_pair(1) as ends:
        left, right = ends

        def write() -> int:
            done = 0
            try:
                while done < 3:
                    done += left.write(b"abc", done)
            except DisconnectedChannelError:
                return done
            return done

        writer = run.spawn(write)
        reader = run.spawn(right.read_exactly, 4)
        run.spawn(ends[hangs_up].disconnect)

        written = result(writer)
        assert failed(reader)
        error = reader.error
        if isinstance(error, IncompleteReadError):
            assert b"abc"[: len(error.partial)] == error.partial
            assert len(error.partial) == right.stats().received
            if hangs_up == 0:
                assert len(error.partial) == written


@scenario(variants={"the write": (0,), "the read": (1,)})
@clause("QB-CHAN-3", "QB-CONC-4")
def a_stream_that_is_interrupted_goes_on(run: Run, which: int) -> None:
    """A write or read is interrupted: the byte moved or not, the room is whole."""
    with channel_pair(1) as (left, right):
        left.write(b"0")
        write = run.spawn(left.write, b"1")
        read = run.spawn(right.read_exactly, 1)

        run.interrupt((write, read)[which], KeyboardInterrupt)
        finish(read)
        run.settle()
        if not write.done:
            assert right.read_exactly(1) == b"0"
        outcome(write, KeyboardInterrupt)
        outcome(read, KeyboardInterrupt)
        if right.pending:
            assert right.read_exactly(right.pending) in {b"0", b"1"}

        assert left.stats().sent == right.stats().received
        assert left.write(b"xy", timeout=0) == 1
        assert right.read_exactly(1) == b"x"


@scenario()
@clause("QB-CHAN-5", "QB-DISC-4")
def a_read_against_a_goodbye_of_its_own_end(run: Run) -> None:
    """It returns the byte or never had it; the rest of its buffer is unchanged."""
    with channel_pair(2) as (left, right):
        left.write(b"x")
        buffer = bytearray(b"---")

        def read(end: Channel) -> int:
            return end.read(buffer, 1, 1)

        reader = run.spawn(read, right)
        goodbye = run.spawn(right.disconnect)

        got = outcome(reader, DisconnectedChannelError)
        outcome(goodbye)
        assert bytes(buffer) == (b"-x-" if got == 1 else b"---")
        assert right.stats().received == (got == 1)


@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_quick(scenario: Scenario) -> None:
    """The clauses hold in every schedule with one preemption, and in random ones."""
    check(scenario)
