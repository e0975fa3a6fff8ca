"""What waits for a bus of the process ends when that bus is closed (BUS-DEREG-12)."""

from __future__ import annotations

from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import bus as package
from bus import Incoming, Undelivered, UnknownTaskError, UnresolvedError
from bus.kernel.tasks.parked_list import Parked, ParkedList
from bus.model.message import Kind
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import PATIENT, join_both
from tests.kit.tasks import unwanted
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus import Bus
    from bus.api.bus_thread import BusThread
    from tests.strikes import Blow


@pytest.fixture
def buses() -> Iterator[tuple[Bus, Bus]]:
    """Yield bus one and bus two of one process."""
    with (
        memory_bus("one", config=PATIENT) as one,
        memory_bus("two", config=PATIENT) as two,
    ):
        join_both(one, two)
        yield one, two


def waits_for_any_machine(one: Bus) -> object:
    return one.wait_for("ism://two@*/u", None)


def waits_for_a_name(one: Bus) -> object:
    return one.wait_for("ism://two@m/u", None)


def iterates(one: Bus) -> object:
    return list(one.listen("ism://two@m/u"))


def is_waited_for(two: Bus) -> bool:
    """Return True if a task of another bus waits for bus two."""
    manager = two._exchange.manager
    return len(manager.parked) > 0 or bool(manager.audiences.of_other_buses("two"))


@clause("BUS-DEREG-12")
@pytest.mark.parametrize("act", [waits_for_any_machine, waits_for_a_name])
def test_a_wait_for_a_name_ends_when_its_bus_is_closed(
    buses: tuple[Bus, Bus], act: Callable[[Bus], object]
) -> None:
    one, two = buses
    with Threads() as threads:
        waiting = threads.start(act, one)
        until(lambda: is_waited_for(two), "it waits")

        two.close()

        with pytest.raises(UnknownTaskError, match="bus 'two' is closed"):
            waiting.result(LIMIT_S / 2)
    assert len(two._exchange.manager.parked) == 0


@clause("BUS-DEREG-12")
def test_an_iteration_ends_when_the_bus_of_the_notifiers_is_closed(
    buses: tuple[Bus, Bus],
) -> None:
    one, two = buses
    with Threads() as threads:
        waiting = threads.start(iterates, one)
        until(lambda: is_waited_for(two), "it waits")

        two.close()

        assert waiting.result(LIMIT_S / 2) == []


def close_when_resolved(
    monkeypatch: pytest.MonkeyPatch, method: str, one: Bus, two: Bus
) -> None:
    """Let bus two be closed just after a call of bus one has found it."""
    real = getattr(one, method)

    def resolve(where: str, bus: str | None) -> object:
        found = real(where, bus)
        closing = Thread(target=two.close)
        closing.start()
        closing.join()
        return found

    monkeypatch.setattr(one, method, resolve)


@clause("BUS-DEREG-12")
@pytest.mark.parametrize("verb", ["subscribe", "watch"])
def test_an_interest_that_starts_as_its_bus_is_closed_is_cancelled(
    buses: tuple[Bus, Bus], verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = buses
    t = one.register("t")
    close_when_resolved(monkeypatch, "_specification", one, two)

    interest = getattr(t, verb)("u", unwanted, bus="two")

    assert not interest.active
    assert not is_waited_for(two)


@clause("BUS-DEREG-12")
def test_a_wait_for_a_subscription_reports_that_its_bus_is_closed(
    buses: tuple[Bus, Bus], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = buses
    t = one.register("t")
    close_when_resolved(monkeypatch, "_specification", one, two)

    with pytest.raises(UnknownTaskError, match="bus 'two' is closed"):
        t.subscribe("u", unwanted, bus="two", wait=True)


@clause("BUS-DEREG-12")
def test_a_command_that_is_parked_as_its_bus_is_closed_fails(
    buses: tuple[Bus, Bus], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = buses
    two._exchange.manager.resolve_timeout_s = 10 * LIMIT_S  # type: ignore[misc]
    undelivered: list[Undelivered] = []
    t = one.register("t", on_undelivered=undelivered.append)
    close_when_resolved(monkeypatch, "_route", one, two)

    t.command("u", 1, bus="two", timeout=None)

    until(lambda: bool(undelivered), "it fails")
    assert isinstance(undelivered[0].error, UnresolvedError)
    assert two._exchange.parked_expiry._check_at is None
    assert len(two._exchange.manager.parked) == 0


@clause("BUS-ROUTE-19")
@pytest.mark.parametrize("foreign", [False, True])
def test_messages_expire_after_the_thread_with_their_timer_has_ended(
    *, foreign: bool
) -> None:
    """foreign: True if that was a thread of another bus."""
    brief = attrs.evolve(PATIENT, resolve_timeout_s=0.05)
    undelivered: list[Undelivered] = []
    with memory_bus("one", config=brief) as one, memory_bus("two", config=brief) as two:
        join_both(one, two)
        host = one if foreign else two
        ended: BusThread = host.here()
        host.register("t", thread=ended).command("nobody", 1, bus="two")
        ended.stop()

        two.register("t2", on_undelivered=undelivered.append).command("nobody", 2)

        until(lambda: bool(undelivered), "it expires")
        assert [each.payload for each in undelivered] == [2]


@clause("BUS-ROUTE-19")
def test_a_thread_that_ends_hands_over_the_timers_of_other_buses() -> None:
    brief = attrs.evolve(PATIENT, resolve_timeout_s=0.05)
    undelivered: list[Undelivered] = []
    with memory_bus("one", config=brief) as one, memory_bus("two", config=brief) as two:
        join_both(one, two)
        ending = one.here()  # serves nothing, so its timer stays set
        one.register("t", thread=ending).command("nobody", 1, bus="two")
        two.register("t2", on_undelivered=undelivered.append).command("nobody", 2)

        ending.stop()

        until(lambda: bool(undelivered), "it expires")
        assert [each.payload for each in undelivered] == [2]


@clause("BUS-ROUTE-19")
def test_messages_expire_although_their_timer_was_set_in_a_thread_that_had_ended() -> (
    None
):
    """The thread may end between the decision to set the timer there and that."""
    brief = attrs.evolve(PATIENT, resolve_timeout_s=0.05)
    undelivered: list[Undelivered] = []
    with memory_bus(config=brief) as bus:
        ended = bus.here()
        ended.stop()
        t = bus.register("t", on_undelivered=undelivered.append)
        exchange = bus._exchange
        message = Incoming(
            kind=Kind.COMMAND, payload=1, _name="nobody", _source=t._entry
        )
        exchange.decide_remote(partial(exchange._park, "nobody", message, again=False))
        exchange.parked_expiry.schedule(ended._manager)

        t.command("nobody", 2)

        until(lambda: len(undelivered) == 2, "both expire")


@clause("BUS-ROUTE-19", "BUS-FLOW-1")
def test_an_interrupt_of_an_expiry_leaves_the_number_of_parked_messages_right() -> None:
    def parked(name: str) -> Incoming:
        return Incoming(kind=Kind.COMMAND, payload=name, _name=name)

    def case(interrupted: Blow) -> None:
        waiting, todo = ParkedList(per_name=9, in_all=9), list[Any]()
        for name in "aabc":
            waiting.append(name, Parked(parked(name), float(name == "c"), 0.0))

        interrupted(lambda: waiting.expire(0.5, todo))

        assert len(waiting) == sum(waiting.waiting().values()) == 4 - len(todo)

    everywhere(case, packages=(package,))
