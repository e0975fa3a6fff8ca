"""`bus.pattern.aio`: receive, send, iteration and the other calls, for coroutines."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING

import pytest

from bus.errors import BusyError
from bus.pattern import (
    BusSocket,
    PairSocket,
    RawBusSocket,
    SocketConfig,
    aio,
    device,
    sp_socket,
)
from queuebroker.errors import (
    BrokerClosedError,
    ReceiveTimeoutError,
    SendTimeoutError,
)
from specs.clauses import clause
from tests.kit.stepped_loop import SteppedLoop, stepped_loop
from tests.pattern.inproc_pairs import connect, nobody_waits
from tests.pattern.nodes import fresh_url
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


MANY = 300
FULL = SocketConfig(receive_messages=1, send_messages=1)


@pytest.fixture
def loop() -> Iterator[SteppedLoop]:
    """Yield a loop that the test steps."""
    with stepped_loop() as stepped:
        yield stepped


def test_wrap_returns_the_face_of_each_socket() -> None:
    with BusSocket() as bus, RawBusSocket() as raw, PairSocket() as pair:
        faces = aio.wrap(bus), aio.wrap(raw), aio.wrap(pair)

        kinds = aio.BusSocket, aio.RawBusSocket, aio.PairSocket
        assert tuple(map(type, faces)) == kinds
        assert (faces[0].socket, faces[1].socket) == (bus, raw)
        assert faces[2].socket is pair
        assert repr(faces[0]) == "<aio <BusSocket, 0 peers>>"
        with pytest.raises(TypeError, match="cannot pickle or copy BusSocket"):
            copy.copy(faces[0])


@pytest.mark.parametrize("wrong", [None, b"", SocketConfig()])
def test_only_sockets_are_wrapped(wrong: object) -> None:
    with pytest.raises(TypeError, match="object to wrap must be a BusSocket, a Raw"):
        aio.wrap(wrong)  # type: ignore[call-overload] # on purpose
    with pytest.raises(TypeError, match="socket"):
        aio.PairSocket(wrong)  # type: ignore[arg-type] # on purpose


@clause("BP-1")
def test_a_message_that_has_arrived_is_received_without_a_wait(
    loop: SteppedLoop,
) -> None:
    with BusSocket() as left, RawBusSocket() as right:
        connect(left, right)
        loop.run_until(loop.start(aio.wrap(left).send(bytearray(b"x"))))

        message = loop.run_until(loop.start(aio.wrap(right).receive()))

        assert message.body == b"x"
        loop.run_until(loop.start(aio.wrap(right).send(message)))
        loop.run_until(loop.start(aio.wrap(right).send(b"back")))
        assert left.receive_nowait() == b"back"  # and not x: its tag excludes left
        with pytest.raises(ReceiveTimeoutError):
            aio.wrap(left).receive_nowait()


def test_a_message_wakes_one_coroutine_that_receives(loop: SteppedLoop) -> None:
    """Several receive at once; they are served in the order of their calls."""
    with BusSocket() as left, BusSocket() as right:
        connect(left, right)
        tasks = [loop.start(aio.wrap(right).receive()) for _ in range(3)]
        loop.run()
        assert not any(task.done() for task in tasks)

        for number in range(3):
            left.send(b"%d" % number)
            loop.run()
            assert [task.done() for task in tasks].count(True) == number + 1

        assert [task.result() for task in tasks] == [b"0", b"1", b"2"]
        assert nobody_waits(right)


@clause("BP-6")
def test_two_messages_at_once_wake_two_coroutines(loop: SteppedLoop) -> None:
    """The transport wakes the first; that one wakes the second."""
    with BusSocket() as left, BusSocket() as right:
        end = connect(left, right)
        tasks = [loop.start(aio.wrap(right).receive()) for _ in range(2)]
        loop.run()

        end.queue.blocked = True
        left.send(b"1")
        left.send(b"2")
        end.queue.unblock()
        loop.run()

        assert [task.result() for task in tasks] == [b"1", b"2"]


def test_a_receive_ends_at_its_timeout_and_not_before(loop: SteppedLoop) -> None:
    with BusSocket() as socket:
        face = aio.wrap(socket)
        task = loop.start(face.receive(2.0))
        loop.run()
        loop.advance(1.9)
        assert not task.done()

        loop.advance(0.2)

        with pytest.raises(ReceiveTimeoutError):
            task.result()
        with pytest.raises(ReceiveTimeoutError):
            loop.run_until(loop.start(face.receive(0)))
        assert nobody_waits(socket)


def test_a_close_ends_receives_with_an_error_and_iterations_without(
    loop: SteppedLoop,
) -> None:
    async def iterate() -> list[bytes]:
        return [message async for message in aio.wrap(right)]

    with BusSocket() as left, BusSocket() as right:
        connect(left, right)
        iteration = loop.start(iterate())
        loop.run()
        receive = loop.start(aio.wrap(right).receive())
        loop.run()
        left.send(b"x")
        loop.run()

        right.close()
        loop.run()

        assert iteration.result() == [b"x"]
        with pytest.raises(BrokerClosedError, match="cannot receive"):
            receive.result()
        assert nobody_waits(right)
        assert loop.run_until(loop.start(iterate())) == []


def test_async_with_closes_the_socket() -> None:
    async def check(face: aio.BusSocket) -> None:
        async with face:
            assert face.stats.sent == 0
        assert face.closed
        with pytest.raises(BrokerClosedError, match="cannot send"):
            await face.send(b"x")

    asyncio.run(check(aio.wrap(BusSocket())))
    with aio.wrap(PairSocket()) as face_of_a_pair:
        pass
    assert face_of_a_pair.closed


def test_a_close_does_not_wait_for_the_thread_of_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    socket = BusSocket()
    monkeypatch.setattr(sp_socket, "await_background_end", pytest.fail)

    aio.wrap(socket).close()

    assert socket.closed


@clause("BP-14")
def test_a_socket_of_a_device_is_busy_for_coroutines(loop: SteppedLoop) -> None:
    raw = RawBusSocket()
    with device(raw):
        with pytest.raises(BusyError):
            loop.run_until(loop.start(aio.wrap(raw).receive()))
        with pytest.raises(BusyError):
            loop.run_until(loop.start(aio.wrap(raw).send(b"x")))


# Sending.


@clause("BP-4", "BP-5")
def test_a_bus_never_waits_to_send(loop: SteppedLoop) -> None:
    """Without peers, or with one that does not read: one step of the loop each."""
    with BusSocket() as left, BusSocket(FULL) as right:
        face = aio.wrap(left)
        for count in range(3):
            task = loop.start(face.send(b"x"))
            loop.step()
            assert task.done()
            if count == 0:
                connect(left, right)

        assert left.stats.sent == 3
        assert right.receive_nowait() == b"x"


def test_the_call_of_send_takes_the_bytes(loop: SteppedLoop) -> None:
    """And raises errors of arguments, before the await (as QB-SEND-7)."""
    with PairSocket() as left, PairSocket() as right:
        connect(left, right)
        with BusSocket() as bus, RawBusSocket() as raw:
            for face in (aio.wrap(left), aio.wrap(bus), aio.wrap(raw)):
                with pytest.raises(TypeError):
                    face.send("text")  # type: ignore[arg-type, unused-coroutine]
        data = bytearray(b"before")
        call = aio.wrap(left).send(data)

        data[:] = b"after!"
        loop.run_until(loop.start(call))

        assert right.receive_nowait() == b"before"


def test_a_pair_waits_for_its_peer_to_send(loop: SteppedLoop) -> None:
    with PairSocket() as left, PairSocket() as right:
        face = aio.wrap(left)
        task = loop.start(face.send(b"x"))
        loop.run()
        assert not task.done()
        with pytest.raises(SendTimeoutError, match="no peer is connected"):
            face.send_nowait(b"y")

        connect(left, right)

        loop.run_until(task)
        assert right.receive_nowait() == b"x"
        assert nobody_waits(left)


def test_a_pair_waits_for_room_to_send(loop: SteppedLoop) -> None:
    with PairSocket(FULL) as left, PairSocket() as right:
        end = connect(left, right)
        end.queue.blocked = True
        face = aio.wrap(left)
        loop.run_until(loop.start(face.send(b"1")))
        tasks = [loop.start(face.send(b"2")), loop.start(face.send(b"3", 2.0))]
        loop.run()
        loop.advance(3)
        with pytest.raises(SendTimeoutError, match="its queue is full"):
            tasks[1].result()

        end.queue.unblock()
        left._node.on_room()

        loop.run_until(tasks[0])
        assert [right.receive_nowait() for _ in range(2)] == [b"1", b"2"]
        assert nobody_waits(left)


def test_coroutines_wait_for_peers_and_until_all_is_sent(loop: SteppedLoop) -> None:
    with BusSocket() as left, BusSocket() as right:
        face = aio.wrap(left)
        peers = loop.start(face.wait_for_peers())
        late = loop.start(face.wait_for_peers(2, timeout=5))
        loop.run()
        assert not peers.done()
        end = connect(left, right)
        assert loop.run_until(peers) is True
        loop.advance(6)
        assert late.result() is False

        assert loop.run_until(loop.start(face.drain())) is True
        end.queue.blocked = True
        left.send(b"x")
        drain = loop.start(face.drain())
        loop.run()
        assert not drain.done()
        end.queue.unblock()
        left._node.on_room()
        assert loop.run_until(drain) is True
        assert nobody_waits(left)


# With threads, and over a real connection.


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_two_loops_in_two_threads_talk(transport: str, tmp_path: Path) -> None:
    sent = [b"%d" % number for number in range(MANY)]
    url = fresh_url(transport, tmp_path)
    listening = BusSocket()
    address = listening.listen(url).url

    async def listen() -> list[bytes]:
        async with aio.wrap(listening) as face:
            assert await face.wait_for_peers(1, LIMIT_S)
            await face.send(b"ready")
            taken = [await face.receive(LIMIT_S) for _ in sent]
            await face.send(b"done")
            assert await face.drain(LIMIT_S)
            return taken

    async def dial() -> list[bytes]:
        async with aio.wrap(BusSocket()) as face:
            face.dial(address)
            answers = [await face.receive(LIMIT_S)]
            for message in sent:
                await face.send(message)
            return [*answers, await face.receive(LIMIT_S)]

    with Threads() as threads:
        listener = threads.start(asyncio.run, listen())
        dialler = threads.start(asyncio.run, dial())
        assert listener.result() == sent
        assert dialler.result() == [b"ready", b"done"]
