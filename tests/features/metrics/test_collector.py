"""The metrics of a process: their names, their number, and what they count."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from bus import Visibility
from bus.features.metrics.families import COMMON, FAMILIES
from bus.metrics import collector
from bus.testing import memory_bus
from specs.clauses import clause
from tests.features.metrics.support import Scrape
from tests.kit.serving import settle

if TYPE_CHECKING:
    from bus import Bus

# Units that are no base unit, and types, by the rules of Prometheus.
NOT_IN_NAMES: Final = re.compile(
    r"_(ms|us|milliseconds|minutes|kib|kilobytes|megabytes|percent|counter|gauge)\b"
)


def scrape(*buses: Bus, per_task: bool = False) -> Scrape:
    registry = CollectorRegistry()
    registry.register(collector(*buses, per_task=per_task))
    return Scrape(generate_latest(registry).decode())


@pytest.mark.parametrize("family", FAMILIES, ids=[each.name for each in FAMILIES])
def test_the_names_obey_the_rules_of_prometheus(family: object) -> None:
    [each] = [one for one in FAMILIES if one is family]

    assert re.fullmatch(r"bus(_[a-z]+)+", each.name)
    assert not NOT_IN_NAMES.search(each.name)
    assert not each.name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
    assert each.text.endswith(".")
    assert all(re.fullmatch(r"[a-z_]+", label) for label in each.labels)
    assert not set(each.labels) & {*COMMON, "le", "quantile", "job", "instance"}


def test_each_name_is_there_once() -> None:
    names = [each.name for each in FAMILIES]

    assert sorted(set(names)) == sorted(names)


def test_a_scrape_equals_the_report(bus: Bus) -> None:
    here = bus.here()
    shelf = bus.register("shelf", thread=here, capacity=2, overflow="drop-oldest")
    bad = bus.register(
        "bad", thread=here, on_command=lambda message: 1 / message.payload
    )
    shelf.subscribe("**", lambda _: None)
    for number in range(5):
        bad.command("shelf", number)
    bad.command("bad", 0)
    shelf.command("nowhere", timeout=None)
    bad.notify("heard")
    settle(bus)

    seen, told = bus.inspect(), scrape(bus)

    for kind, counters in (
        ("command", seen.totals.commands),
        ("notification", seen.totals.notifications),
    ):
        assert told("bus_messages_accepted_total", kind=kind) == counters.accepted
        assert told("bus_messages_delivered_total", kind=kind) == counters.delivered
        assert told("bus_unread_messages", kind=kind) == counters.unread
        assert told("bus_unread_bytes", kind=kind) == counters.unread_bytes
    drops = "bus_messages_dropped_total"
    assert told(drops, kind="command", reason="oldest") == 3
    assert told("bus_callback_failures_total") == seen.totals.failures == 1
    assert told("bus_parked_messages") == sum(seen.parked.values()) == 1
    assert told("bus_tasks") == len(seen.tasks) == 2
    assert told("bus_unheard_notifications_total") == 0
    assert told.unbalanced() == []


@clause("BUS-FLOW-9")
def test_no_counter_falls_when_a_task_departs_or_unsubscribes(bus: Bus) -> None:
    here = bus.here()
    notifier = bus.register("notifier", thread=here)
    task = bus.register("task", thread=here, on_command=lambda _: None)
    subscription = task.subscribe("notifier", lambda _: None)
    for number in range(3):
        notifier.command("task", number)
        notifier.notify(number)
    settle(bus)
    before = scrape(bus)

    subscription.cancel()
    cancelled = scrape(bus)
    task.deregister()
    departed = scrape(bus)

    assert before("bus_messages_delivered_total", kind="command") == 3
    assert before("bus_messages_delivered_total", kind="notification") == 3
    assert cancelled.fallen(before) == departed.fallen(cancelled) == []
    assert departed("bus_messages_delivered_total", kind="notification") == 3


def test_the_number_of_series_depends_on_no_task(bus: Bus) -> None:
    few = scrape(bus).series

    for number in range(200):
        task = bus.register(f"task/{number}", thread=bus.here())
        task.subscribe(f"task/{number}", lambda _: None)

    assert scrape(bus).series == few


def test_on_request_public_tasks_have_series_of_their_own(bus: Bus) -> None:
    here = bus.here()
    task = bus.register("task", thread=here, on_command=lambda _: None)
    notifier = bus.register("notifier", thread=here, visibility=Visibility.PRIVATE)
    for _ in range(2):  # to the same tasks: one series
        task.subscribe("**", lambda _: None)
    notifier.command("task", 1)
    task.notify(1)
    notifier.notify(1)
    settle(bus)

    told = scrape(bus, per_task=True)

    assert told.find("bus_task_commands_delivered_total") == [1]
    assert told("bus_task_commands_delivered_total", task="task") == 1
    heard = sum(each.notifications.delivered for each in bus.tasks()[0].subscriptions)
    name = "bus_subscription_notifications_delivered_total"
    assert told(name, task="task", pattern="**") == heard > 0
    assert told.unbalanced() == []


def test_several_buses_are_scraped_together_and_a_closed_one_no_more() -> None:
    with memory_bus("one") as one:
        with memory_bus("two") as two:
            both = scrape(one, two)
        left = scrape(one, two)

    assert [both.find("bus_process_up", bus=each) for each in ("one", "two")] == [
        [1],
        [1],
    ]
    assert left.find("bus_process_up", bus="one") == [1]
    assert left.find("bus_process_up", bus="two") == []
    assert scrape(one, two).series == 0


def test_a_registry_refuses_a_second_collector_and_no_counter_is_read() -> None:
    registry = CollectorRegistry()
    with memory_bus() as bus:
        registry.register(collector(bus))
        with pytest.raises(ValueError, match="Duplicated timeseries"):
            registry.register(collector(bus))
