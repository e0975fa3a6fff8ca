"""`RelayOutbox`: posting to relays, and the outcomes of the posted messages."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any, cast

import pytest

from bus.core.local.actions import Fail
from bus.errors import BusFullError
from bus.links.relay_outbox import OutboundAnswer
from bus.threads.account import Admission
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.links.posting import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


@clause("BUS-RELAY-6")
def test_to_post_ends_the_part_of_the_sender() -> None:
    """BUS-RELAY-6, BUS-RELAY-2: it stays in an inbox until the comm thread runs."""
    process = Process()
    assert [process.post(each) for each in (1, 2)] == [Admission.ACCEPTED] * 2
    assert process.waiting == []
    process.round()
    assert process.waiting == [1, 2]


def test_a_request_is_served_after_the_messages_posted_before_it() -> None:
    process = Process()
    seen: list[Any] = []
    process.post(1)
    process.host.ask(lambda: seen.extend(process.waiting))
    process.round()
    assert seen == [1]


@clause("BUS-MSG-15")
def test_answers_and_messages_go_in_the_order_in_which_they_were_given() -> None:
    process = Process()
    order: list[Any] = []
    process.remote.answer = lambda *args, **_: order.append("answer")  # type: ignore[method-assign]
    process.remote.post = lambda *args: order.append("command")  # type: ignore[method-assign]
    process.remote.notify = lambda *args, **_: order.append("notification")  # type: ignore[method-assign]
    process.post(1, process.host.audience)
    process.host.inbox.push(OutboundAnswer(process.message(2), 3, None))
    process.post(4)
    process.post(5, process.host.audience)
    process.round()
    assert order == ["notification", "answer", "command", "notification"]


def test_an_answer_goes_to_the_asker() -> None:
    process = Process()
    process.host.inbox.push(OutboundAnswer(process.message(1), 2, None))
    process.host.inbox.push(OutboundAnswer(process.message(3), None, "no"))
    process.round()
    assert process.remote.answered == [(1, 2, None), (3, None, "no")]


@clause("BUS-FLOW-3")
def test_excess_notifications_are_dropped_for_newer_ones() -> None:
    """Notifications for other processes: the oldest are dropped; none is reported."""
    process = Process(task_fifo_messages=3)
    for number in range(5):
        assert process.post(number, process.host.audience) is Admission.ACCEPTED
    process.round()
    assert [payload for payload, _ in process.remote.notified] == [2, 3, 4]
    assert process.lost == [0, 1]
    assert process.host.account.unread == 0


@clause("BUS-FLOW-3")
def test_of_each_notifier_it_is_known_how_many_were_dropped() -> None:
    """In its next notification: its subscribers may not subscribe to another one."""
    process = Process(task_fifo_messages=3)
    one, two = process.sender(), process.sender()
    for by in (two, one, two, one, two, two):
        process.post("m", process.host.audience, by)
    process.round()
    process.post("m", process.host.audience, one)
    process.round()

    assert process.remote.gaps == [(one, 1), (two, 2), (two, 0), (one, 0)]


@clause("BUS-FLOW-3", "BUS-DEREG-1")
def test_a_notifier_is_released_after_its_last_notification_was_dropped() -> None:
    process = Process(task_fifo_messages=1)
    gone = process.sender()
    for by in (gone, process.sender()):
        process.post("m", process.host.audience, by)
    process.round()
    left = weakref.ref(gone)
    del gone, by
    gc.collect()  # the sender refers to itself
    assert left() is None


@clause("BUS-FLOW-2")
def test_room_is_freed_when_messages_have_left() -> None:
    process = Process(task_fifo_messages=2)
    assert [process.post(each) for each in (1, 2, 3)][-1] is Admission.FULL
    process.round()
    assert process.post(3) is Admission.FULL
    process.relay.queue.popleft()
    process.round()
    assert process.post(3) is Admission.ACCEPTED


def test_a_full_relay_returns_its_messages_as_failed() -> None:
    process = Process()
    process.post(1)
    process.remote.full = True
    [failed] = process.round()
    assert isinstance(failed, Fail)
    assert failed.message.payload == 1
    assert isinstance(failed.error, BusFullError)


def test_a_relay_obeys_the_policy_of_its_task() -> None:
    process = Process(overflow="drop-newest", task_fifo_messages=1)
    assert process.relay.client.overflow == "drop-newest"
    outcomes = [process.post(each) for each in (1, 2)]
    assert outcomes == [Admission.ACCEPTED, Admission.DROPPED]


def test_a_far_asker_receives_an_error_for_an_undeliverable_question() -> None:
    process = Process()
    question = process.message(1)
    question.wants_reply = True
    process.relay.client.on_undeliverable(question, BusFullError("task 'x'", 3))
    process.round()
    [(payload, answer, error)] = process.remote.answered
    assert (payload, answer) == (1, None)
    assert error.startswith("BusFullError: ")


@clause("BUS-DEREG-4")
def test_messages_posted_to_an_abandoned_relay_are_kept_in_order() -> None:
    process = Process()
    for number in (1, 2):
        process.post(number)
    process.entry.host = None
    assert process.post(3) is Admission.GONE
    process.round()
    assert process.waiting == []
    assert process.unsent() == [1, 2]
    assert process.unsent() == []
    assert process.relay.client.unread == 0


def test_unopened_messages_of_an_abandoned_relay_are_kept() -> None:
    """They go before the messages that were left in the relay."""
    process = Process()
    first, left = process.message(1), process.message(2)
    process.entry.host = None
    process.host.open(process.entry, [first], cast("Any", process.remote))
    assert process.host.take_unsent(process.entry, [left]) == [first, left]
    assert process.unsent() == []


@pytest.mark.parametrize("given_up", [False, True])
def test_no_message_posted_while_a_relay_is_abandoned_is_lost(given_up: bool) -> None:
    """Each message is in the relay, returned or refused; each group is in order."""

    def program(run: Run) -> None:
        process = Process()
        accepted: list[int] = []
        back: list[int] = []

        def posts() -> None:
            accepted.extend(
                number
                for number in range(3)
                if process.post(number) is Admission.ACCEPTED
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


@clause("BUS-FLOW-6")
def test_a_sender_that_waits_for_room_gets_it() -> None:
    """As under policy `block`, which a far task may have requested."""

    def program(run: Run) -> None:
        process = Process(task_fifo_messages=1)
        process.post(1)

        def waits() -> Admission:
            return process.host.inbox.offer_until(
                process.message(2), process.host, None
            )

        waiting = run.spawn(waits)
        while not waiting.done:
            process.round()
            if process.relay.queue:
                process.relay.queue.popleft()
            run.sleep(1.0)
        assert waiting.result is Admission.ACCEPTED

    _settled(program)


def _settled(program: Callable[[Run], object]) -> None:
    explore(program, bound=1, limit=schedules(300), random=30, seed=1)
