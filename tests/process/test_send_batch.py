"""`SendBatch`: nothing is lost, duplicated, or reordered, and no bound is exceeded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import bus
from bus.errors import BusFullError
from bus.process.account import Admission
from bus.process.send_batch import PAYLOAD_MAX, SHORT_MAX, SendBatch
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.process.outbox import RACES, Process, add, adds, all_is_given_back
from tests.strikes import Blow, everywhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run

# One thread.


@clause("BUS-CHAN-7", "BUS-MSG-15")
def test_one_goes_by_itself_unless_something_lies_before_it() -> None:
    process = Process()
    process.may_go_alone = True
    send_batch = process.send_batch()
    assert adds(send_batch, [b"1", b"2"]) == [b"1", b"2"]
    assert [each.payload for each in process.alone] == [b"1", b"2"]
    assert process.alone[0]._to is process.entry
    assert not process.host.inbox.items

    process.may_go_alone = False
    assert add(send_batch, b"3")
    process.may_go_alone = True
    assert adds(send_batch, [b"4", b"5"]) == [b"4", b"5"]

    process.round()
    assert process.waiting == [b"3", b"4", b"5"]
    assert add(send_batch, b"6")
    assert [each.payload for each in process.alone] == [b"1", b"2", b"6"]
    all_is_given_back(process)


@clause("BUS-MSG-15")
def test_no_payload_is_sent_alone_past_a_batch_that_fills_all_room() -> None:
    """The batch is full; the comm thread has not taken the earlier commands."""
    process = Process(task_fifo_messages=2)
    send_batch = process.send_batch()
    assert adds(send_batch, [b"1", b"2"]) == [b"1", b"2"]
    process.may_go_alone = True

    assert not add(send_batch, b"3")
    assert not process.alone


def test_a_payload_too_long_for_a_send_batch_is_not_sent_alone_either() -> None:
    process = Process()
    process.may_go_alone = True

    assert not add(process.send_batch(), bytes(PAYLOAD_MAX + 1))
    assert not process.alone


@clause("BUS-FLOW-1", "BUS-MSG-16")
@pytest.mark.parametrize(("most", "fits"), [(8, 0), (9, 1), (100, 92)])
def test_no_more_room_is_taken_however_short_messages_must_be(
    most: int, fits: int
) -> None:
    process = Process(message_bytes_max=most)
    send_batch = process.send_batch()
    assert add(send_batch, bytes(fits))
    assert process.relay.client.unread == 1024
    assert not add(send_batch, bytes(fits + 1))
    process.round()
    assert process.waiting == [bytes(fits)]
    all_is_given_back(process)


@clause("BUS-DEREG-4")
def test_a_send_batch_without_a_relay_accepts_no_more_payloads() -> None:
    process = Process()
    send_batch = process.send_batch()
    assert add(send_batch, b"1")
    process.entry.table = None
    assert not add(send_batch, b"2")
    process.entry.host = None
    process.round()
    assert process.unsent() == [b"1"]
    all_is_given_back(process)


# Senders that wait for room.


@clause("BUS-FLOW-2", "BUS-MSG-15")
def test_a_sender_that_waits_for_room_adds_behind_its_earlier_payloads() -> None:
    """Another sender competes for the room; a refused payload is never sent."""

    def program(run: Run) -> None:
        process = Process("block", task_fifo_messages=2)
        mine, others = (
            process.send_batch(waits_s=60.0),
            process.send_batch(waits_s=60.0),
        )
        adding = run.spawn(lambda: adds(mine, [b"1", b"2", b"3"]), name="adds")
        also = run.spawn(lambda: adds(others, [b"4", b"5"]), name="needs room")
        received: list[Any] = []
        for done in [False] * 3 + [True] * 2:
            if done:
                run.join()
            process.round()
            assert len(process.waiting) <= 2
            received += process.waiting
            process.leave()
        assert [each for each in received if each < b"4"] == adding.result
        assert [each for each in received if each >= b"4"] == also.result
        all_is_given_back(process)

    explore(program, bound=2, limit=schedules(400), random=schedules(100), seed=1)


@clause("BUS-FLOW-2")
def test_a_sender_that_waits_for_room_in_vain_gets_an_error() -> None:
    def program(_: Run) -> None:
        process = Process("block", task_fifo_messages=2)
        send_batch = process.send_batch(waits_s=3.0)
        assert adds(send_batch, [b"1", b"2"]) == [b"1", b"2"]
        before = _sync.monotonic()
        with pytest.raises(BusFullError, match="task 'far'"):
            send_batch.add(b"3")
        assert _sync.monotonic() - before >= 3.0
        process.round()
        process.leave()
        assert add(send_batch, b"4")
        process.round()
        assert process.waiting == [b"4"]

    explore(program, bound=0, limit=1)


@clause("BUS-FLOW-2", "BUS-DEREG-4")
def test_a_sender_that_waits_for_room_in_an_abandoned_relay_adds_nothing() -> None:
    def program(run: Run) -> None:
        process = Process("block", task_fifo_messages=1)
        send_batch = process.send_batch(waits_s=60.0)
        assert add(send_batch, b"1")
        adding = run.spawn(lambda: adds(send_batch, [b"2"]), name="adds")
        with process.host.inbox.lock:
            process.entry.host = None
            process.host.inbox.room.wake_all()
        adding.join()
        assert not adding.result
        assert not send_batch.spare

    explore(program, bound=2, limit=schedules(400), random=schedules(50), seed=1)


@clause("BUS-FLOW-2")
@pytest.mark.parametrize("most", [SHORT_MAX - 1, 3 * SHORT_MAX // 2, 10 * SHORT_MAX])
def test_a_sender_with_room_for_one_payload_but_no_reservation_does_not_wait(
    most: int,
) -> None:
    """It goes as a lone message: no thread would free the room that it waits for."""
    process = Process("block", task_fifo_bytes=most)
    send_batch, payload = process.send_batch(waits_s=60.0), bytes(SHORT_MAX // 4)
    added = 0
    while add(send_batch, payload):
        added += 1

    assert added <= most // len(payload)
    assert process.post(b"x") is Admission.ACCEPTED


@clause("BUS-CHAN-3")
def test_the_thread_that_makes_room_does_not_wait_for_any() -> None:
    """For example, if a finalizer or a log handler sends in that thread."""
    process = Process("block", task_fifo_messages=1)
    process.host.ident = _sync.get_ident()
    send_batch = process.send_batch(waits_s=60.0)

    assert [add(send_batch, b"1"), add(send_batch, b"2")] == [True, False]


# Interrupts.


def is_as_ever(process: Process, send_batch: SendBatch, interrupted: bytes) -> None:
    """Check that at most the interrupted message is missing, and no room."""
    assert add(send_batch, b"next")
    process.round()
    others = [each for each in process.waiting if each != interrupted]
    assert others in ([b"before", b"next"], [b"next"])
    assert len(process.waiting) - len(others) <= 1
    process.leave()
    assert [add(send_batch, b"x") for _ in range(4)] == [True] * 3 + [False]
    process.round()
    assert process.waiting == [b"x"] * 3
    all_is_given_back(process)


@pytest.mark.deep
@clause("BUS-FLOW-1", "BUS-MSG-15")
@pytest.mark.parametrize(
    "state", ["new", "posted", "longer", "taken", "full of others'"]
)
@pytest.mark.parametrize("goes_on", [True, False])
def test_an_interrupt_anywhere_loses_one_message_and_no_room(
    state: str, goes_on: bool
) -> None:
    """This holds also if the interrupted thread adds nothing more."""

    def case(interrupted_at: Blow) -> None:
        process = Process(task_fifo_messages=3)
        send_batch = process.send_batch()
        interrupted = b"interrupted"
        if state in {"posted", "longer", "taken"}:
            assert add(send_batch, b"before")
        if state == "longer":
            interrupted = interrupted.ljust(SHORT_MAX + 1)
        if state == "taken":
            process.round()
        if state == "full of others'":
            assert add(process.send_batch(), b"before")
        interrupted_at(lambda: add(send_batch, interrupted))
        assert not process.host.inbox.lock.locked()
        if goes_on:
            is_as_ever(process, send_batch, interrupted)
            return
        process.round()
        assert process.waiting.count(b"before") == (state != "new")
        process.leave()
        is_as_ever(process, process.send_batch(), interrupted)

    everywhere(case, packages=[bus])


@clause("BUS-FLOW-1", "BUS-MSG-15")
@pytest.mark.parametrize("how", ["by a batch", "by itself"])
def test_an_interrupt_while_room_is_reclaimed_loses_no_room(how: str) -> None:
    def case(interrupted_at: Blow) -> None:
        process = Process(task_fifo_messages=3)
        others, mine = process.send_batch(), process.send_batch()
        assert add(others, b"before")
        if how == "by a batch":
            interrupted_at(lambda: add(mine, b"interrupted"))
        else:
            interrupted_at(lambda: process.post(b"interrupted"))
        is_as_ever(process, others, b"interrupted")

    everywhere(case, packages=[bus])


@pytest.mark.deep
@clause("BUS-FLOW-1", "BUS-MSG-15")
@pytest.mark.parametrize("needed", [False, True])
def test_an_interrupt_while_the_comm_thread_takes_or_others_need_room(
    needed: bool,
) -> None:
    def program(run: Run) -> None:
        process = Process(task_fifo_messages=3)
        send_batch = process.send_batch()
        assert add(send_batch, b"before")
        adding = run.spawn(lambda: add(send_batch, b"interrupted"), name="adds")
        run.interrupt(adding, KeyboardInterrupt)
        others = add(process.send_batch(), b"others'") if needed else False
        process.round()
        adding.join()
        process.round()
        received = [each for each in process.waiting if each != b"interrupted"]
        assert received == [b"before", *([b"others'"] if others else [])]
        process.leave()
        is_as_ever(process, process.send_batch(), b"interrupted")

    explore(
        program,
        bound=2,
        limit=schedules(2_000),
        random=schedules(150),
        seed=1,
        bytecode=RACES,
    )


def under_every_schedule(program: Callable[[Run], object]) -> None:
    explore(program, bound=2, limit=schedules(400), random=schedules(50), seed=1)
    explore(
        program,
        bound=2,
        limit=schedules(2_000),
        random=schedules(150),
        seed=1,
        bytecode=RACES,
    )


@clause("BUS-RELAY-6", "BUS-MSG-15")
def test_payloads_added_while_the_comm_thread_takes_arrive_in_order() -> None:
    def program(run: Run) -> None:
        process = Process()
        send_batch = process.send_batch()
        adding = run.spawn(lambda: adds(send_batch, [b"1", b"2", b"3"]), name="adds")
        process.round()
        process.round()
        adding.join()
        process.round()
        assert adding.result == process.waiting == [b"1", b"2", b"3"]
        all_is_given_back(process)

    under_every_schedule(program)


@clause("BUS-FLOW-1")
def test_payloads_added_while_another_sender_needs_room_arrive() -> None:
    """Payloads are accepted up to the bound, whichever thread adds them; all arrive."""

    def program(run: Run) -> None:
        process = Process(task_fifo_messages=3)
        send_batch = process.send_batch()
        assert add(send_batch, b"1")
        adding = run.spawn(lambda: adds(send_batch, [b"2", b"3"]), name="adds")
        posted = [n for n in (4, 5) if process.post(n) is Admission.ACCEPTED]
        adding.join()
        process.round()
        received = process.waiting
        assert len(received) == 3 == process.relay.client.unread
        assert [each for each in received if type(each) is bytes] == [
            b"1",
            *adding.result,
        ]
        assert [each for each in received if type(each) is int] == posted
        all_is_given_back(process)

    under_every_schedule(program)


@pytest.mark.deep
@clause("BUS-FLOW-1", "BUS-MSG-15")
@pytest.mark.parametrize("second", [b"2", b"2".ljust(SHORT_MAX + 1)])
@pytest.mark.parametrize("leaves", [False, True])
def test_the_bound_holds_while_several_senders_add_and_the_comm_thread_takes(
    leaves: bool, second: bytes
) -> None:
    """The bound holds at every moment, and the order of each sender is kept.

    The same holds if the reserved room is too short for the second payload.
    """

    def program(run: Run) -> None:
        process = Process(task_fifo_messages=2)
        mine, others = process.send_batch(), process.send_batch()
        received: list[Any] = []
        accepted = run.spawn(lambda: adds(mine, [b"1", second]), name="adds")
        also = run.spawn(lambda: adds(others, [b"3"]), name="needs room")
        for _ in range(2):
            process.round()
            assert len(process.waiting) <= 2
            if leaves:
                received += process.waiting
                process.leave()
        run.join()
        process.round()
        received += process.waiting
        assert [each for each in received if each < b"3"] == accepted.result
        assert [each for each in received if each == b"3"] == also.result
        assert leaves or len(received) == 2
        all_is_given_back(process)

    under_every_schedule(program)


@clause("BUS-DEREG-4", "BUS-MSG-15")
def test_no_payload_added_while_the_relay_is_abandoned_is_lost() -> None:
    """Each is in the relay, returned, or goes another way; each group is in order."""

    def program(run: Run) -> None:
        process = Process()
        send_batch, back = process.send_batch(), list[Any]()

        def vacate() -> None:
            back.extend([*process.waiting, *process.unsent()])
            process.relay.queue.clear()

        adding = run.spawn(lambda: adds(send_batch, [b"1", b"2", b"3"]), name="adds")
        process.round()
        with process.host.inbox.lock:
            process.entry.host = None
        process.host.ask(vacate)
        process.round()
        adding.join()
        process.round()
        assert back == adding.result
        assert not process.host._strays
        assert not send_batch.payloads
        all_is_given_back(process)

    under_every_schedule(program)
