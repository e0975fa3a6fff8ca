"""Contestants between two processes: how each listens, dials, sends and receives.

Each has its best documented settings, and the same capacity in messages as ours. One
end is in this process, the other in a fresh process with the job in its command line
(`benchmarks.sockets`).
"""

from __future__ import annotations

import platform
from multiprocessing.connection import Client, Listener
from typing import TYPE_CHECKING, Any

import attrs

from queuebroker.sockets import SocketQueueBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queuebroker import MessageQueue

__all__ = ["CAPACITY", "WIRES", "Wire", "missing"]

CAPACITY = 1024
_PORT = 1


@attrs.frozen
class Wire:
    """One end of a connection to another process.

    many: sends several messages, ``few`` receives at least one; None if the library has
      no such call.
    """

    send: Callable[[bytes], object]
    receive: Callable[[], bytes]
    close: Callable[[], object]
    many: Callable[[Sequence[bytes]], object] | None = None
    few: Callable[[], Sequence[bytes]] | None = None


@attrs.frozen
class _Maker:
    """The functions that make wires; ``listen`` returns an address and an accept."""

    listen: Callable[[str], tuple[str, Callable[[], Wire]]]
    dial: Callable[[str], Wire]
    version: str = ""


def _ours(queue: MessageQueue, broker: SocketQueueBroker) -> Wire:
    def close() -> None:
        queue.disconnect()
        broker.close()

    return Wire(queue.send, queue.receive, close, queue.send_many, queue.receive_many)


def _listen_ours(address: str) -> tuple[str, Callable[[], Wire]]:
    broker = SocketQueueBroker("near", listen=address, capacity=CAPACITY)
    return str(broker.address), lambda: _ours(broker.accept(_PORT), broker)


def _dial_ours(address: str) -> Wire:
    broker = SocketQueueBroker("far")
    return _ours(broker.connect(address, _PORT, required=True), broker)


def _listen_multiprocessing(address: str) -> tuple[str, Callable[[], Wire]]:
    unix = address.startswith("ipc://")
    listener = Listener(
        address.removeprefix("ipc://") if unix else ("127.0.0.1", 0),
        "AF_UNIX" if unix else "AF_INET",
    )

    def accept() -> Wire:
        made = listener.accept()
        listener.close()
        return Wire(made.send_bytes, made.recv_bytes, made.close)

    port = "" if unix else listener.address[1]
    return address if unix else f"tcp://127.0.0.1:{port}", accept


def _dial_multiprocessing(address: str) -> Wire:
    if address.startswith("ipc://"):
        made = Client(address.removeprefix("ipc://"), "AF_UNIX")
    else:
        made = Client(("127.0.0.1", int(address.rpartition(":")[2])), "AF_INET")
    return Wire(made.send_bytes, made.recv_bytes, made.close)


WIRES = {
    "ours": _Maker(_listen_ours, _dial_ours),
    "multiprocessing.connection": _Maker(
        _listen_multiprocessing, _dial_multiprocessing, platform.python_version()
    ),
}

missing: list[str] = []

try:
    import zmq
except ModuleNotFoundError:
    missing.append("pyzmq is not installed: left out")
else:

    def _zmq(address: str, *, listens: bool) -> tuple[str, Wire]:
        context = zmq.Context()
        socket = context.socket(zmq.PAIR)
        socket.set_hwm(CAPACITY)
        if listens:
            socket.bind(address)
            endpoint = socket.getsockopt(zmq.LAST_ENDPOINT)
            assert isinstance(endpoint, bytes)
            address = endpoint.rstrip(b"\0").decode()
        else:
            socket.connect(address)

        def close() -> None:
            socket.close()
            context.term()

        return address, Wire(socket.send, socket.recv, close)

    def _listen_zmq(address: str) -> tuple[str, Callable[[], Wire]]:
        where, wire = _zmq(address, listens=True)
        return where, lambda: wire

    WIRES["pyzmq"] = _Maker(
        _listen_zmq, lambda address: _zmq(address, listens=False)[1], zmq.__version__
    )

try:
    import pynng  # type: ignore[import-untyped] # it ships no types
except ModuleNotFoundError:
    missing.append("pynng is not installed: left out")
else:
    _ROOM: dict[str, Any] = {"send_buffer_size": CAPACITY, "recv_buffer_size": CAPACITY}
    # The default limit is smaller than the messages measured here.
    _ROOM["recv_max_size"] = 0

    def _nng(pair: Any) -> Wire:
        return Wire(pair.send, pair.recv, pair.close)

    def _listen_nng(address: str) -> tuple[str, Callable[[], Wire]]:
        pair = pynng.Pair0(**_ROOM)
        listener = pair.listen(address)
        where = str(listener.local_address) if address.startswith("tcp") else address
        if not where.startswith(("tcp://", "ipc://")):
            where = f"tcp://{where}"
        return where, lambda: _nng(pair)

    def _dial_nng(address: str) -> Wire:
        return _nng(pynng.Pair0(dial=address, block_on_dial=True, **_ROOM))

    WIRES["pynng"] = _Maker(_listen_nng, _dial_nng, pynng.__version__)
