"""`RelayOutbox` and `RelayAccount`: posting to relays within their bounds."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from bus.errors import AddresseeGoneError, BusFullError
from bus.kernel.tasks.actions import Fail
from bus.model.message import Kind
from bus.process.account import Admission
from bus.process.accounts import RelayAccount
from bus.process.relay_outbox import OutboundAnswer
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.messages import new_message
from tests.process.outbox import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.process.account import Overflow
    from queuebroker.testing import Run

ACCEPTED, FULL, DROPPED = Admission.ACCEPTED, Admission.FULL, Admission.DROPPED


@clause("BUS-RELAY-6")
def test_to_post_ends_the_part_of_the_sender() -> None:
    """BUS-RELAY-6, BUS-RELAY-2: it stays in an inbox until the comm thread runs."""
    process = Process()
    assert [process.post(each) for each in (1, 2)] == [ACCEPTED] * 2
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
        assert process.post(number, process.host.audience) is ACCEPTED
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


def test_a_full_relay_returns_its_messages_as_failed() -> None:
    process = Process()
    process.post(1)
    process.remote.full = True
    [failed] = process.round()
    assert isinstance(failed, Fail)
    assert failed.message.payload == 1
    assert isinstance(failed.error, BusFullError)


# The bound.


@clause("BUS-FLOW-1", "BUS-FLOW-2")
@pytest.mark.parametrize(
    ("config", "size"),
    [({"task_fifo_messages": 3}, 1), ({"task_fifo_bytes": 120}, 40)],
    ids=["messages", "bytes"],
)
def test_so_many_fit_wherever_they_wait(config: dict[str, Any], size: int) -> None:
    """In the inbox and in the relay together; those on the link take no room."""
    process = Process(**config)
    assert [process.post(n, size=size) for n in range(4)] == [ACCEPTED] * 3 + [FULL]
    [limit] = config.values()
    with pytest.raises(BusFullError, match=f"task 'x'.* {limit} {'mb'[size > 1]}"):
        raise process.relay.client.error("task 'x'")
    process.round()
    assert process.post(4, size=size) is FULL
    process.leave(1)
    assert [process.post(n, size=size) for n in (5, 6)] == [ACCEPTED, FULL]
    assert process.relay.client.unread == 3


def test_one_message_always_fits_if_nothing_waits() -> None:
    process = Process(task_fifo_bytes=10)
    for _ in range(2):
        assert process.post(1, size=1_000) is ACCEPTED
        assert process.post(2) is FULL
        process.round()
        process.leave()


@clause("BUS-FLOW-6")
@pytest.mark.parametrize(
    ("overflow", "outcome"),
    [
        ("error", FULL),
        ("block", FULL),  # the sender waits for room
        ("drop-newest", DROPPED),
        ("disconnect", FULL),
    ],
)
def test_a_message_without_room_follows_the_policy_of_the_far_task(
    overflow: Overflow, outcome: Admission
) -> None:
    process = Process(overflow, task_fifo_messages=1)
    assert [process.post(each) for each in (1, 2)] == [ACCEPTED, outcome]
    assert process.relay.client.unread == 1


@clause("BUS-FLOW-6")
@pytest.mark.parametrize(("fit", "size"), [(2, 1), (9, 50)])
def test_where_the_oldest_is_dropped_as_much_again_is_on_its_way(
    fit: int, size: int
) -> None:
    """The relay drops, too; the inbox stays bounded while the comm thread is slow."""
    process = Process("drop-oldest", task_fifo_messages=fit, task_fifo_bytes=100)
    for turn in range(2):
        for number in range(3):
            assert process.post((turn, number), size=size) is ACCEPTED
        process.round()
        assert process.lost == [(each, 0) for each in range(turn + 1)]
        assert process.waiting[-2:] == [(turn, 1), (turn, 2)]
    process.leave(2)  # the two dropped messages of the relay
    assert process.relay.client.unread == 2
    assert process.post(1, size=size) is ACCEPTED
    assert len(process.lost) == 2


def test_undeliverable_messages_of_the_far_task_are_answered_or_counted() -> None:
    """Its process need not keep dropped messages; a question gets an error."""
    process, gone = Process(), AddresseeGoneError("x")
    client = process.relay.client

    def sent(payload: object, **fields: object) -> Any:
        full = SimpleNamespace(
            overflow="drop-oldest", error=lambda what: BusFullError(what, 1)
        )
        to = SimpleNamespace(name="x")
        return new_message(payload, _to=to, _account=full, _size=1, **fields)

    client.on_undeliverable(sent(1), gone)
    client.on_undeliverable(sent(2, wants_reply=True), gone)
    client.on_undeliverable(sent(3, kind=Kind.NOTIFICATION), gone)
    client.on_overflow(sent(4))
    assert (client.undelivered, process.extracted) == (1, [])
    client.on_dropped(sent(5))
    client.on_dropped(sent(6, wants_reply=True))
    assert (client.undelivered, process.extracted) == (2, [5, 6])
    process.round()
    errors = [(payload, error.split(":")[0]) for payload, _, error in process.answered]
    assert errors == [(2, "AddresseeGoneError"), (6, "BusFullError")]


# In every schedule.


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
        assert waiting.result is ACCEPTED

    _settled(program)


def _settled(program: Callable[[Run], object]) -> None:
    explore(program, bound=1, limit=schedules(300), random=30, seed=1)
