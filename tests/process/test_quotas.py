"""F3: the memory that a peer may occupy, and the log lines about violations."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from bus.errors import NameTakenError
from bus.features.subscriptions.frames import Subscribe
from bus.kernel import wire
from bus.kernel.tasks.actions import Evict
from bus.kernel.wire import Reason
from bus.model.events import BusReason
from bus.model.payload import encode as encoded
from bus.process.failures import PeerLog
from bus.process.link_helpers import PORT
from queuebroker.errors import DisconnectedError
from queuebroker.sockets import ProtocolError, frames
from specs.clauses import clause
from tests.kit.comm_threads import comm_of
from tests.kit.raw_peer import raw
from tests.process.hostile import NAME, TASK, Hostile, is_known, served
from tests.support import until

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from bus import Bus
    from bus.kernel.wire import Frame

_FEW: Final = 20
_LONG: Final = wire.Error(reason=Reason.WIRE, text="x" * 250)


# Before the greeting.


@clause("BUS-SEC-9")
@pytest.mark.parametrize("values", [{"UNAUTHENTICATED_LINKS": 4}], ids=[""])
def test_the_number_of_peers_that_have_not_greeted_is_limited(
    near: Bus, other: Bus, place: Path
) -> None:
    """The oldest one is disconnected, and a peer that greets is still accepted."""
    with ExitStack() as stack:
        silent = [
            stack.enter_context(Hostile(place / "Master", f"silent{number}"))
            for number in range(5)
        ]
        assert silent[0].hear() is None
        last = stack.enter_context(Hostile(place / "Master"))
        assert silent[1].hear() is None
        last.greet()
        silent[4].greet()
        assert last.is_heard()
        assert silent[4].is_heard()
        served(near, other)


@clause("BUS-SEC-9", "BUS-SEC-10")
@pytest.mark.parametrize("values", [{"UNAUTHENTICATED_BYTES": 260}], ids=[""])
def test_no_long_frame_is_taken_in_before_a_greeting(
    near: Bus, other: Bus, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Any long frame is rejected before it; the peer and the log get the reason."""
    words = "a message is longer than 260 bytes before an answer"
    with Hostile(place / "Master") as rogue:
        rogue.say(_LONG)
        assert words in rogue.why_closed()
    until(lambda: bool(caplog.messages), "it is reported")
    assert caplog.messages == [f"the link with an unidentified peer is closed: {words}"]
    with Hostile(place / "Master") as rogue:
        rogue.greet().say(_LONG)
        assert rogue.is_heard()


@clause("BUS-SEC-9")
def test_no_memory_is_reserved_for_a_peer_that_has_not_greeted(
    near: Bus, other: Bus, place: Path
) -> None:
    """The link ends as soon as the peer announces a long frame."""
    with raw(place / "Master") as peer:
        peer.sendall(frames.encode(frames.Hello("x", PORT, 2**28)))
        answer = peer.recv(1)  # a link is established
        peer.sendall(frames.HEAD.pack(frames.Frame.MESSAGE, 2**24))
        while said := peer.recv(2**16):
            answer += said
        assert b"at most 4160 are allowed before an answer" in answer


@clause("BUS-SEC-9")
def test_a_rejected_peer_keeps_no_descriptor(
    near: Bus, other: Bus, place: Path
) -> None:
    """Even if the peer stays connected, reads nothing, and never closes."""
    served(near, other)  # so that no link of these two opens later
    before = len(os.listdir("/proc/self/fd"))
    with ExitStack() as stack:
        for _ in range(_FEW):
            peer = stack.enter_context(raw(place / "Master"))
            peer.sendall(frames.encode(frames.Hello("x", PORT, 2**28)))
            peer.recv(1)  # a link is established
            peer.sendall(frames.encode_message(1, b"no frame of a bus"))
        until(
            lambda: len(os.listdir("/proc/self/fd")) <= before + _FEW,
            "only what they hold themselves is open",
        )
        served(near, other)


# After the greeting.


def _exports(rogue: Hostile, number: int) -> Frame:
    id_ = rogue.id(number)
    return wire.Export(id=id_, name=f"{TASK}{number}", registered_ns=2**62)


def _relays(rogue: Hostile, number: int) -> Frame:
    return wire.AddRelay(task=rogue.task(relay=number, id=rogue.id(number)))


def _subscribes(rogue: Hostile, number: int) -> Frame:
    return Subscribe(
        id=rogue.request(number),
        specification=f"nobody{number}",
        subscriber=rogue.task(),
        presence=bool(number % 2),
        hops=3,
    )


_KEPT: Final[Mapping[str, tuple[Callable[[Hostile, int], Frame], str]]] = {
    "exports": (_exports, "tasks are exported"),
    "relays": (_relays, "tasks need relays"),
    "subscriptions": (_subscribes, "subscriptions are requested"),
}


@pytest.mark.deep
@clause("BUS-FLOW-1")
@pytest.mark.parametrize("what", _KEPT)
@pytest.mark.parametrize(
    "values",
    [
        {
            "PUBLIC_TASKS_PER_PROCESS": _FEW,
            "RELAYS_PER_PROCESS": _FEW,
            "SUBSCRIPTIONS_PER_PROCESS": _FEW,
        }
    ],
    ids=[""],
)
def test_a_peer_that_exceeds_a_quota_loses_its_link(
    near: Bus, other: Bus, place: Path, what: str
) -> None:
    """Only above the limit; a repeated frame counts once."""
    say, words = _KEPT[what]
    with Hostile(place / "Master") as rogue:
        rogue.greet()
        for number in (*range(1, _FEW + 1), 1, _FEW):
            rogue.say(say(rogue, number))
        assert rogue.is_heard()
        rogue.say(say(rogue, _FEW + 1))
        word = rogue.last_word()
        assert isinstance(word, wire.Error)
        assert word.text == f"more than {_FEW} {words}"
        served(near, other)


@clause("BUS-FLOW-1", "BUS-SEC-7")
def test_a_peer_cannot_subscribe_for_another_process(
    near: Bus, other: Bus, place: Path
) -> None:
    """Else a peer could create any number of subscriptions."""
    with Hostile(place / "Master") as rogue:
        rogue.greet()
        number = wire.RequestId(machine="machine", process="other", number=1)
        rogue.say(
            Subscribe(id=number, specification="echo", subscriber=rogue.task(), hops=3)
        )
        word = rogue.last_word()
        assert isinstance(word, wire.Error)
        assert "refers to a task" in word.text


@clause("BUS-CHAN-8")
@pytest.mark.parametrize("values", [{"BACKLOG_FRAMES": 1000}], ids=[""])
def test_a_peer_that_reads_no_answers_loses_its_link(
    near: Bus, other: Bus, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before more frames are queued than allowed."""
    with Hostile(place / "Master") as rogue:
        rogue.greet().is_heard()
        until(lambda: is_known(near), "it has joined")
        pings = [wire.Ping(number=number) for number in range(5000)]
        with suppress(DisconnectedError):  # the link may end during the sends
            rogue.say(*pings)
        until(lambda: bool(caplog.records), "the link is given up")
        line = f"the link with machine/{NAME} is aborted: its queue is full"
        assert caplog.messages[0] == line
        served(near, other)


@clause("BUS-CHAN-8")
@pytest.mark.parametrize("values", [{"BACKLOG_FRAMES": 100}], ids=[""])
def test_a_peer_that_acknowledges_nothing_loses_its_link(
    near: Bus, other: Bus, place: Path
) -> None:
    """Even if it reads all frames, which are kept until acknowledged."""
    with Hostile(place / "Master") as rogue:
        rogue.greet().say(wire.AddRelay(task=rogue.task()))
        for number in range(101):
            rogue.say(rogue.messages(to=10_000 + number))
        word = rogue.last_word()
        assert isinstance(word, wire.Error)
        assert word.text == "more than 100 frames are not acknowledged"
        served(near, other)


_ANSWERS: Final = {
    "many": ({"BACKLOG_FRAMES": 100}, 1),
    "long": ({"BACKLOG_BYTES": 2**20}, 2**14),
}


@pytest.mark.deep
@clause("BUS-CHAN-8", "BUS-FLOW-1")
@pytest.mark.parametrize(("values", "size"), _ANSWERS.values(), ids=list(_ANSWERS))
def test_a_peer_that_asks_on_and_takes_no_answers_loses_its_link(
    near: Bus, other: Bus, place: Path, size: int
) -> None:
    """When too many or too long answers are queued; others are answered."""
    near.register("mirror", on_command=lambda message: message.payload)
    with Hostile(place / "Master") as rogue:
        rogue.greet()
        to = rogue.found("mirror")
        body = encoded(b"x" * size)
        with suppress(DisconnectedError):
            for _ in range(10_000):
                rogue.say(rogue.messages(to=to, body=body))
        word = rogue.last_word()
        assert isinstance(word, wire.Error)
        assert word.text == "too many answers are queued"
        served(near, other)


# Log lines.


@clause("BUS-SEC-10")
def test_the_log_says_why_a_link_was_closed(
    near: Bus, other: Bus, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the name of the peer, if it has greeted."""
    for greets in (False, True):
        with Hostile(place / "Master") as rogue:
            if greets:
                rogue.greet()
            rogue.say(b"")
            rogue.last_word()
    until(lambda: len(caplog.messages) == 2, "both are reported")
    whom = ("an unidentified peer", f"machine/{NAME}")
    for name, line in zip(whom, caplog.messages, strict=True):
        assert line == f"the link with {name} is closed: frame is empty"
    assert {each.levelname for each in caplog.records} == {"WARNING"}


@clause("BUS-SEC-10", "BUS-INIT-5")
def test_the_log_names_a_rejected_peer(
    near: Bus, other: Bus, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In one line, whatever name the peer gives."""
    with Hostile(place / "Master") as rogue:
        rogue.say(rogue.hello(process="other"))
        rogue.last_word()
    until(lambda: bool(caplog.messages), "it is reported")
    [line] = caplog.messages
    assert line.startswith("process 'machine/other' (pid ")


@clause("BUS-SEC-10")
def test_the_log_gives_the_reason_for_which_a_peer_closed_a_link(
    near: Bus, other: Bus, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With a reason from the peer it is no death; without one it would be."""
    remote = comm_of(near).remote
    with Hostile(place / "Master") as rogue:
        rogue.greet()
        assert rogue.is_heard()
        peer = remote.topology.peers["machine", NAME]
        rogue._queue.disconnect(ProtocolError("that was no frame"))
        until(lambda: bool(caplog.messages), "it is reported")
        line = f"the link with machine/{NAME} was closed by the peer"
        assert caplog.messages == [f"{line}: that was no frame"]
        assert peer.parted is BusReason.GIVEN_UP


@clause("BUS-CHAN-6", "BUS-SEC-10")
def test_the_log_reports_a_peer_with_a_too_small_frame_size(
    near: Bus, other: Bus, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is disconnected before any of its frames is answered."""
    with raw(place / "Master") as peer:
        peer.sendall(frames.encode(frames.Hello("x", PORT, 10)))
        with suppress(ConnectionError):
            peer.sendall(frames.encode_message(1, b"\x60garbage"))
        until(lambda: bool(caplog.messages), "it is reported")
    words = f"its link carries frames of 10 bytes, not {wire.FRAME_BYTES_MAX}"
    assert caplog.messages == [f"a peer is rejected: {words}"]
    served(near, other)


class _Curious(logging.Handler):
    """A log handler that takes a lock which a thread waiting for links may hold."""

    def __init__(self, wanted: _thread.LockType) -> None:
        super().__init__()
        self._wanted = wanted
        self.reported: list[tuple[str, str, bool]] = []

    def emit(self, record: logging.LogRecord) -> None:
        got = self._wanted.acquire(timeout=1)
        self.reported.append((record.levelname, record.getMessage(), got))
        if got:
            self._wanted.release()


@clause("BUS-SEC-10", "BUS-CHAN-3")
def test_a_log_handler_may_wait_for_the_links(
    near: Bus, other: Bus, place: Path
) -> None:
    """The lock is not held while logging a violation or an eviction."""
    task = other.register("loser")
    entry = other._exchange.manager.table.named("loser")
    assert entry is not None
    error = NameTakenError("loser")
    for bus in (near, other):
        curious = _Curious(comm_of(bus)._fast_path_driver.hold)
        logging.getLogger("bus").addHandler(curious)
        try:
            if bus is near:
                with Hostile(place / "Master") as rogue:
                    rogue.say(b"")
                    rogue.last_word()
                line = "the link with an unidentified peer is closed"
                expected = ("WARNING", f"{line}: frame is empty", True)
            else:
                bus._exchange.decide(lambda: [Evict(entry, error)])
                expected = ("ERROR", f"task 'loser' is deregistered: {error}", True)
            reported = curious.reported
            until(partial(bool, reported), "it is reported")
        finally:
            logging.getLogger("bus").removeHandler(curious)
        assert reported == [expected]
    with pytest.raises(NameTakenError):
        task.receive()


@clause("BUS-SEC-10")
def test_the_log_gets_only_so_many_lines(caplog: pytest.LogCaptureFixture) -> None:
    """In each minute; the others are counted."""
    complaints = PeerLog()
    for number in range(1000):
        complaints.note(f"bad {number}")
        complaints.write(number / 1000)
    assert caplog.messages == [f"bad {number}" for number in range(20)]
    complaints.write(59.0)
    assert len(caplog.messages) == 20

    complaints.note("a\nline\x1b " + "x" * 1000)
    complaints.write(60.0)

    counted, last = caplog.messages[20:]
    assert counted == "980 more such warnings suppressed"
    assert last.isprintable()
    assert last.startswith("'a\\nline\\x1b x")
    assert len(last) == 400
