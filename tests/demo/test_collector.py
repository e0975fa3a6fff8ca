"""The collector: it keeps whole files, asks again for others, and reports both."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs
import pytest

from bus.demo.collector import Collector
from bus.demo.messages import (
    Again,
    Damaged,
    Head,
    HungUp,
    PassDone,
    Paused,
    Piece,
    Stored,
    Took,
    Unread,
    decode_receipt,
    encode,
    sent,
)
from tests.demo.support import demo_bus, pair
from tests.kit.inspection import is_there
from tests.kit.serving import serve
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.demo.messages import Content, Event, Receipt
    from queuebroker import MessageQueue

HEAD = Head(1, 0, hashlib.sha256(b"one").hexdigest())
FILE = (HEAD, Piece(b"on", last=False), Piece(b"e", last=True))
MISSED = Unread(1, 1, "No such file")


@attrs.frozen
class Scene:
    """A collector that serves one worker, and its reports."""

    collector: Collector
    queue: MessageQueue  # the worker's end
    served: MessageQueue  # the collector's
    reported: list[Event]
    paused: list[str]

    def send(self, *messages: Content) -> Receipt:
        """Send as that worker, and wait for the receipt."""
        for message in messages:
            self.queue.send(encode(message))
        return decode_receipt(self.queue.receive())


@contextmanager
def serving(files: int) -> Iterator[Scene]:
    """Give a scene; at the end the worker hangs up, and all reports are in."""
    reported: list[Event] = []
    paused: list[str] = []
    with demo_bus() as bus, pair("collector", "worker/1") as (far, near):
        collector = Collector(bus, files=files, workers=1, paused=paused.append)
        console = bus.register("console", thread=bus.here())
        console.subscribe(
            "collector", lambda message: reported.append(sent(message.payload))
        )
        with Threads() as threads:
            threads.start(collector.serve, far)
            yield Scene(collector, near, far, reported, paused)
            near.disconnect()
        serve(bus, lambda: not is_there(bus, "collector"), "it leaves with the last")
        while bus.here().poll(0):
            pass


def test_keeps_a_file_and_tells_of_it() -> None:
    with serving(files=1) as scene:
        assert scene.send(*FILE) == Stored()

    assert scene.collector.inventories[1].sizes == {0: 3}
    assert scene.collector.inventories[1].digests == {0: HEAD.digest}
    assert scene.reported == [Took(1, 0, 3), PassDone(1)]


@pytest.mark.parametrize(
    "damaged",
    [FILE[1:], (FILE[0], FILE[2]), (FILE[1], FILE[0], FILE[2]), (*FILE[:2], *FILE[1:])],
    ids=["no head", "a piece lost", "head overtaken", "a piece twice"],
)
def test_the_collector_asks_again_for_a_file_that_contradicts_its_head(
    damaged: tuple[Content, ...],
) -> None:
    with serving(files=1) as scene:
        assert scene.send(*damaged) == Again()
        assert scene.send(*FILE) == Stored()

    assert scene.reported == [Damaged("worker/1"), Took(1, 0, 3), PassDone(1)]


def test_a_head_that_comes_twice_does_no_harm() -> None:
    with serving(files=1) as scene:
        assert scene.send(HEAD, *FILE) == Stored()

    assert scene.reported == [Took(1, 0, 3), PassDone(1)]


def test_the_collector_notes_an_unread_file_and_completes_the_pass() -> None:
    with serving(files=2) as scene:
        scene.send(*FILE)
        assert scene.send(MISSED) == Stored()

    assert scene.collector.inventories[1].unread == {1: "No such file"}
    assert scene.reported == [Took(1, 0, 3), PassDone(1)]


def test_a_file_that_comes_once_more_completes_nothing() -> None:
    with serving(files=2) as scene:
        scene.send(*FILE)
        scene.send(*FILE)
        scene.send(MISSED)
        scene.send(*FILE)

    assert scene.reported.count(PassDone(1)) == 1
    assert scene.reported[-2] == PassDone(1)


def test_the_collector_drains_a_disconnected_worker_and_reports_it() -> None:
    reported: list[Event] = []
    with demo_bus() as bus, pair("collector", "worker/1") as (far, near):
        collector = Collector(bus, files=1, workers=1)
        console = bus.register("console", thread=bus.here())
        console.subscribe(
            "collector", lambda message: reported.append(sent(message.payload))
        )
        near.send(encode(FILE[0]))
        near.send(encode(FILE[1]))
        near.disconnect()

        collector.serve(far)

        serve(bus, lambda: reported, "it tells")
    assert reported == [HungUp("worker/1", 2, 0)]
    assert collector.inventories == {}


def test_messages_received_before_a_disconnect_do_not_count_as_drained() -> None:
    with serving(files=1) as scene:
        scene.queue.send(encode(HEAD))
        until(lambda: scene.served.stats().received == 1, "it is received")

    assert scene.reported == [HungUp("worker/1", 0, 0)]


def test_a_worker_that_pauses_in_mid_stream_is_reported_and_may_go_on() -> None:
    with serving(files=1) as scene:
        head, first, last = FILE
        for message in (head, first, Paused()):
            scene.queue.send(encode(message))
        until(lambda: scene.paused == ["worker/1"], "the pausing worker is reported")

        assert scene.send(last) == Stored()

    assert scene.reported == [Took(1, 0, 3), PassDone(1)]


def test_a_worker_that_is_lost_did_not_hang_up() -> None:
    with serving(files=1) as scene:
        scene.queue.send(encode(HEAD))
        until(lambda: not scene.served.pending, "it is received")
        scene.queue.disconnect(error=ConnectionError("lost"))

    assert scene.reported == []
