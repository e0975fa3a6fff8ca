"""Long messages on the fast path: their bodies lie in shared memory."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

import bus as bus_package
import queuebroker
from bus.features.memory.arena import Arena
from bus.features.memory.frames import Release
from bus.kernel.fast_path import FastPath
from bus.kernel.wire import (
    FOLLOWS_MIN,
    LEASED,
    LOCATION_BYTES,
    NO_DEADLINE,
    RAW,
    WANTS_REPLY,
    Batch,
    FrameReader,
    FrameType,
    Run,
    decode,
    decode_single,
    encode,
)
from bus.model.message import Kind
from bus.process.rounds import Rounds
from queuebroker import _sync
from specs.clauses import clause
from tests.features.memory.memory_ends import Owner, Recipient, all_closed, body_of
from tests.kit.systems import needs_shared_memory
from tests.process.alone import Alone
from tests.process.talk import Talk, until_at_rest
from tests.strikes import everywhere
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus
    from tests.strikes import Blow

__all__ = ["all_closed"]  # a fixture

MIB: Final = 2**20
LONG: Final = bytes(range(256)) * (FOLLOWS_MIN // 256)
_EVERYWHERE_S: Final = 240.0


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Talk]:
    with ExitStack() as stack:
        made = Talk(stack, monkeypatch)
        yield made
        made.answered.clear()
    del made
    gc.collect()  # the last views, which keep descriptors


def ask(talk: Talk, body: bytes) -> memoryview:
    """Ask a question, and let go of it at the other end."""
    answer: memoryview = talk.ask(body)
    talk.answered.clear()
    return answer


def used(bus: Bus) -> int:
    """Return the used buffers of the arena of a process."""
    info = bus.inspect().shared_memory
    assert info is not None
    return sum(each.used for each in info.slabs)


def slabs(bus: Bus) -> int:
    info = bus.inspect().shared_memory
    assert info is not None
    return len(info.slabs)


def warm(talk: Talk) -> None:
    """Ask long questions until both directions take the fast path."""

    def is_warm() -> bool:
        before = talk.went, talk.received
        answer = ask(talk, LONG)
        assert answer == LONG
        both = (talk.went, talk.received) == (before[0] + 2, before[1] + 2)
        return both and type(answer.obj) is not bytes

    until(is_warm, "long questions and answers take the fast path")


@needs_shared_memory
@clause("BUS-CHAN-7", "MC-38")
def test_long_questions_and_answers_go_past_the_comm_threads(talk: Talk) -> None:
    warm(talk)
    talk.went = talk.received = 0

    for number in range(100):
        body = number.to_bytes(2) + LONG
        assert ask(talk, body) == body

    # Occasionally a comm thread makes a round, or reads first.
    assert talk.went > 100
    assert talk.received > 100


@needs_shared_memory
@clause("MC-35")
def test_a_message_reports_the_leases_that_have_ended(talk: Talk) -> None:
    """Without a round of the comm threads, so that few buffers are in turn."""
    warm(talk)

    for _ in range(100):
        ask(talk, LONG)

    assert (slabs(talk.near), slabs(talk.far)) == (1, 1)
    gc.collect()
    until(lambda: used(talk.near) == used(talk.far) == 0, "all buffers are home")


@needs_shared_memory
@clause("MC-35")
def test_short_answers_report_the_leases_of_long_questions(talk: Talk) -> None:
    warm(talk)
    talk.answerer.deregister()
    talk.answerer = talk.far.register(
        "answerer", on_command=lambda m: len(m.payload), thread=talk.thread
    )

    for _ in range(100):
        assert talk.ask(LONG) == len(LONG)

    assert slabs(talk.near) == 1


@needs_shared_memory
@clause("MC-29", "BUS-CHAN-7")
def test_a_long_question_without_room_in_memory_goes_by_the_link(talk: Talk) -> None:
    warm(talk)
    held = [ask(talk, LONG + bytes([number])) for number in range(100)]

    assert [each == LONG + bytes([at]) for at, each in enumerate(held)] == [True] * 100
    held.clear()
    warm(talk)


@clause("BUS-CHAN-7")
@pytest.mark.parametrize(
    ("size", "shared"),
    [(FOLLOWS_MIN - 1, 0), (FOLLOWS_MIN, 1), (8 * MIB, 1), (8 * MIB + 1, 0)],
)
def test_a_body_beyond_8_mib_is_copied_by_the_comm_thread(
    *, size: int, shared: int
) -> None:
    """The wake-up of that thread is little beside the copy."""
    fast_path: Any = SimpleNamespace(
        peer=SimpleNamespace(message_bytes_max=16 * MIB),
        link=1,
        _bodies=SimpleNamespace(shares=lambda link: link == 1),
    )

    assert FastPath._is_shared(fast_path, size) == shared


@clause("BUS-WIRE-1", "MC-38")
@pytest.mark.parametrize("flags", [0, RAW, WANTS_REPLY, RAW | WANTS_REPLY])
@pytest.mark.parametrize("size", [LOCATION_BYTES - 1, LOCATION_BYTES])
def test_a_location_is_read_as_a_lone_message(flags: int, size: int) -> None:
    run = Run(1, 2, Kind.COMMAND, flags | LEASED, 3, NO_DEADLINE, 0, [bytes(size)])
    data = encode(Batch(1, 1, 1, 1, [run]))

    found = decode_single(data)

    if size < LOCATION_BYTES:
        assert found is None  # `decode` rejects it
        return
    assert found is not None
    assert bytes(found.runs[0].bodies[0]) == bytes(size)
    there = decode(data)
    assert isinstance(there, Batch)
    assert found.runs[0].flags == there.runs[0].flags == flags | LEASED


@clause("QB-ERR-9", "MC-29")
@pytest.mark.deep
def test_an_interrupted_call_leaves_a_working_memory(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every point of a call with a long question and a long answer."""
    points = list[int]()
    main = list[int]()  # the thread that stands for the main one
    monkeypatch.setattr(_sync, "may_be_interrupted", lambda: _sync.get_ident() in main)

    def case(interrupted: Blow) -> None:
        warm(talk)
        talk.answered.clear()
        body, after = LONG + b"struck", LONG + b"after"
        # The answer is kept: an interrupt in a callback at its end is swallowed.
        kept = list[Any]()
        interrupted(
            lambda: kept.append(talk.asker.call("answerer", body, timeout=60.0))
        )
        assert talk.ask(after) == after
        assert talk.answered in ([after], [body, after])
        talk.answered.clear()
        points.append(1)

    def apart() -> None:
        main.append(_sync.get_ident())
        talk.here = talk.near.here()
        talk.asker = talk.near.register("interrupted", thread=talk.here)
        everywhere(case, packages=(bus_package, queuebroker))
        for each in (talk.near, talk.far):
            until_at_rest(each)
        warm(talk)

    # Not in this thread, for the reason given in `tests.sockets.test_interrupts`.
    with Threads() as threads:
        threads.start(apart).result(_EVERYWHERE_S)
    talk.answered.clear()
    gc.collect()
    until(lambda: used(talk.near) == used(talk.far) == 0, "all buffers are home")
    assert len(points) > 100


# The memory of a sender and of its recipients, without links.


def sent(owner: Owner, link: int = 1) -> Any:
    """Return the body of a message as it arrives, once each offer is answered."""
    [frame] = owner.send(LONG, link)
    owner.answers()
    return body_of(frame)


def is_leased(body: Any) -> bool:
    return type(body.obj) is not bytes


@needs_shared_memory
@clause("MC-29", "QB-ERR-9")
def test_memory_that_an_interrupt_left_half_changed_is_replaced(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(owner)
    kept = sent(owner)
    assert is_leased(kept)
    assert owner.memory.shares(1)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Arena, "dequeue", interrupted)
        with pytest.raises(KeyboardInterrupt):
            owner.send(LONG, 1)

    # A slab of the new memory would have the number of one of the old memory there.
    assert [is_leased(sent(owner)) for _ in range(3)] == [False] * 3
    assert not owner.memory.shares(1)
    assert kept == LONG
    owner.link(2, Recipient())
    assert [is_leased(sent(owner, 2)) for _ in range(3)] == [False, True, True]


@needs_shared_memory
@clause("MC-35")
def test_a_report_for_one_link_leaves_those_of_the_others(owner: Owner) -> None:
    sent(owner)
    held = sent(owner)
    receiver = owner.recipients[1].memory
    lent = receiver._lent
    lent.ended_at.append(9)
    del held

    assert receiver.ended_at
    report, message = receiver.put(7, b"message")

    assert isinstance(FrameReader().read(report), Release)
    assert message == b"message"
    assert list(lent.ended_at) == [9]
    assert receiver.put(7, b"message") == [b"message"]


@clause("BUS-CHAN-7", "MC-35")
def test_a_report_goes_in_front_of_a_message_and_wakes_the_peer_once() -> None:
    alone = Alone()
    alone.memory.reports = [b"report"]

    assert alone.ask()

    assert alone.calls[2:] == [
        "reports 1",
        f"together {[b'report', b'command']}",
        "memory",
    ]


@clause("BUS-CHAN-7", "MC-35")
@pytest.mark.parametrize("main", [False, True])
def test_a_thread_that_reads_a_report_at_a_link_handles_it(*, main: bool) -> None:
    alone = Alone()
    alone.host.main = main

    alone.wait(encode(Release(leases=((1, 2),))))

    assert alone.calls == ["report 1"]
    assert not alone.given


@clause("BUS-WIRE-4", "MC-35")
def test_a_malformed_report_is_handed_to_the_comm_thread() -> None:
    """It drops the link."""
    alone = Alone()
    alone.host.main = True
    wrong = bytes((FrameType.RELEASE.value,)) + b"wrong"

    alone.wait(wrong)

    assert list(alone.given) == [(1, wrong)]
    assert alone.calls == ["wake"]


@clause("MC-35")
@pytest.mark.parametrize("soon", [False, True])
@pytest.mark.parametrize("asleep", [False, True])
def test_the_end_of_a_lease_wakes_a_comm_thread_that_sleeps_for_long(
    *, asleep: bool, soon: bool
) -> None:
    """A comm thread that does not sleep checks for ended leases before it does."""
    woken = list[bool]()
    rounds: Any = SimpleNamespace(
        inbox=SimpleNamespace(arrived=SimpleNamespace(asleep=asleep)),
        acknowledgement_tracker=SimpleNamespace(wakes_soon=soon),
        _link_pool=SimpleNamespace(wake=lambda: woken.append(True)),
    )

    Rounds.wake_unless_soon(rounds)

    assert bool(woken) is (asleep and not soon)
