"""A process without memory: one read, message or connection ends, and no thread."""

from __future__ import annotations

import itertools
import sys
from contextlib import ExitStack, suppress
from threading import Event
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

from bus import BusConfig, MessageTooLargeError
from bus.errors import BusError
from bus.kernel.remote_manager import RemoteManager
from bus.process.comm_thread import CommThread
from bus.process.link_helpers import LinkHelpers
from queuebroker.sockets import frame_reader
from queuebroker.sockets.protocol import Protocol
from specs.clauses import clause
from tests.depth import among
from tests.kit.buses import processes, socket_bus
from tests.kit.comm_threads import comm_of, settled
from tests.kit.tasks import Reader
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from bus import Bus
    from bus.kernel.tasks.actions import Action
    from bus.model.message import Incoming, Undelivered
    from bus.model.payload import Payload

LONG = bytes(1 << 18)
OVER_LINK = BusConfig(shared_memory=False)
# The code that recovers: it would need a second error.
SPARED: Final = ("bus.process.failures", "bus.process.failures")


class Shortage:
    """A lack of memory at the call of a number, from 0, counted from `begin`.

    A profile function counts the calls that a thread makes of Python functions of the
    library, and raises at one of them. The interpreter then removes the function, so
    the error comes once.

    struck: the function whose call failed; "" before.
    """

    def __init__(self, number: int) -> None:
        self.struck: str = ""
        self._left = number
        self._counts = False

    def install(self) -> None:
        """Watch the calls of the calling thread."""
        sys.setprofile(self._profile)

    def begin(self) -> None:
        """Count from now on; for any thread."""
        self._counts = True

    def end(self) -> None:
        """Count no more; for any thread."""
        self._counts = False

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event != "call" or not self._counts or name in SPARED:
            return
        if not name.startswith(("bus.", "queuebroker.")):
            return
        if self._left == 0:
            self._counts = False
            self.struck = f"{frame.f_code.co_qualname} in {name}"
            raise MemoryError("no memory for this call")
        self._left -= 1


@pytest.fixture
def pair() -> Iterator[tuple[Bus, Bus]]:
    with ExitStack() as stack:
        far = stack.enter_context(socket_bus("far", config=OVER_LINK))
        near = stack.enter_context(socket_bus("near", config=OVER_LINK))
        far.register("echo", on_command=lambda message: message.payload)
        far.register("length", on_command=lambda message: len(message.payload))
        far.register("long", on_command=lambda _: LONG)
        assert near.call("echo", 1, timeout=LIMIT_S) == 1
        yield near, far


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process has memory for a long message from a link."""

    def refuse(*_: object) -> NoReturn:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(frame_reader, "_Bytes", refuse)
        yield


def link_of(bus: Bus) -> int | None:
    [peer] = comm_of(bus).remote.topology.peers.values()
    return peer.session.link


# One message without memory.


@clause("BUS-MSG-20")
@pytest.mark.usefixtures("no_memory")
def test_a_command_without_memory_fails_at_its_sender(pair: tuple[Bus, Bus]) -> None:
    """It is sent once, the link stays, and the next command goes through."""
    near, _ = pair
    link = link_of(near)

    with pytest.raises(MessageTooLargeError, match="has no memory for it"):
        near.call("length", LONG, timeout=LIMIT_S)

    assert near.call("length", b"short", timeout=LIMIT_S) == 5
    assert link_of(near) == link


@clause("BUS-MSG-20", "BUS-FLOW-7")
@pytest.mark.usefixtures("no_memory")
def test_a_command_without_answer_is_reported_as_undelivered(
    pair: tuple[Bus, Bus],
) -> None:
    near, far = pair
    undelivered: list[Undelivered] = []
    task = near.register("sender", on_undelivered=undelivered.append)
    reader = Reader(far, "reader")

    for payload in (b"before", LONG, b"after"):
        task.command("reader", payload)

    until(lambda: bool(undelivered), "it is reported")
    assert isinstance(undelivered[0].error, MessageTooLargeError)
    assert undelivered[0].payload == LONG
    until(lambda: len(reader.got) == 2, "the others arrive")
    assert reader.got == [b"before", b"after"]
    [peer] = comm_of(near).remote.topology.peers.values()
    until(lambda: peer.counters.posted == peer.counters.ended, "none is under way")
    assert peer.counters.failed == 1


@clause("BUS-MSG-20")
@pytest.mark.usefixtures("no_memory")
def test_an_answer_without_memory_fails_the_question(pair: tuple[Bus, Bus]) -> None:
    near, _ = pair

    with pytest.raises(MessageTooLargeError, match="no memory for the answer"):
        near.call("long", timeout=LIMIT_S)

    assert near.call("echo", 2, timeout=LIMIT_S) == 2


@clause("BUS-MSG-20", "BUS-FLOW-3")
@pytest.mark.usefixtures("no_memory")
def test_a_notification_without_memory_is_a_gap(pair: tuple[Bus, Bus]) -> None:
    near, far = pair
    notifier, got = far.register("notifier"), list[Any]()
    near.register("hearer").subscribe("notifier", got.append, wait=True)

    for payload in (LONG, b"after"):
        notifier.notify(payload)

    until(lambda: bool(got), "the next one arrives")
    assert [(each.payload, each.gap) for each in got] == [(b"after", 1)]


@clause("BUS-MSG-20")
def test_a_payload_that_cannot_be_decoded_for_lack_of_memory_is_refused(
    pair: tuple[Bus, Bus], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bus.kernel import fast_path  # noqa: PLC0415 # patched in place
    from bus.kernel.messages import inbound_messages  # noqa: PLC0415 # patched

    def refuse(*_: object) -> NoReturn:
        raise MemoryError

    near, _ = pair
    with monkeypatch.context() as patch:
        patch.setattr(fast_path, "decode", refuse)
        patch.setattr(inbound_messages, "decode", refuse)
        for payload in ([1, 2], ["x" * 70_000]):  # on the fast path, and in a round
            with pytest.raises(MessageTooLargeError):
                near.call("echo", payload, timeout=LIMIT_S)

    assert list(near.call("echo", [1, 2], timeout=LIMIT_S)) == [1, 2]


@clause("BUS-MSG-20")
def test_a_payload_that_cannot_be_encoded_for_lack_of_memory_fails_alone(
    pair: tuple[Bus, Bus], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bus.kernel.messages import outbound_messages  # noqa: PLC0415 # patched in place
    from bus.kernel.tasks.runs import pack_payload  # noqa: PLC0415

    def short_of(payload: Payload) -> tuple[int, bytes | memoryview]:
        if payload == {"long": 1}:
            raise MemoryError
        return pack_payload(payload)

    near, far = pair
    reader, undelivered = Reader(far, "reader"), list[Any]()
    task = near.register("sender", on_undelivered=undelivered.append)
    monkeypatch.setattr(outbound_messages, "pack_payload", short_of)
    for payload in ({"long": 1}, {"short": 1}):
        task.command("reader", payload)

    until(lambda: bool(undelivered), "the first is reported")
    assert "no memory to encode it" in str(undelivered[0].error)
    until(lambda: len(reader.got) == 1, "the other arrives")


@clause("QB-SOCK-10", "BUS-CHAN-9")
def test_bytes_that_were_taken_without_memory_end_their_link(
    pair: tuple[Bus, Bus], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes behind them would be read in their place, and no message arrive."""
    near, far = pair
    receive, lost = Protocol.receive_gathered, list[int]()

    def fails_once(self: Protocol, count: int) -> None:
        if not lost:
            lost.append(count)
            raise MemoryError
        receive(self, count)

    reader = Reader(far, "reader")
    monkeypatch.setattr(Protocol, "receive_gathered", fails_once)
    for payload in (LONG, b"after"):
        near.command("reader", payload)

    until(lambda: len(reader.got) == 2, "both arrive, over another link")
    assert lost


# An error at any call of a thread.


def in_comm_thread(bus: Bus, act: Callable[[], object]) -> None:
    comm_of(bus)._relay_outbox.ask(act)


def in_task_thread(bus: Bus, act: Callable[[], object]) -> None:
    bus._threads.default()._manager.ask(act)


def done_in(
    post: Callable[[Bus, Callable[[], object]], None],
    bus: Bus,
    act: Callable[[], object],
) -> None:
    done = Event()

    def run() -> None:
        act()
        done.set()

    post(bus, run)
    assert done.wait(LIMIT_S), "the thread serves requests"


def traffic(near: Bus, far: Bus, number: int) -> None:
    """Use the ways of a message; each may fail."""
    timeout_s = 0.1
    for payload in ({"a": number}, bytes(200_000), b"short"):
        with suppress(BusError):
            near.call("echo", payload, timeout=timeout_s)
    near.command("echo", b"x")
    task = near.register(f"t{number}", on_command=lambda _: 1)
    with suppress(BusError):
        far.call(f"t{number}", timeout=timeout_s)
    task.deregister()


@pytest.mark.deep
@clause("QB-SOCK-10", "BUS-CHAN-9")
@pytest.mark.parametrize("post", [in_comm_thread, in_task_thread])
def test_a_thread_outlives_a_lack_of_memory_at_any_call(
    post: Callable[[Bus, Callable[[], object]], None], pair: tuple[Bus, Bus]
) -> None:
    """If any call fails, the tasks of its process answer afterwards."""
    near, far = pair
    struck = set[str]()
    for number in itertools.count(0, 41 - among(0, 24)):
        shortage = Shortage(number)
        done_in(post, far, shortage.install)
        shortage.begin()
        traffic(near, far, number)
        shortage.end()
        done_in(post, far, lambda: None)
        assert near.call("echo", number, timeout=LIMIT_S) == number, shortage.struck
        if not shortage.struck:
            break
        struck.add(shortage.struck)
    assert len(struck) > 5


@clause("BUS-CHAN-9")
def test_a_process_accepts_links_after_a_lack_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The link that has no memory is closed; the peer dials again."""
    post, failed = LinkHelpers._post, list[object]()

    def fails_once(self: LinkHelpers, request: Callable[[], object]) -> None:
        if not failed:
            failed.append(1)
            raise MemoryError
        post(self, request)

    with socket_bus("first") as first:
        first.register("echo", on_command=lambda message: message.payload)
        monkeypatch.setattr(LinkHelpers, "_post", fails_once)
        with socket_bus("second") as second:
            assert second.call("echo", 1, timeout=LIMIT_S) == 1
    assert failed


@clause("BUS-CHAN-9")
def test_a_process_dials_again_after_a_lack_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has no memory for the first link to its master."""
    handle, failed = RemoteManager.on_link_dialled, list[object]()

    def fails_once(*args: Any) -> list[Action]:
        if not failed:
            failed.append(1)
            raise MemoryError
        return handle(*args)

    with socket_bus("first") as first:
        first.register("echo", on_command=lambda message: message.payload)
        monkeypatch.setattr(RemoteManager, "on_link_dialled", fails_once)
        with socket_bus("second") as second:
            assert second.call("echo", 1, timeout=LIMIT_S) == 1
    assert failed


@clause("BUS-CHAN-9")
def test_the_comm_thread_outlives_errors_of_its_recovery(
    pair: tuple[Bus, Bus], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory is short, one error follows another."""
    near, far = pair
    recover, errors = CommThread.on_internal_error, [MemoryError(), MemoryError()]

    def fails_twice(self: CommThread) -> None:
        if errors:
            raise errors.pop()
        recover(self)

    def fails() -> None:
        raise MemoryError

    monkeypatch.setattr(CommThread, "on_internal_error", fails_twice)
    comm_of(far)._relay_outbox.ask(fails)
    until(lambda: not errors, "it has recovered")
    settled(far)
    assert near.call("echo", 2, timeout=LIMIT_S) == 2


@clause("BUS-CHAN-9")
def test_messages_are_under_way_no_longer_once_their_task_has_handled_them() -> None:
    """Also if an error has lost the record of it: else the window would close."""
    with processes(2) as [one, other]:
        lost: list[Incoming] = []
        other.register("echo", on_command=lambda message: message.payload)
        assert one.call("echo", 1, timeout=LIMIT_S) == 1
        comm = comm_of(other)
        tracker = comm._acknowledgement_tracker
        note = type(tracker).note

        def loses(self: Any, message: Incoming) -> None:
            if not lost:
                lost.append(message)
                raise MemoryError
            note(self, message)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(tracker), "note", loses)
            one.command("echo", b"lost")
            until(lambda: bool(lost), "the record is lost")
        assert one.call("echo", 2, timeout=LIMIT_S) == 2
        [peer] = comm_of(one).remote.topology.peers.values()
        until(lambda: peer.counters.posted == peer.counters.ended, "all have ended")
