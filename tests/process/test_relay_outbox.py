"""`RelayOutbox` and `RelayAccount`: the bound of a relay in every schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.process.account import Admission
from bus.process.accounts import RelayAccount
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.process.outbox import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run

ACCEPTED = Admission.ACCEPTED


@clause("BUS-FLOW-1")
def test_the_bound_is_exact_for_any_number_of_senders() -> None:
    """Of concurrent senders, as many succeed as there is room for."""

    def program(run: Run) -> None:
        process = Process(task_fifo_messages=2)
        outcomes = [run.spawn(process.post, number) for number in range(3)]
        run.join()
        accepted = [each.result for each in outcomes].count(ACCEPTED)
        assert accepted == process.relay.client.unread == 2

    _under_every_schedule(program)


@clause("BUS-FLOW-1")
def test_the_bound_is_never_exceeded_while_messages_leave() -> None:
    def program(run: Run) -> None:
        process = Process(task_fifo_messages=2, task_fifo_bytes=4)
        client = process.relay.client

        def sends() -> None:
            for number in range(2):
                process.post(number, size=2)
                assert client.unread <= 2
                assert len(process.host.inbox.items) + len(process.waiting) <= 2

        for _ in range(2):
            run.spawn(sends)
        for _ in range(2):
            process.round()
            process.leave()
        run.join()
        process.round()
        assert client.unread == len(process.waiting)
        process.leave()
        assert client.unread == 0
        assert not client.full(4)

    _under_every_schedule(program)


def _under_every_schedule(program: Callable[[Run], object]) -> None:
    explore(
        program,
        bound=2,
        limit=schedules(1_500),
        random=schedules(100),
        seed=1,
        bytecode=[
            RelayAccount.admit_locked,
            RelayAccount.full,
            RelayAccount.review,
            RelayAccount.on_moved,
        ],
    )


@pytest.mark.parametrize("given_up", [False, True])
def test_no_message_posted_while_a_relay_is_abandoned_is_lost(given_up: bool) -> None:
    """Each message is in the relay, returned or refused; each group is in order."""

    def program(run: Run) -> None:
        process = Process()
        accepted: list[int] = []
        back: list[int] = []

        def posts() -> None:
            accepted.extend(
                number for number in range(3) if process.post(number) is ACCEPTED
            )

        def vacate() -> None:
            left = [each.payload for each in process.relay.queue]
            back.extend([*left, *process.unsent()])
            process.relay.queue.clear()

        posting = run.spawn(posts)
        process.round()
        if given_up:
            process.entry.host = None
            process.host.ask(vacate)
        posting.join()
        process.round()
        assert (back if given_up else process.waiting) == accepted
        assert process.relay.client.unread == len(process.waiting)
        assert not process.host._strays

    explore(program, bound=2, limit=schedules(1_000), random=schedules(150), seed=1)
