"""The message length limit, of which each process has its own (OPEN-6)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from attrs import evolve

from bus import BusConfig, MessageTooLargeError, RemoteError, Role
from bus.kernel import wire
from bus.kernel.wire import FOLLOWS_MIN
from specs.clauses import clause
from tests.kit.buses import PATIENT, processes, socket_bus
from tests.kit.comm_threads import comm_of, held
from tests.kit.inspection import unbalanced
from tests.kit.tasks import Reader
from tests.process.hostile import Hostile, served
from tests.process.processes import subscribed
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bus import Bus, Incoming, Subscription, Undelivered

_LIMIT: Final = 1000
_SMALL: Final = evolve(PATIENT, message_bytes_max=_LIMIT)
_FITS: Final = b"f" * _LIMIT
_LONG: Final = b"l" * (_LIMIT + 1)


class _Sender:
    """A task that keeps its undelivered messages."""

    def __init__(self, bus: Bus, name: str = "sender") -> None:
        self.back: list[Undelivered] = []
        self.task = bus.register(name, on_undelivered=self.back.append)

    def send(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.task.command("sink", payload)


@contextmanager
def _two(far: BusConfig = _SMALL, near: BusConfig = PATIENT) -> Iterator[list[Bus]]:
    """Yield two slaves of a bus, each with its own limit; the first one sends."""
    with processes("master near far", near=near, far=far) as [_, *slaves]:
        yield slaves


def _told(sender: _Sender, count: int) -> None:
    """Wait until `count` messages came back; check their errors."""
    until(lambda: len(sender.back) == count, "its sender gets the error")
    for each in sender.back:
        assert isinstance(each.payload, bytes)
        assert isinstance(each.error, MessageTooLargeError)
        assert (each.error.got, each.error.limit) == (len(each.payload), _LIMIT)


# Frames with many messages.


@clause("BUS-CHAN-6")
@pytest.mark.parametrize("limit", [2**15, 330 * 2**10])
def test_frames_of_many_go_where_no_long_message_is_taken(limit: int) -> None:
    """However low the limit is, a link accepts a whole send batch."""
    config = BusConfig(message_bytes_max=limit)
    with (
        socket_bus("near", role=Role.MASTER, config=config) as near,
        socket_bus("other", role=Role.SLAVE, config=config) as other,
    ):
        sink, sender = Reader(near, "sink", reply=len), _Sender(other)
        assert other.call("sink", b"", timeout=LIMIT_S) == 0
        size = min(limit, FOLLOWS_MIN) - 100
        with held(other):
            for _ in range(60):
                sender.task.command("sink", b"x" * size)
        until(lambda: len(sink.got) == 61, "all arrive")
        assert sender.back == []


# Messages too long for the other process.


@clause("BUS-FLOW-5", "BUS-MSG-16")
def test_a_question_that_is_too_long_over_there_fails_at_once() -> None:
    """A message of exactly the limit is delivered, on the fast path, too."""
    with _two() as [near, far]:
        sink = Reader(far, "sink", reply=len)
        for _ in range(3):
            with pytest.raises(MessageTooLargeError) as raised:
                near.call("sink", _LONG, timeout=LIMIT_S)
            assert (raised.value.got, raised.value.limit) == (_LIMIT + 1, _LIMIT)
            assert near.call("sink", _FITS, timeout=LIMIT_S) == _LIMIT
        assert sink.got == [_FITS] * 3
        assert unbalanced(near.inspect()) == unbalanced(far.inspect()) == []


@clause("BUS-FLOW-7", "BUS-MSG-15", "BUS-MSG-16")
@pytest.mark.parametrize("when", ["parked", "linked", "in a batch"])
def test_commands_that_are_too_long_over_there_come_back_and_all_others_go(
    when: str,
) -> None:
    """In order, whether they wait for the name, for the link, or not at all."""
    payloads = [b"%03d" % number + b"x" * 500 * (number % 3) for number in range(30)]
    fit = [each for each in payloads if len(each) <= _LIMIT]
    assert 0 < len(fit) < len(payloads)
    with _two() as [near, far]:
        sender = _Sender(near)
        if when == "parked":
            sender.send(*payloads)
            sink = Reader(far, "sink", reply=len)
        else:
            sink = Reader(far, "sink", reply=len)
            if when == "in a batch":
                assert near.call("sink", b"", timeout=LIMIT_S) == 0
                sink.got.clear()
            with held(near):
                sender.send(*payloads)
        until(lambda: len(sink.got) == len(fit), "what fits arrives")
        assert sink.got == fit
        _told(sender, len(payloads) - len(fit))
        long = [each for each in payloads if len(each) > _LIMIT]
        assert [each.payload for each in sender.back] == long
        assert near.call("sink", b"", timeout=LIMIT_S) == 0
        assert unbalanced(near.inspect()) == unbalanced(far.inspect()) == []
        counters = comm_of(near).remote.topology.counters
        assert counters.failed == len(long)


@clause("BUS-FLOW-3", "BUS-FLOW-7")
def test_notifications_that_are_too_long_over_there_are_a_gap() -> None:
    """The next short one reports the gap; other subscribers receive all of them."""
    sent = [b"1", _LONG, b"2", _FITS, _LONG, _LONG, b"3"]
    with _two() as [near, far]:
        received: dict[str, list[tuple[Any, int]]] = {"near": [], "far": []}

        def hears(bus: Bus, name: str) -> Subscription:
            def on(message: Incoming) -> None:
                received[name].append((message.payload, message.gap))

            return bus.register(f"reader-{name}").subscribe("notifier", on)

        notifier = near.register("notifier", on_command=lambda m: m.payload)
        there, here = hears(far, "far"), hears(near, "near")
        subscribed(near, "notifier")
        with held(near):
            for each in sent:
                notifier.notify(each)
        until(lambda: len(received["far"]) == 4, "what fits arrives")
        until(lambda: len(received["near"]) == len(sent), "here all arrive")
        assert received["far"] == [(b"1", 0), (b"2", 1), (_FITS, 0), (b"3", 2)]
        assert received["near"] == [(each, 0) for each in sent]
        assert (there.dropped, here.dropped) == (3, 0)
        [reader] = [each for each in far.inspect().tasks if each.subscriptions]
        assert [each.missed for each in reader.subscriptions] == [3]
        assert unbalanced(near.inspect()) == unbalanced(far.inspect()) == []


@clause("BUS-FLOW-5", "BUS-MSG-16")
def test_an_answer_that_is_too_long_over_there_is_an_error() -> None:
    """The error names the limit; the answering task goes on."""
    with _two(far=PATIENT, near=_SMALL) as [near, far]:
        far.register(
            "sink", on_command=lambda message: _LONG if message.payload else _FITS
        )
        for _ in range(3):
            with pytest.raises(RemoteError, match="MessageTooLargeError") as raised:
                near.call("sink", True, timeout=LIMIT_S)
            assert f"above {_LIMIT} bytes" in raised.value.text
            assert near.call("sink", False, timeout=LIMIT_S) == _FITS
        assert unbalanced(near.inspect()) == unbalanced(far.inspect()) == []


@clause("BUS-WIRE-4", "BUS-SEC-8", "BUS-MSG-16")
@pytest.mark.parametrize("config", [BusConfig(message_bytes_max=2**16)], ids=[""])
def test_a_peer_that_announces_a_too_long_message_loses_its_link(
    near: Bus, other: Bus, place: Path
) -> None:
    """Before the body arrives; a body that fits into a frame is accepted."""
    with Hostile(place / "Master") as rogue:
        rogue.greet().say(*wire.pieces(rogue.messages(body=bytes(FOLLOWS_MIN))))
        assert rogue.is_heard()
        rogue.say(wire.pieces(rogue.messages(body=bytes(FOLLOWS_MIN + 1)))[0])
        word = rogue.last_word()
        assert isinstance(word, wire.Error)
        assert f"a body of {FOLLOWS_MIN + 1} bytes, allowed: {FOLLOWS_MIN}" in word.text
        served(near, other)
