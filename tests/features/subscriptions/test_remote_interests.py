"""BUS-RELAY: subscriptions and watches of tasks in other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specs.clauses import clause
from tests.bus.support import There, far_apart
from tests.kit.serving import serve
from tests.kit.tasks import echo
from tests.support import Threads

if TYPE_CHECKING:
    from bus import Bus, Presence, Response


# Notifications.


@clause("BUS-RELAY-7", "BUS-RELAY-8", "AMO-28")
@far_apart
def test_a_subscriber_with_several_patterns_gets_a_remote_notification_once(
    bus: Bus, there: There
) -> None:
    received: list[tuple[Any, int]] = []
    hearer = bus.register("hearer", thread=bus.here())
    for pattern in ("bells/*", "bells/one", "**"):
        hearer.subscribe(
            there.at(pattern),
            lambda one: received.append((one.payload, len(one.subscriptions))),
        )
    bell = there.register("bells/one", on_command=echo)
    other = there.register("bells/two")
    # This answer comes after all subscriptions, which were sent before the question.
    hearer.call(there.at("bells/one"), 0)

    bell.notify("one")
    other.notify("two")

    serve(bus, lambda: len(received) == 2, "both are received")
    assert received == [("one", 3), ("two", 2)]


@clause("BUS-MSG-9")
@far_apart
def test_a_subscriber_can_answer_a_notification(bus: Bus, there: There) -> None:
    answers: list[Response] = []
    bell = bus.register("bell", thread=bus.here(), on_command=echo)
    hearer = there.register("hearer", on_command=echo)
    hearer.subscribe(there.back("bell"), lambda one: one.respond("heard"))
    assert bell.call(there.at("hearer"), 1) == 1  # by then the subscription is known

    bell.notify("ring", on_response=answers.append, timeout=0.2)

    serve(bus, lambda: answers and answers[-1].final, "its time is up")
    assert [(one.payload, one.final) for one in answers] == [
        ("heard", False),
        (1, True),
    ]


# Presence.


@clause("BUS-DEREG-2", "BUS-INIT-8")
@far_apart
def test_a_watch_reports_remote_tasks_that_register_and_deregister(
    bus: Bus, there: There
) -> None:
    seen: list[tuple[str, bool]] = []
    there.register("bells/early")
    watcher = bus.register("watcher", thread=bus.here())

    def note(one: Presence) -> None:
        seen.append((one.address.module, one.here))

    watcher.watch(there.at("bells/*"), note)
    serve(bus, lambda: seen, "it sees who was there before")
    late = there.register("bells/late")
    serve(bus, lambda: len(seen) == 2, "it sees who comes")
    late.deregister()
    serve(bus, lambda: len(seen) == 3, "it sees who goes")
    watcher.watch(there.at("bells/early"), note)
    serve(bus, lambda: len(seen) == 4, "a second watch reports the present tasks")

    assert seen == [
        ("bells/early", True),
        ("bells/late", True),
        ("bells/late", False),
        ("bells/early", True),
    ]


@clause("BUS-DEREG-9")
@far_apart
def test_a_watch_reports_the_departure_of_a_task_when_its_process_ends(
    bus: Bus, distance: str
) -> None:
    seen: list[bool] = []
    watcher = bus.register("watcher", thread=bus.here())
    with There(bus, distance) as there:
        watcher.watch(there.at("doer"), lambda one: seen.append(one.here))
        there.register("doer")
        serve(bus, lambda: seen, "it is there")

    serve(bus, lambda: len(seen) == 2, "it is gone")
    assert seen == [True, False]


@clause("BUS-INIT-8")
@far_apart
def test_a_waiter_for_a_name_wakes_when_another_process_registers_it(
    bus: Bus, there: There
) -> None:
    with Threads() as threads:
        waiting = threads.start(bus.wait_for, there.at("doer"))
        doer = there.register("doer")

        assert waiting.result() == doer.address
