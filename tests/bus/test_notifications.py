"""BUS-MSG-4, 5, 9: notifications, their subscribers, and answers to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus import AlreadyAnsweredError, Bus, Incoming, Kind, Presence, Response
from bus.testing import memory_bus
from queuebroker.testing import explore
from specs.clauses import clause
from tests.bus.support import NEAR, far
from tests.kit.inspection import info
from tests.kit.serving import serve, settle
from tests.kit.tasks import unwanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


@clause("BUS-MSG-4")
@pytest.mark.parametrize("distance", NEAR)
@pytest.mark.parametrize("readers", [0, 1, 5])
def test_each_subscriber_gets_one_copy_and_no_other_task_gets_any(
    bus: Bus, distance: str, readers: int
) -> None:
    got: list[tuple[str, Any]] = []
    there = far(bus, distance)
    notifier = bus.register("notifier", thread=bus.here())

    def hears(name: str) -> Callable[[Incoming], None]:
        return lambda message: got.append((name, message.payload))

    for number in range(readers):
        reader = bus.register(f"r{number}", thread=there)
        reader.subscribe("notifier", hears(f"r{number}"))
    bus.register("deaf", thread=there, on_command=hears("deaf"))
    stranger = bus.register("stranger", thread=there)
    stranger.subscribe("deaf", hears("stranger"))

    notifier.notify("news")
    notifier.command("deaf", "end")

    serve(bus, lambda: len(got) == readers + 1, "all notifications have arrived")
    settle(bus)
    assert sorted(got) == [
        ("deaf", "end"),
        *((f"r{number}", "news") for number in range(readers)),
    ]


@clause("BUS-MSG-4")
def test_a_notification_carries_its_sender_reference_and_subscriptions(
    bus: Bus,
) -> None:
    got: list[Incoming] = []
    mark = object()
    notifier = bus.register("a/b", thread=bus.here())
    reader = bus.register("reader", thread=bus.here())
    first = reader.subscribe("a/*", got.append, ref=mark)
    second = reader.subscribe("a/b", unwanted)

    notifier.notify([1])
    settle(bus)

    [message] = got  # one copy, to the first subscription
    assert (message.kind, message.payload, message.gap) == (Kind.NOTIFICATION, (1,), 0)
    assert message.sender == notifier.address
    assert message.reference is mark
    assert message.subscriptions == (first, second)
    assert not message.wants_reply


@clause("BUS-MSG-4")
def test_a_notifier_may_subscribe_to_itself(bus: Bus) -> None:
    got: list[Any] = []
    task = bus.register("task", thread=bus.here())
    task.subscribe("task", lambda message: got.append(message.payload))

    task.notify("echo")
    settle(bus)

    assert got == ["echo"]


@clause("BUS-MSG-5")
@pytest.mark.parametrize("distance", NEAR)
@pytest.mark.parametrize("pattern", ["notifier", "*", "ism://machine/notifier"])
def test_a_subscription_outlives_its_notifiers(
    bus: Bus, distance: str, pattern: str
) -> None:
    got: list[Any] = []
    reader = bus.register("reader", thread=far(bus, distance))
    reader.subscribe(pattern, lambda message: got.append(message.payload))

    for life in (1, 2):
        notifier = bus.register("notifier", thread=bus.here())
        notifier.notify(life)
        notifier.deregister()
        settle(bus)

    serve(bus, lambda: len(got) == 2, "it hears both lives")
    assert got == [1, 2]


@clause("BUS-MSG-5")
def test_a_cancelled_subscription_receives_no_unread_or_new_notification(
    bus: Bus,
) -> None:
    notifier = bus.register("notifier", thread=bus.here())
    reader = bus.register("reader", thread=bus.here())
    others: list[Any] = []
    hears = reader.subscribe("notifier", unwanted)
    alone = bus.register("alone", thread=bus.here())
    only = alone.subscribe("notifier", unwanted)
    counters = only._account
    reader.subscribe("*", lambda message: others.append(message.payload))
    notifier.notify(1)
    only.cancel()

    hears.cancel()
    hears.cancel()  # does nothing
    notifier.notify(2)
    settle(bus)

    # The notification for both goes to the remaining subscription.
    assert others == [1, 2]
    assert not hears.active
    assert (counters.accepted, counters.delivered, counters.returned) == (1, 0, 1)
    assert [str(each.specification) for each in info(bus, "reader").subscriptions] == [
        "*"
    ]


@clause("BUS-MSG-5")
def test_a_subscription_of_a_script_leaves_nothing_when_it_ends(bus: Bus) -> None:
    got: list[Any] = []
    notifier = bus.register("notifier", thread=bus.here())
    first = bus.subscribe("notifier", got.append)
    second = bus.subscribe("*", got.append)

    notifier.notify()
    serve(bus, lambda: len(got) == 2, "both hear, being two")
    first.cancel()
    second.cancel()

    serve(bus, lambda: len(bus.tasks()) == 1, "their tasks have left")


@clause("BUS-MSG-5")
def test_to_listen_is_to_hear_one_after_another(bus: Bus) -> None:
    notifier = bus.register("notifier", thread=bus.here())
    notifier.notify("before")
    news = bus.listen("notifier", timeout=0)
    both = bus.listen("*", timeout=0)
    for number in range(3):
        notifier.notify(number)

    assert [message.payload for message in news] == [0, 1, 2]
    assert next(both).payload == 0
    del both
    settle(bus)
    assert [each.address.module for each in bus.tasks()] == ["notifier"]


@clause("BUS-MSG-5")
def test_a_listener_that_never_began_leaves_nothing(bus: Bus) -> None:
    news = bus.listen("notifier")
    assert len(bus.tasks()) == 1

    del news
    settle(bus)

    assert bus.tasks() == ()


@clause("BUS-MSG-9")
@pytest.mark.parametrize("distance", NEAR)
def test_a_notifier_gets_each_answer_and_then_their_number(distance: str) -> None:
    """On a clock that advances only when all threads wait."""

    def program(_run: Run) -> None:
        with memory_bus() as bus:
            _ask_five(bus, distance)

    explore(program, bound=0, random=0)


def _ask_five(bus: Bus, distance: str) -> None:
    responses: list[Response] = []
    mark = object()
    there = far(bus, distance)
    notifier = bus.register("notifier", thread=bus.here())
    for number in range(5):
        reader = bus.register(f"r{number}", thread=there)
        reader.subscribe("notifier", _answering(number))

    notifier.notify(on_response=responses.append, ref=mark, timeout=60)
    while not (responses and responses[-1].final):
        bus.here().poll(None)

    *answers, end = responses
    assert [one.responder.module for one in answers if one.responder] == [
        *("r0", "r2", "r4")
    ]
    assert [one.payload for one in answers] == [0, 2, 4]
    assert not any(one.final for one in answers)
    assert (end.responder, end.payload, end.error) == (None, 3, None)
    assert {id(one.reference) for one in responses} == {id(mark)}
    assert info(bus, "notifier").questions == 0


def _answering(number: int) -> Callable[[Incoming], None]:
    def received(message: Incoming) -> None:
        assert message.wants_reply
        if number % 2 == 0:
            message.respond(number)
            with pytest.raises(AlreadyAnsweredError):
                message.respond(number)

    return received


@clause("BUS-MSG-9")
def test_an_answer_after_the_end_is_dropped_and_counted(bus: Bus) -> None:
    responses: list[Response] = []
    kept: list[Incoming] = []
    notifier = bus.register("notifier", thread=bus.here())
    reader = bus.register("reader", thread=bus.here())
    reader.subscribe("notifier", kept.append)
    notifier.notify(on_response=responses.append, timeout=0)
    serve(bus, lambda: responses and kept, "its end")

    kept[0].respond("late")
    settle(bus)

    assert [(one.payload, one.final) for one in responses] == [(0, True)]
    assert info(bus, "notifier").late == 1


@clause("BUS-MSG-9")
def test_a_notification_without_subscribers_ends_with_zero_answers(bus: Bus) -> None:
    responses: list[Response] = []
    notifier = bus.register("notifier", thread=bus.here())

    notifier.notify(on_response=responses.append, timeout=0)
    serve(bus, lambda: responses, "its end")
    settle(bus)

    assert [(one.payload, one.final) for one in responses] == [(0, True)]


def test_a_watch_reports_present_tasks_arrivals_and_departures(bus: Bus) -> None:
    news: list[Presence] = []
    mark = object()
    watcher = bus.register("watcher", thread=bus.here())
    early = bus.register("x/early", thread=bus.here())
    watch = watcher.watch("x/*", news.append, ref=mark)
    late = bus.register("x/late", thread=bus.here())
    bus.register("y/other", thread=bus.here())
    settle(bus)
    early.deregister()
    settle(bus)
    watch.cancel()
    late.deregister()
    settle(bus)

    assert [(one.address.module, one.here) for one in news] == [
        ("x/early", True),
        ("x/late", True),
        ("x/early", False),
    ]
    assert {id(one.reference) for one in news} == {id(mark)}
