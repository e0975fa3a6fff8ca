"""`SpGateway`: messages of a socket are notifications of a task, and the reverse."""

from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest

from bus import Bus, BusConfig, Incoming, NameTakenError, Role
from bus.errors import BusyError, UnknownTaskError
from bus.pattern import BusSocket, PairSocket
from bus.pattern.node import Node
from bus.sp_gateway import SpGateway, bytes_of
from bus.testing import memory_bus
from queuebroker.errors import BrokerClosedError
from specs.clauses import clause
from tests.kit.buses import processes, socket_bus
from tests.kit.systems import needs_shared_memory, needs_unix_sockets
from tests.pattern.inproc_pairs import connect
from tests.processes import start
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bus() -> Iterator[Bus]:
    """Yield a bus of one process."""
    with memory_bus() as only:
        yield only


@pytest.fixture
def peer() -> Iterator[BusSocket]:
    """Yield a socket on the bus of the pattern."""
    with BusSocket() as node:
        yield node


def gateway_to(
    peer: BusSocket, bus: Bus, name: str = "sp", **options: Any
) -> SpGateway:
    """Return a gateway whose socket is connected to a peer."""
    socket = BusSocket()
    connect(socket, peer)
    return SpGateway(bus, socket, name, **options)


def received_by(bus: Bus, name: str, *patterns: str) -> SimpleQueue[tuple[str, Any]]:
    """Return what a new task receives, with the names of the senders."""
    received: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    task = bus.register(name)

    def receive(message: Incoming) -> None:
        received.put((message.sender.module, message.payload))

    for pattern in patterns:
        task.subscribe(pattern, receive, wait=True)
    return received


@needs_unix_sockets
def test_a_pynng_program_and_a_task_reach_each_other(bus: Bus, tmp_path: Path) -> None:
    socket = BusSocket()
    url = socket.listen(f"ipc://{tmp_path}/s").url
    # NNG keeps threads and descriptors of a process, so it has one of its own.
    code = """
        import sys, pynng
        with pynng.Bus0(recv_timeout=30_000) as node:
            node.dial(sys.argv[1])
            print(node.recv().decode(), flush=True)
            node.send(b"from nng")
            input()
            node.recv_timeout = 100
            try:
                print(node.recv())
            except pynng.Timeout:
                print("no more")
    """
    with SpGateway(bus, socket, "nng", forward="clock") as gateway:
        received = received_by(bus, "listener", "**")
        clock = bus.register("clock")
        with start(code, url) as node:
            assert socket.wait_for_peers(1, LIMIT_S)

            clock.notify(b"noon")

            assert node.stdout is not None
            assert node.stdout.readline() == "noon\n"
            assert received.get(timeout=LIMIT_S) == ("clock", b"noon")
            assert received.get(timeout=LIMIT_S) == ("nng", b"from nng")
            assert node.communicate("\n", timeout=LIMIT_S) == ("no more\n", "")
        # A counter may be behind the message.
        until(
            lambda: gateway.stats.sent == gateway.stats.notified == 1, "it is counted"
        )


@clause("BP-19")
def test_messages_reach_tasks_of_other_processes_in_order(peer: BusSocket) -> None:
    with processes(2) as (one, two), gateway_to(peer, one) as gateway:
        received = received_by(two, "listener", "sp")
        for number in range(50):
            peer.send(b"%d" % number)

        got = [received.get(timeout=LIMIT_S) for _ in range(50)]

        assert got == [("sp", b"%d" % number) for number in range(50)]
        assert gateway.address.module == "sp"


@clause("BP-1", "BP-16")
def test_a_message_of_the_socket_does_not_go_back(bus: Bus, peer: BusSocket) -> None:
    """Even if all names are forwarded, the gateway's own included."""
    with BusSocket() as other, gateway_to(peer, bus, forward="**") as gateway:
        received = received_by(bus, "listener", "sp")
        clock = bus.register("clock")
        connect(other, peer)

        peer.send(b"x")
        assert received.get(timeout=LIMIT_S) == ("sp", b"x")
        clock.notify(b"y")

        assert peer.receive(LIMIT_S) == b"y"
        assert peer.stats.received_queued == 0
        until(
            lambda: gateway.stats.sent == gateway.stats.notified == 1, "it is counted"
        )
        stats = gateway.stats
        assert stats.notifications == stats.sent + stats.own


def test_the_error_of_a_closed_socket_names_the_gateway(bus: Bus) -> None:
    with BusSocket() as socket:
        socket.close()
        with pytest.raises(BrokerClosedError, match="cannot start gateway 'sp': this"):
            SpGateway(bus, socket, "sp")


@pytest.mark.parametrize("error", [None, BusyError("the test")])
def test_a_message_is_counted_before_its_receiver_has_it(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """And not if it does not leave."""
    outside = BusSocket()
    with outside, gateway_to(outside, bus, forward="clock") as gateway:
        counts: SimpleQueue[tuple[int, int]] = SimpleQueue()

        def leave(*_: object, **__: object) -> None:
            counts.put((gateway.stats.notified, gateway.stats.sent))
            if error is not None:
                raise error

        clock = bus.register("clock")
        with monkeypatch.context() as patch:
            patch.setattr(type(clock), "notify", leave)
            outside.send(b"x")
            assert counts.get(timeout=LIMIT_S) == (1, 0)
        until(lambda: gateway.stats.undecodable == bool(error), "it is settled")
        with monkeypatch.context() as patch:
            patch.setattr(type(gateway._node), "forward", leave)
            clock.notify(b"y")
            assert counts.get(timeout=LIMIT_S) == (int(not error), 1)
        until(lambda: gateway.stats.unsendable == bool(error), "it is settled")
        stats = gateway.stats
        assert (stats.notified, stats.sent) == ((0, 0) if error else (1, 1))


def test_several_names_are_forwarded_and_no_others(bus: Bus, peer: BusSocket) -> None:
    with gateway_to(peer, bus, forward=["a", "b/*"]):
        for name in ("c", "a", "b/1"):
            bus.register(name).notify(name.encode())

        assert [peer.receive(LIMIT_S) for _ in range(2)] == [b"a", b"b/1"]


def test_payloads_are_translated_both_ways(bus: Bus, peer: BusSocket) -> None:
    with gateway_to(
        peer,
        bus,
        forward="clock",
        encode=lambda message: str(message.payload).encode(),
        decode=lambda body: {"text": body.decode()},
    ):
        received = received_by(bus, "listener", "sp")
        bus.register("clock").notify([1, 2])
        assert peer.receive(LIMIT_S) == b"(1, 2)"

        peer.send(b"hi")
        assert received.get(timeout=LIMIT_S) == ("sp", {"text": "hi"})


def test_a_payload_that_is_not_bytes_is_counted_and_reported(
    bus: Bus, peer: BusSocket, caplog: pytest.LogCaptureFixture
) -> None:
    with gateway_to(peer, bus, forward="clock") as gateway:
        clock = bus.register("clock")
        clock.notify({"not": "bytes"})
        clock.notify(b"bytes")

        assert peer.receive(LIMIT_S) == b"bytes"
        assert gateway.stats.unsendable == 1
        until(lambda: gateway.stats.notifications == 2, "both are counted")
    [line] = caplog.messages
    assert line == (
        "gateway 'sp': a notification of ism://bus1@machine/clock was not sent: its"
        " payload must be bytes, got dict; give encode"
    )


def test_a_message_that_cannot_be_decoded_is_counted_and_reported(
    bus: Bus, peer: BusSocket, caplog: pytest.LogCaptureFixture
) -> None:
    """So is one whose payload cannot be sent; the others go on."""

    def decode(body: bytes) -> object:
        return {b"o": object(), b"1": 1}[body]

    with gateway_to(peer, bus, decode=decode) as gateway:
        received = received_by(bus, "listener", "sp")
        for body in (b"wrong", b"o", b"1"):
            peer.send(body)

        assert received.get(timeout=LIMIT_S) == ("sp", 1)
        assert gateway.stats.undecodable == 2
        until(lambda: gateway.stats.messages == 3, "all are counted")
    assert len(caplog.messages) == 2
    assert caplog.messages[0] == "gateway 'sp': decode has raised an error"
    assert "a message was not notified: cannot send payload" in caplog.messages[1]


@clause("BP-4", "BP-14")
def test_errors_of_the_translators_end_nothing(bus: Bus, peer: BusSocket) -> None:
    """Not even those by which the gateway knows an end of its own."""

    def encode(message: Incoming) -> bytes:
        if message.payload == b"wrong":
            raise BrokerClosedError("another socket")
        return bytes_of(message)

    def decode(body: bytes) -> bytes:
        if body == b"wrong":
            raise UnknownTaskError("another task")
        return body

    with gateway_to(
        peer, bus, forward="clock", encode=encode, decode=decode
    ) as gateway:
        received = received_by(bus, "listener", "sp")
        clock = bus.register("clock")
        for body in (b"wrong", b"right"):
            clock.notify(body)
            peer.send(body)

        assert peer.receive(LIMIT_S) == b"right"
        assert received.get(timeout=LIMIT_S) == ("sp", b"right")
        assert (gateway.stats.unsendable, gateway.stats.undecodable) == (1, 1)


@needs_shared_memory
def test_a_long_payload_in_shared_memory_is_copied_to_the_socket(
    peer: BusSocket,
) -> None:
    """It arrives at the gateway as a view (MC-38)."""
    body = bytes(range(256)) * 1024
    seen: list[type] = []

    def encode(message: Incoming) -> bytes:
        seen.append(type(message.payload))
        return bytes_of(message)

    with (
        socket_bus("one", role=Role.MASTER) as one,
        socket_bus("two") as two,
        gateway_to(peer, one, encode=encode) as gateway,
    ):
        gateway._task.subscribe("clock", gateway._send, wait=True)

        two.register("clock").notify(body)

        assert peer.receive(LIMIT_S) == body
    assert seen == [memoryview]


# Owner and end.


@clause("BP-14")
def test_a_gateway_owns_its_socket(bus: Bus, peer: BusSocket) -> None:
    socket = BusSocket()
    connect(socket, peer)
    with SpGateway(bus, socket, "sp") as gateway:
        assert repr(gateway) == "<SpGateway ism://bus1@machine/sp>"
        with pytest.raises(BusyError, match="gateway 'sp'"):
            socket.receive(0)
        with pytest.raises(BusyError):
            socket.send(b"x")
        with pytest.raises(BusyError):
            SpGateway(bus, socket, "sp2")
    assert socket.closed
    assert [task.address.module for task in bus.tasks()] == []
    gateway.close()
    with pytest.raises(BrokerClosedError):
        SpGateway(bus, socket, "sp")


@clause("BP-14")
def test_a_gateway_that_cannot_begin_leaves_the_socket_usable(bus: Bus) -> None:
    bus.register("taken")
    with BusSocket() as socket:
        with pytest.raises(NameTakenError):
            SpGateway(bus, socket, "taken")
        with pytest.raises(ValueError, match="a b"):
            SpGateway(bus, socket, "sp", forward=["fine", "not a b pattern/"])
        socket.send(b"x")
        assert [task.address.module for task in bus.tasks()] == ["taken"]


@clause("BP-14")
def test_a_gateway_that_is_interrupted_leaves_the_socket_usable(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Node.own

    def own_and_interrupt(node: Node, owner: str) -> None:
        own(node, owner)
        raise KeyboardInterrupt

    with BusSocket() as socket:
        with monkeypatch.context() as patch:
            patch.setattr(Node, "own", own_and_interrupt)
            with pytest.raises(KeyboardInterrupt):
                SpGateway(bus, socket, "sp")
        socket.send(b"x")


@clause("BP-14")
def test_a_second_gateway_of_the_same_name_does_not_free_the_socket(bus: Bus) -> None:
    socket = BusSocket()
    with SpGateway(bus, socket, "sp"), memory_bus() as other:
        with pytest.raises(BusyError):
            SpGateway(other, socket, "sp")
        with pytest.raises(BusyError):
            socket.send(b"x")


def test_the_close_of_the_socket_ends_the_gateway(bus: Bus, peer: BusSocket) -> None:
    socket = BusSocket()
    connect(socket, peer)
    with SpGateway(bus, socket, "sp") as gateway:
        socket.close()

        until(lambda: not bus.tasks(), "its task is deregistered")
        assert gateway.closed


def test_the_close_of_the_bus_ends_the_gateway_at_the_next_message(
    peer: BusSocket,
) -> None:
    with memory_bus(config=BusConfig()) as bus:
        gateway = gateway_to(peer, bus)
    with gateway:
        peer.send(b"x")
        until(lambda: gateway.closed, "it has ended")


def test_wrong_arguments_are_refused(bus: Bus) -> None:
    wrong: Any = PairSocket()
    with pytest.raises(TypeError, match="socket must be a bus"), wrong:
        SpGateway(bus, wrong, "sp")
    with BusSocket() as socket:
        wrong = socket
        with pytest.raises(TypeError, match="bus must be a bus"):
            SpGateway(wrong, socket, "sp")
        wrong = 5
        with pytest.raises(TypeError, match="encode"):
            SpGateway(bus, socket, "sp", encode=wrong)
        with pytest.raises(TypeError, match=r"forward must be a name, .*got int"):
            SpGateway(bus, socket, "sp", forward=wrong)
