"""BUS-INIT-8, BUS-INIT-9: public tasks can be addressed, private ones can only ask."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from bus import Bus, UnresolvedError, Visibility
from specs.clauses import clause
from tests.bus.support import DISTANCES, NEAR, There, far
from tests.kit.inspection import info, is_there
from tests.kit.serving import serve, settle
from tests.support import LIMIT_S, until


@clause("BUS-INIT-8")
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_public_task_is_found_by_its_name(bus: Bus, there: There) -> None:
    there.register("public", on_command=lambda _: "found")
    news: list[Any] = []
    watcher = bus.register("watcher", thread=bus.here())
    watcher.watch(there.at("public"), news.append)

    assert bus.call(there.at("public")) == "found"
    assert bus.wait_for(there.at("public")).module == "public"
    serve(bus, lambda: news, "the watch has reported")
    assert [(one.address.module, one.here) for one in news] == [("public", True)]


@clause("BUS-INIT-9")
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_private_task_sends_commands_and_receives_notifications(
    bus: Bus, there: There
) -> None:
    received: list[Any] = []
    answers: list[Any] = []
    senders: list[str] = []

    def asked(message: Any) -> str:
        senders.append(str(message.sender))
        public.notify("news")
        return "answer"

    public = there.register("public", on_command=asked)
    private = bus.register("p", thread=bus.here(), visibility=Visibility.PRIVATE)
    private.subscribe(there.at("public"), received.append)

    private.command(there.at("public"), on_response=answers.append)

    serve(bus, lambda: received and answers, "the answer and the notification")
    assert senders == ["ism://bus1@machine/p"]
    assert answers[0].payload == "answer"
    assert received[0].payload == "news"


@clause("BUS-INIT-9")
@pytest.mark.parametrize("distance", NEAR)
def test_a_private_task_cannot_be_called_watched_or_subscribed_to(
    bus: Bus, distance: str
) -> None:
    news: list[Any] = []
    there = far(bus, distance)
    private = bus.register(
        "p", thread=there, visibility=Visibility.PRIVATE, on_command=news.append
    )
    watcher = bus.register("watcher", thread=bus.here())
    watcher.watch("**", news.append)
    watcher.subscribe("p", news.append)
    settle(bus)
    assert [one.address.module for one in news] == ["watcher"]

    for form in ("p", "ism://machine/p", private.address):
        with pytest.raises(UnresolvedError):
            watcher.call(form, timeout=0)
    with pytest.raises(UnresolvedError):
        bus.call("p", timeout=0)
    private.notify("to nobody")
    private.deregister()
    serve(bus, lambda: not is_there(bus, "p"), "it has left")

    assert [one.address.module for one in news] == ["watcher"]


@clause("BUS-INIT-9")
def test_not_even_itself_finds_a_private_task(bus: Bus) -> None:
    undelivered: list[Any] = []
    private = bus.register(
        "p",
        thread=bus.here(),
        visibility=Visibility.PRIVATE,
        on_undelivered=undelivered.append,
    )

    private.command("p", 1, timeout=0)

    serve(bus, lambda: undelivered, "it is reported")
    assert (undelivered[0].to, undelivered[0].payload) == ("p", 1)
    assert type(undelivered[0].error) is UnresolvedError
    assert info(bus, "p").undelivered == 1


@clause("BUS-INIT-9")
def test_commands_parked_for_a_private_name_reach_a_later_public_task(bus: Bus) -> None:
    """A parked message is never delivered to a private task."""
    got: list[Any] = []
    bus.command("p", "first")
    private = bus.register(
        "p", thread=bus.here(), visibility=Visibility.PRIVATE, on_command=got.append
    )
    bus.command("p", "second")
    settle(bus)
    assert got == []
    assert bus.inspect().parked == {"p": 2}

    private.deregister()
    bus.register("p", thread=bus.here(), on_command=lambda one: got.append(one.payload))
    settle(bus)

    assert got == ["first", "second"]


@clause("BUS-INIT-8", "BUS-DEREG-2")
def test_a_departure_does_not_overtake_the_arrival_in_a_watch(bus: Bus) -> None:
    """The watcher's own thread reports the departure before it reads the arrival."""
    seen: list[bool] = []
    held, go = Event(), Event()

    def act(_: object) -> None:
        held.set()
        assert go.wait(LIMIT_S)
        peer.deregister()

    watcher = bus.register("watcher", thread=bus.thread(), on_command=act)
    watcher.watch("peer", lambda one: seen.append(one.here))
    bus.command("watcher")
    assert held.wait(LIMIT_S)
    peer = bus.register("peer", thread=bus.thread())

    go.set()

    until(lambda: len(seen) == 2, "both are reported")
    assert seen == [True, False]
