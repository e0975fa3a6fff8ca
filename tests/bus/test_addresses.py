"""`Addresses`: a name, with or without a machine or a bus, as callers write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    Address,
    Bus,
    NotJoinedError,
    UnresolvedError,
    open_bus,
)
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.inspection import info
from tests.kit.serving import serve, settle

if TYPE_CHECKING:
    from collections.abc import Callable


@clause("BUS-NAME-2")
def test_a_name_alone_means_this_machine(bus: Bus) -> None:
    with memory_bus(machine="elsewhere") as other:
        other.register("x", on_command=lambda _: "there")

        with pytest.raises(UnresolvedError) as caught:
            bus.call("x", timeout=0)

    assert caught.value.name == "x"


@clause("BUS-NAME-3")
@pytest.mark.parametrize(
    "form",
    ["x", "ism://machine/x", "ism://bus1@machine/x", Address("x", machine="machine")],
    ids=str,
)
def test_each_form_of_an_address_of_ours_means_the_same(
    bus: Bus, form: str | Address
) -> None:
    received: list[Any] = []
    x = bus.register("x", thread=bus.here(), on_command=lambda message: message.payload)
    hearer = bus.register("hearer", thread=bus.here())
    hearer.subscribe(form, lambda message: received.append(message.payload))

    assert bus.call(form, "hello") == "hello"
    assert bus.wait_for(form) == x.address
    x.notify("news")
    settle(bus)
    assert received == ["news"]


@clause("BUS-NAME-3")
def test_a_message_waits_for_its_addressee_under_any_form(bus: Bus) -> None:
    got: list[Any] = []
    for form in ["x", "ism://machine/x", "ism://bus1@machine/x"]:
        bus.command(form, form)
    assert bus.inspect().parked == {"x": 3}

    bus.register("x", thread=bus.here(), on_command=lambda one: got.append(one.payload))
    settle(bus)

    assert got == ["x", "ism://machine/x", "ism://bus1@machine/x"]


@clause("BUS-NAME-5")
def test_a_task_reaches_one_of_another_bus_that_its_process_has_joined() -> None:
    with open_bus("one", machine="m") as one, open_bus("two", machine="m") as two:
        received: list[Any] = []
        u = two.register("u", thread=two.here(), on_command=lambda _: "two's")
        t = one.register("t", thread=one.thread())
        there = u.address

        t.subscribe(there, lambda message: received.append(message.payload))
        t.watch(there, lambda news: received.append(news.here))
        u.notify("news")
        answers: list[Any] = []
        t.command("u", bus="two", on_response=answers.append)
        t.command(there, on_response=answers.append)
        t.command("ism://two@m/u", bus="two", on_response=answers.append)
        serve(two, lambda: len(answers) == 3, "all are answered")

        assert {one.payload for one in answers} == {"two's"}
        assert {str(one.responder) for one in answers} == {str(there)}
        serve(two, lambda: len(received) == 2, "it hears")
        assert sorted(received, key=str) == [True, "news"]
        with pytest.raises(UnresolvedError):
            t.call("u", timeout=0)


@clause("BUS-NAME-5")
def test_a_bus_that_was_not_joined_cannot_be_addressed() -> None:
    with open_bus("one", machine="m") as one:
        t = one.register("t", thread=one.here())
        acts: list[Callable[[], object]] = [
            lambda: t.command("u", bus="two"),
            lambda: t.command("ism://two@m/u"),
            lambda: t.call("u", bus="two"),
            lambda: t.subscribe("u", print, bus="two"),
            lambda: t.subscribe("ism://two@m/u", print),
            lambda: t.watch("ism://two@m/**", print),
            lambda: t.command(["t", "ism://two@m/u"]),
        ]
        for act in acts:
            with pytest.raises(NotJoinedError, match="'two'"):
                act()
        settle(one)
        # Not even to the first address was a command sent.
        assert info(one, "t").commands.accepted == 0
