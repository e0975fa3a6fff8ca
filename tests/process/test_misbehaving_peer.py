"""F3: for any misbehaviour of a peer on a link, others are served, nothing leaks."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from bus import NOREPLY, BusConfig, Response
from bus.features.subscriptions.frames import Subscribe
from bus.kernel import wire
from bus.kernel.wire import Reason
from bus.model.message import Kind
from bus.model.registration import Visibility
from bus.testing import memory_bus
from queuebroker.sockets import frames
from queuebroker.sockets.frames import HEAD
from specs.clauses import clause
from tests.kit.buses import join_both
from tests.kit.inspection import report
from tests.kit.raw_peer import raw
from tests.kit.serving import settle
from tests.process.hostile import HELLO, NAME, TASK, Hostile, is_known, served
from tests.process.misdeeds import STRANGE, VIOLATIONS
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bus import Bus, Task
    from bus.kernel.wire import Frame

# The handshake on a link.


@clause("BUS-INIT-4", "BUS-INIT-5", "BUS-INIT-6", "BUS-WIRE-3")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"bus": "bus2"}, Reason.BUS),
        ({"versions": (7, 9)}, Reason.VERSION),
        ({"machine_id": "another"}, Reason.MACHINE_NAME),
        ({"machine": "elsewhere"}, Reason.ACCESS),
        ({"process": "near"}, Reason.DUPLICATE),
        ({"process": "other"}, Reason.DUPLICATE),
        ({"role": wire.Role.MASTER}, Reason.DUPLICATE),
    ],
    ids=["bus", "version", "machine", "place", "master", "slave", "two masters"],
)
def test_a_peer_with_an_invalid_greeting_receives_the_reason(
    near: Bus, other: Bus, place: Path, changes: dict[str, Any], reason: Reason
) -> None:
    with Hostile(place / "Master") as rogue:
        rogue.say(rogue.hello(**changes))
        answer = rogue.hear()
        assert isinstance(answer, wire.Refused)
        assert (answer.reason, rogue.hear()) == (reason, None)
        served(near, other)


@clause("BUS-INIT-4", "BUS-WIRE-2", "BUS-WIRE-4")
@pytest.mark.parametrize(
    "said",
    [
        lambda rogue: wire.Export(id=rogue.id(), name=TASK, registered_ns=1),
        lambda _: wire.Ping(number=1),
        lambda _: wire.Batch(1, 1, 1, 1, []),
        lambda _: wire.Bye(),
        lambda _: b"",
        lambda rogue: wire.encode(rogue.hello())[:-1],
    ],
    ids=["export", "ping", "messages", "bye", "nothing", "cut"],
)
def test_whatever_comes_before_a_greeting_ends_the_link(
    near: Bus, other: Bus, place: Path, said: Callable[[Hostile], Frame | bytes]
) -> None:
    with Hostile(place / "Master") as rogue:
        rogue.say(said(rogue))
        word = rogue.last_word()
        assert isinstance(word, wire.Error)
        assert word.reason is Reason.WIRE
        assert TASK not in report(near)["users"]


@clause("BUS-INIT-4", "BUS-SEC-9")
@pytest.mark.parametrize(
    ("greets", "values"),
    [
        (False, {"AUTH_TIMEOUT_S": 0.2, "connect_timeout_s": 1e6}),
        (True, {"AUTH_TIMEOUT_S": 1e6, "connect_timeout_s": 0.2}),
    ],
    ids=["silent", "half way"],
)
def test_a_peer_that_never_greets_on_a_link_is_disconnected(
    near: Bus, other: Bus, place: Path, *, greets: bool
) -> None:
    """A peer that stops half way is disconnected as well."""
    with Hostile(place / "Master") as rogue:
        if greets:
            rogue.say(rogue.hello())
        rogue.last_word()


# After a correct handshake.


@pytest.mark.deep
@clause("BUS-WIRE-2", "BUS-WIRE-4", "BUS-SEC-7", "BUS-SEC-8")
@pytest.mark.parametrize("what", VIOLATIONS)
def test_a_violation_ends_the_link_and_no_other(
    near: Bus, other: Bus, place: Path, what: str
) -> None:
    """The peer learns the reason; no other process is affected."""
    act, words = VIOLATIONS[what]
    with Hostile(place / "Master") as rogue:
        rogue.greet()
        act(rogue)
        word = rogue.last_word()
        assert isinstance(word, wire.Error)
        assert word.reason is Reason.WIRE
        assert words in word.text
        served(near, other)


@pytest.mark.deep
@clause("BUS-WIRE-3", "BUS-WIRE-4")
@pytest.mark.parametrize("what", STRANGE)
def test_a_strange_frame_that_is_no_violation_changes_nothing(
    near: Bus, other: Bus, place: Path, what: str
) -> None:
    """The object it refers to may have ended meanwhile, so the link stays."""
    with Hostile(place / "Master") as rogue:
        rogue.greet()
        STRANGE[what](rogue)
        assert rogue.is_heard()
        served(near, other)


@clause("BUS-RELAY-4", "BUS-FLOW-7")
def test_a_message_for_an_unknown_relay_is_answered_with_unrelay(
    near: Bus, other: Bus, place: Path
) -> None:
    with Hostile(place / "Master") as rogue:
        rogue.greet()
        rogue.say(wire.AddRelay(task=rogue.task()), rogue.messages(to=999))
        answer = rogue.hear_any(wire.Unrelay)
        assert answer == wire.Unrelay(relay=999, extracted=0)
        assert rogue.is_heard()


@contextmanager
def asker_of_another_bus(
    near: Bus, place: Path
) -> Iterator[tuple[Hostile, Bus, Task, wire.Characteristics]]:
    """Let a task of another bus send a command to a hostile peer.

    Yields that peer, the other bus, the task, and its proxy as the peer received it.
    """
    with memory_bus("second") as second, Hostile(place / "Master") as rogue:
        join_both(near, second)
        rogue.greet()
        rogue.say(wire.AddRelay(task=rogue.task(visibility=Visibility.PUBLIC)))
        assert rogue.is_heard()
        asker = second.register("asker")
        asker.command(TASK, bus=near.name)
        yield rogue, second, asker, rogue.hear_any(wire.AddRelay).task


@clause("BUS-NAME-5", "BUS-WIRE-4")
def test_a_command_to_the_proxy_of_a_task_of_another_bus_ends_the_link(
    near: Bus, other: Bus, place: Path
) -> None:
    """No look-up finds a proxy, so no correct peer sends it a command."""
    with asker_of_another_bus(near, place) as (rogue, _, _, proxy):
        assert proxy.name == "asker"

        rogue.say(rogue.messages(to=proxy.relay))

        word = rogue.last_word()
        assert isinstance(word, wire.Error)
        assert "which is a proxy" in word.text
        served(near, other)


@clause("BUS-NAME-5", "BUS-ENT-14")
@pytest.mark.parametrize("kind", [Kind.COMMAND_RESPONSE, Kind.NOTIFICATION_RESPONSE])
def test_a_peer_cannot_answer_a_question_that_was_asked_on_another_bus(
    near: Bus, other: Bus, place: Path, kind: Kind
) -> None:
    with asker_of_another_bus(near, place) as (rogue, second, asker, proxy):
        second.register("bank", on_command=lambda _: NOREPLY)
        got: list[Response] = []
        asker.command("bank", on_response=got.append, timeout=None)

        for number in range(6):  # one of them is that of the question
            rogue.say(rogue.messages(to=proxy.relay, kind=kind, flags=0, id=number))

        assert rogue.is_heard()
        served(near, other)
        settle(second)
        assert got == []


@clause("BUS-NAME-7")
def test_a_name_that_is_taken_is_not_given_to_another(
    near: Bus, other: Bus, place: Path
) -> None:
    """Neither a name of the master nor one of a slave."""
    with Hostile(place / "Master") as rogue:
        rogue.greet()
        for number, name in enumerate(("echo", "far"), 1):
            late = wire.Export(
                id=rogue.id(number), name=name, registered_ns=2**62 + number
            )
            rogue.say(late)
            answer = rogue.hear_any(wire.Error)
            assert answer.reason is Reason.NAME_TAKEN
            assert answer.id == rogue.id(number)
        assert report(near)["users"]["far"] == "other"
        served(near, other)


# Attacks on a process's memory and time.


@clause("BUS-CHAN-8", "BUS-WIRE-4", "BUS-SEC-8")
@pytest.mark.parametrize("config", [BusConfig(message_bytes_max=2**16)], ids=[""])
def test_a_message_that_is_too_long_ends_the_link(
    near: Bus, other: Bus, place: Path
) -> None:
    """As soon as the length is announced, before a byte of the message is kept."""
    with raw(place / "Master") as peer:
        peer.sendall(frames.encode(frames.Hello("x", 1, 2**32 - 1)))
        assert peer.recv(2**16)[0] == frames.Frame.WELCOME
        peer.sendall(HEAD.pack(frames.Frame.MESSAGE, 2**32 - 1) + bytes(100))
        while peer.recv(2**16):
            pass


@clause("BUS-WIRE-4", "BUS-ENT-17")
@pytest.mark.parametrize("length", [1, 4, 30])
def test_a_peer_that_ends_in_the_middle_of_a_frame_is_lost(
    near: Bus, other: Bus, place: Path, length: int
) -> None:
    """The incomplete frame is dropped."""
    with Hostile(place / "Master") as rogue:
        hello = rogue.hello()
    with raw(place / "Master") as peer:
        peer.sendall(frames.encode(frames.Hello("x", 1, 2**24)))
        assert peer.recv(2**16)[0] == frames.Frame.WELCOME
        peer.sendall(frames.encode_message(1, wire.encode(hello)))
        until(partial(is_known, near), "it has joined")
        last = wire.Export(id=Hostile.id(rogue), name=TASK, registered_ns=1)
        peer.sendall(frames.encode_message(2, wire.encode(last))[:length])
    until(lambda: not is_known(near), "it is lost")
    served(near, other)


@pytest.mark.deep
@clause("BUS-FLOW-3", "BUS-FLOW-7", "BUS-CHAN-3", "BUS-DEREG-12")
def test_a_peer_that_reads_nothing_delays_no_other(
    near: Bus, other: Bus, place: Path
) -> None:
    """Even if its whole window, its link and its relay are full of unread messages."""
    notifier = near.register("news")
    received: list[object] = []
    other.subscribe("news", lambda message: received.append(message.payload))
    with Hostile(place / "Master") as rogue:
        rogue.greet()
        rogue.say(
            Subscribe(
                id=rogue.request(),
                specification="news",
                subscriber=rogue.task(),
                hops=3,
            )
        )
        assert rogue.is_heard()

        def is_heard() -> bool:
            notifier.notify("first")
            return bool(received)

        until(is_heard, "the other one hears it")
        for number in range(6000):
            notifier.notify(number)
        notifier.notify("last")
        until(lambda: received[-1] == "last", "the other one hears the last")
        served(near, other)


@clause("BUS-FLOW-1")
@pytest.mark.parametrize("values", [{"SEARCHES_PER_PROCESS": 20}], ids=[""])
def test_searches_of_one_peer_are_bounded(near: Bus, other: Bus, place: Path) -> None:
    """Searches above the bound are refused; searches of others are answered."""
    with Hostile(place / "Master") as rogue:
        rogue.greet()
        for number in range(1, 30):
            rogue.say(
                wire.Search(
                    id=rogue.request(number),
                    machine="machine",
                    name=f"nobody{number}",
                    sender=rogue.task(),
                    hops=3,
                )
            )
        answer = rogue.hear_any(wire.Error)
        assert answer.reason is Reason.BUSY
        near.register("late", on_command=lambda message: message.payload)
        assert other.call("late", 4, timeout=LIMIT_S) == 4


@pytest.mark.deep
@clause("QB-SOCK-9", "BUS-INIT-4", "BUS-ENT-17")
@pytest.mark.parametrize("values", [{"UNAUTHENTICATED_LINKS": 999}], ids=[""])
def test_hundreds_of_rejected_peers_leave_nothing_behind(
    near: Bus, other: Bus, place: Path
) -> None:
    """Neither descriptor nor name, whether they disconnect early, late or never."""
    served(near, other)  # their own link is there
    before = len(os.listdir("/proc/self/fd"))
    for number in range(300):
        with raw(place / "Master") as peer:
            peer.sendall(bytes(5) if number % 2 else HELLO[: number % 20])
    for number in range(300):
        with Hostile(place / "Master") as rogue:
            rogue.say((b"", wire.Ping(number=1), rogue.hello(bus="bus2"))[number % 3])
            if number % 2:
                rogue.last_word()
    served(near, other)
    until(lambda: len(os.listdir("/proc/self/fd")) <= before, "all is closed")


@pytest.mark.deep
@clause("BUS-CHAN-2", "BUS-WIRE-4")
def test_several_misbehaving_peers_at_once_delay_no_other(
    near: Bus, other: Bus, place: Path
) -> None:
    """While they commit violations, others are served all the time."""

    def misbehave(name: str) -> None:
        for act, _ in list(VIOLATIONS.values())[:5]:
            with Hostile(place / "Master", name) as rogue:
                rogue.greet()
                act(rogue)
                rogue.last_word()
            until(lambda: name not in report(near)["processes"], "it is forgotten")

    with Threads() as threads:
        running = [threads.start(misbehave, f"{NAME}{number}") for number in range(3)]
        while not all(each.done for each in running):
            served(near, other)
