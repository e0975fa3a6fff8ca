"""QB-PY-11 for a broker that listens at a socket: `aio.wrap` of one."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from queuebroker import (
    BrokerClosedError,
    RendezvousTimeoutError,
    UnknownBrokerError,
    _net,
    aio,
)
from queuebroker.sockets import NotAdmittedError, SocketOptions
from specs.clauses import clause
from tests.kit.systems import needs_unix_sockets
from tests.sockets.certificates import identity
from tests.sockets.support import PORT, brokers
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from queuebroker.sockets import SocketQueueBroker

MEDIA = [None, "tcp://127.0.0.1:0", "tcp://localhost:0", "tls://localhost:0"]


def settings(listen: str | None) -> dict[str, Any]:
    secured = listen is not None and listen.startswith("tls")
    return {"tls": identity("localhost")} if secured else {}


@clause("QB-PY-11", "QB-SOCK-1")
@pytest.mark.parametrize("listen", MEDIA, ids=["unix", "tcp", "name", "tls"])
def test_coroutines_meet_by_an_address(listen: str | None) -> None:
    """They exchange messages and see disconnects, as at any other broker."""

    async def serve(server: aio.QueueBroker) -> None:
        async with await server.accept(PORT, timeout=LIMIT_S) as queue:
            async for message in queue:
                await queue.send(message.upper())

    async def main(host: SocketQueueBroker, guest: SocketQueueBroker) -> bytes:
        serving = asyncio.create_task(serve(aio.wrap(host)))
        assert host.address is not None
        client = aio.wrap(guest)
        async with await client.connect(host.address, PORT, required=True) as queue:
            await queue.send(b"hello")
            answer = await queue.receive(timeout=LIMIT_S)
        await serving
        return answer

    with brokers(listen, settings(listen), settings(listen)) as (host, guest):
        assert asyncio.run(main(host, guest)) == b"HELLO"


@clause("QB-PY-11")
def test_a_face_meets_by_name_and_threads_meet_it() -> None:
    async def main(host: SocketQueueBroker) -> None:
        face = aio.wrap(host)
        accepting = asyncio.create_task(face.accept(PORT, capacity=3))
        connected = await asyncio.to_thread(host.connect, "host", PORT, required=True)
        accepted = await accepting
        assert connected.capacity == 3
        other = asyncio.create_task(face.accept(PORT))
        again = await face.connect("host", PORT, required=True)
        for end in (accepted, connected, await other, again):
            end.disconnect()

    with brokers() as (host, _):
        asyncio.run(main(host))


@clause("QB-PY-11")
def test_a_face_looks_and_closes_as_its_broker() -> None:
    with brokers() as (host, _):
        face = aio.wrap(host)
        assert (face.broker, face.name, face.address) == (host, "host", host.address)
        assert repr(face) == f"<aio {host!r}>"
        with pytest.raises(ValueError, match="capacity must be at most"):
            asyncio.run(face.accept(PORT, capacity=1 << 40))

        async def close() -> None:
            async with face:
                pass

        asyncio.run(close())
        assert host.closed


@clause("QB-PY-11", "QB-SOCK-2")
@needs_unix_sockets
def test_a_connect_fails_as_it_does_for_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dial(*_: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    options = {"options": SocketOptions(ports={PORT})}
    with brokers(host=options) as (host, guest):
        face, address = aio.wrap(guest), str(host.address)
        nowhere = f"{address}-not"
        assert asyncio.run(face.connect(nowhere, PORT)) is None
        with pytest.raises(UnknownBrokerError, match="no broker listens") as caught:
            asyncio.run(face.connect(nowhere, PORT, required=True))
        assert isinstance(caught.value.__cause__, FileNotFoundError)
        with pytest.raises(NotAdmittedError, match="no task accepts"):
            asyncio.run(face.connect(address, PORT + 1))
        for timeout in (0, 0.01):
            with pytest.raises(RendezvousTimeoutError):
                asyncio.run(face.connect(address, PORT, timeout=timeout))
        with pytest.raises(UnknownBrokerError, match="in this process; give the addr"):
            asyncio.run(face.connect("server", PORT, required=True))
        with pytest.raises(ValueError, match="address must begin with"):
            asyncio.run(face.connect("udp://x", PORT))
        monkeypatch.setattr(_net, "dial", dial)
        with pytest.raises(OSError, match="open files"):
            asyncio.run(face.connect(address, PORT))


@clause("QB-PY-11", "QB-RDV-12")
def test_a_connect_that_is_cancelled_was_never_there() -> None:
    async def main(host: SocketQueueBroker, guest: SocketQueueBroker) -> None:
        assert host.address is not None
        connecting = asyncio.create_task(
            aio.wrap(guest).connect(host.address, PORT, required=True)
        )
        while not host.waiting_connects():
            await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert guest.outgoing() == {}

    with brokers() as (host, guest):
        asyncio.run(main(host, guest))
        until(lambda: not host.waiting_connects(), "nobody waits")


@clause("QB-PY-11")
def test_a_broker_that_closes_ends_the_wait_of_a_coroutine() -> None:
    async def close(host: SocketQueueBroker) -> None:
        while not host.waiting_connects():
            await asyncio.sleep(0)
        host.close()

    async def main(host: SocketQueueBroker, guest: SocketQueueBroker) -> None:
        assert host.address is not None
        closing = asyncio.create_task(close(host))
        with pytest.raises(BrokerClosedError):
            await aio.wrap(guest).connect(host.address, PORT)
        await closing

    with brokers() as (host, guest):
        asyncio.run(main(host, guest))


@clause("QB-PY-11")
def test_a_loop_runs_while_a_host_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look-up may take long, but no longer than the call's timeout."""
    asked, answer = threading.Event(), threading.Event()

    def resolve(*_: object) -> str:
        asked.set()
        answer.wait(LIMIT_S)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def main(face: aio.QueueBroker) -> None:
        address = "tcp://slow.invalid:1"
        with pytest.raises(RendezvousTimeoutError, match=r"was not looked up in 0\.01"):
            await face.connect(address, PORT, timeout=0.01)
        connecting = asyncio.create_task(face.connect(address, PORT))
        while not asked.is_set():
            await asyncio.sleep(0)
        answer.set()
        with pytest.raises(socket.gaierror, match=f"not known: '{address}'"):
            await connecting

    monkeypatch.setattr(_net, "resolve", resolve)
    with brokers() as (_, guest):
        asyncio.run(main(aio.wrap(guest)))


def test_a_value_that_is_no_broker_is_refused() -> None:
    wrap: Any = aio.wrap
    with pytest.raises(TypeError, match="or a QueueBroker, got int"):
        wrap(1)
