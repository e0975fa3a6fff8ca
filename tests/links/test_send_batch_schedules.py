"""`SendBatch` in every schedule of the threads that add, take and need room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus.links.send_batch import SHORT_MAX
from bus.threads.account import Admission
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.links.posting import Process
from tests.links.sending import LOOKS, add, adds, all_is_given_back

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


def under_every_schedule(program: Callable[[Run], object]) -> None:
    explore(program, bound=2, limit=schedules(400), random=schedules(50), seed=1)
    explore(
        program,
        bound=2,
        limit=schedules(2_000),
        random=schedules(150),
        seed=1,
        bytecode=LOOKS,
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
        came = process.waiting
        assert len(came) == 3 == process.relay.client.unread
        assert [each for each in came if type(each) is bytes] == [b"1", *adding.result]
        assert [each for each in came if type(each) is int] == posted
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
        came: list[Any] = []
        accepted = run.spawn(lambda: adds(mine, [b"1", second]), name="adds")
        also = run.spawn(lambda: adds(others, [b"3"]), name="needs room")
        for _ in range(2):
            process.round()
            assert len(process.waiting) <= 2
            if leaves:
                came += process.waiting
                process.leave()
        run.join()
        process.round()
        came += process.waiting
        assert [each for each in came if each < b"3"] == accepted.result
        assert [each for each in came if each == b"3"] == also.result
        assert leaves or len(came) == 2
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
