"""BUS-MSG-14: a service makes notifications of commands."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from bus import (
    Bus,
    BusConfig,
    Incoming,
    NameTakenError,
    RemoteError,
    Service,
    UnresolvedError,
)
from bus.testing import memory_bus
from specs.clauses import clause
from tests.bus.support import NEAR, far
from tests.kit.inspection import unbalanced
from tests.kit.serving import serve, settle
from tests.support import LIMIT_S, Threads


@clause("BUS-MSG-14")
@pytest.mark.parametrize("distance", NEAR)
def test_each_reader_gets_each_item_once_in_its_producer_s_order(
    bus: Bus, distance: str
) -> None:
    count, producers, readers = 50, 3, 4
    there = far(bus, distance)
    got: dict[str, list[Any]] = {}

    def reader(name: str) -> None:
        items = got[name] = []
        task = bus.register(name, thread=there)
        task.subscribe("service", lambda message: items.append(message.payload))

    for number in range(readers):
        reader(f"r{number}")
    service = Service(bus, "service", thread=there)

    def produce(who: int) -> None:
        for number in range(count):
            bus.command(service.address, [who, number])

    with Threads() as threads:
        for who in range(producers):
            threads.start(produce, who)

    serve(
        bus,
        lambda: all(len(items) == producers * count for items in got.values()),
        "each reader has all",
    )
    first = next(iter(got.values()))
    for items in got.values():
        assert items == first
        for who in range(producers):
            assert [n for producer, n in items if producer == who] == [*range(count)]
    assert unbalanced(bus.inspect()) == []


@clause("BUS-MSG-14")
def test_subscribers_get_the_service_as_sender_and_not_the_producer(bus: Bus) -> None:
    got: list[Incoming] = []
    reader = bus.register("reader", thread=bus.here())
    reader.subscribe("service", got.append)
    service = Service(bus, "service", thread=bus.here())

    assert bus.call("service", "item") is None
    settle(bus)

    assert [(one.sender, one.payload) for one in got] == [(service.address, "item")]


@clause("BUS-MSG-14")
def test_a_service_notifies_the_transformed_payload(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[Any] = []
    reader = bus.register("reader", thread=bus.here())
    reader.subscribe("service", lambda one: got.append(one.payload))

    def doubled(message: Incoming) -> int:
        assert isinstance(message.payload, int), "a number is wanted"
        return 2 * message.payload

    Service(bus, "service", thread=bus.here(), transform=doubled)

    bus.call("service", 21)
    with pytest.raises(RemoteError, match="AssertionError: a number is wanted"):
        bus.call("service", "text")
    settle(bus)

    assert got == [42]
    assert "a number is wanted" in caplog.text


@clause("BUS-MSG-14")
def test_a_reader_with_no_room_is_the_producer_s_to_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with memory_bus(config=BusConfig(task_fifo_messages=1)) as bus:
        got: list[Any] = []
        service = Service(bus, "service", thread=bus.here())
        full = bus.register("full", thread=bus.thread())
        full.subscribe("service", lambda _: None, overflow="error", capacity=1)
        other = bus.register("other", thread=bus.here())
        other.subscribe("service", lambda one: got.append(one.payload))
        held, go = Event(), Event()

        def hold() -> None:
            held.set()
            go.wait(LIMIT_S)

        full.thread.call_soon(hold)
        assert held.wait(LIMIT_S)
        bus.call(service.address, 1)
        with pytest.raises(RemoteError, match="BusFullError: cannot send: task 'full'"):
            bus.call(service.address, 2)
        go.set()
        settle(bus)

    assert got == [1, 2]
    assert "BusFullError" in caplog.text


@clause("BUS-MSG-14")
def test_a_service_leaves_its_name_behind_when_it_ends(bus: Bus) -> None:
    with Service(bus, "service", thread=bus.here()) as service:
        assert repr(service) == "<Service ism://bus1@machine/service>"
        with pytest.raises(NameTakenError):
            Service(bus, "service")
    settle(bus)

    with pytest.raises(UnresolvedError):
        bus.call("service", timeout=0)


def test_a_service_checks_its_arguments(bus: Bus) -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match=r"bus must be a .*\.Bus, got int"):
        Service(wrong, "service")
    with pytest.raises(TypeError, match="transform must be callable, got int"):
        Service(bus, "service", transform=wrong)
    with pytest.raises(ValueError, match="module name must match"):
        Service(bus, "**")
    assert bus.tasks() == ()
