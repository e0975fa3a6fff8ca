"""Contestants between two processes that exchange commands, each in its best use.

The near side sends. The far side receives each message in a callback; if a library has
no callbacks, a loop calls the same function. No contestant may lose a message: a sender
that is too fast is blocked.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

import attrs

from benchmarks.wires import CAPACITY
from bus import BusConfig, Durability, Incoming, Role, open_bus
from queuebroker import DisconnectedError
from queuebroker.sockets import SocketQueueBroker

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PARTIES", "Near", "far_bus", "missing"]

LIMIT_S = 60.0


@attrs.frozen
class Near:
    """The side that measures.

    send: sends one message, without an answer. ask: sends one message, and waits until
      it comes back. finished: waits until the far side has received all messages.
    """

    send: Callable[[bytes], object]
    ask: Callable[[bytes], object]
    finished: Callable[[], object]
    close: Callable[[], object]


@attrs.frozen
class _Party:
    """The functions that make both sides.

    near: takes the common folder, and the job, "sink" or "echo"; the far side is ready
      by then.
    far: serves one job until it is done. It takes the folder, the job, the number of
      messages, and a function to call when it is ready.
    """

    near: Callable[[str, str], Near]
    far: Callable[[str, str, int, Callable[[], object]], object]
    version: str = ""


# Ours.


def _near_bus(folder: str, _: str) -> Near:
    bus = open_bus(process="near", config=BusConfig(run_directory=folder))
    here = bus.here()
    task = bus.register("near", thread=here)
    over = Event()
    bus.register("over", on_command=lambda _: over.set())
    bus.wait_for("sink")
    # From here on the task is resolved, as it is in steady use.
    task.call("sink", b"")

    def close() -> None:
        bus.call("end")
        bus.close()

    return Near(
        partial(task.command, "sink"),
        partial(task.call, "sink"),
        partial(over.wait, LIMIT_S),
        close,
    )


def far_bus(
    folder: str,
    _: str,
    count: int,
    ready: Callable[[], object],
    durability: Durability | None = None,
) -> None:
    """Serve one job as the far side of our bus; see `_Party`."""
    config = BusConfig(run_directory=folder)
    with open_bus(
        process="far", role=Role.MASTER, config=config, durability=durability
    ) as bus:
        done = Event()
        left = count

        def take(message: Incoming) -> Any:
            nonlocal left
            if message.wants_reply:
                return message.payload
            left -= 1
            if not left:
                bus.command("over")
            return None

        bus.register("end", on_command=lambda _: done.set())
        bus.register("sink", on_command=take, overflow="block", thread=bus.thread())
        ready()
        done.wait(LIMIT_S)


# The queue below our bus, to show the cost that the bus adds.


def _near_queue(folder: str, _: str) -> Near:
    broker = SocketQueueBroker("near", capacity=CAPACITY)
    queue = broker.connect(f"ipc://{folder}/queue", 1, required=True)

    def ask(message: bytes) -> bytes:
        queue.send(message)
        return queue.receive()

    return Near(queue.send, ask, queue.receive, broker.close)


def _far_queue(folder: str, job: str, count: int, ready: Callable[[], object]) -> None:
    where = f"ipc://{folder}/queue"
    with SocketQueueBroker("far", listen=where, capacity=CAPACITY) as broker:
        ready()
        queue = broker.accept(1)
        if job == "sink":
            _one_way(queue.receive, count, lambda: queue.send(b""))
        else:
            for _ in range(count):
                queue.send(queue.receive())
        with suppress(DisconnectedError):
            queue.receive(timeout=LIMIT_S)  # until the near side closes


PARTIES = {
    "ours": _Party(_near_bus, far_bus),
    "queue": _Party(_near_queue, _far_queue),
}
missing: list[str] = []


# Rivals.


def _one_way(
    receive: Callable[[], bytes], count: int, done: Callable[[], object]
) -> None:
    """Pass each message to a function, as a library with callbacks does."""
    got = 0

    def take(_: bytes) -> None:
        nonlocal got
        got += 1

    while got < count:
        take(receive())
    done()


try:
    import zmq
except ModuleNotFoundError:
    missing.append("pyzmq is not installed: left out")
else:

    def _near_zmq(folder: str, job: str) -> Near:
        context = zmq.Context()
        out = context.socket(zmq.PUSH if job == "sink" else zmq.PAIR)
        back = context.socket(zmq.PULL)
        for socket, place in ((out, "out"), (back, "back")):
            socket.set_hwm(CAPACITY)
            socket.connect(f"ipc://{folder}/{place}")

        def ask(message: bytes) -> bytes:
            out.send(message)
            return out.recv()

        return Near(out.send, ask, back.recv, lambda: context.destroy(linger=None))

    def _far_zmq(
        folder: str, job: str, count: int, ready: Callable[[], object]
    ) -> None:
        context = zmq.Context()
        inward = context.socket(zmq.PULL if job == "sink" else zmq.PAIR)
        back = context.socket(zmq.PUSH)
        for socket, place in ((inward, "out"), (back, "back")):
            socket.set_hwm(CAPACITY)
            socket.bind(f"ipc://{folder}/{place}")
        ready()
        if job == "sink":
            _one_way(inward.recv, count, lambda: back.send(b""))
        else:
            for _ in range(count):
                inward.send(inward.recv())
        context.destroy(linger=None)

    PARTIES["pyzmq"] = _Party(_near_zmq, _far_zmq, zmq.__version__)

try:
    import pynng  # type: ignore[import-untyped] # it ships no types
except ModuleNotFoundError:
    missing.append("pynng is not installed: left out")
else:
    _ROOM: dict[str, Any] = {
        "send_buffer_size": CAPACITY,
        "recv_buffer_size": CAPACITY,
        "recv_max_size": 0,
    }

    def _near_nng(folder: str, job: str) -> Near:
        kind = pynng.Push0 if job == "sink" else pynng.Pair0
        out = kind(dial=f"ipc://{folder}/out", block_on_dial=True, **_room(kind))
        back = pynng.Pull0(dial=f"ipc://{folder}/back", block_on_dial=True)

        def ask(message: bytes) -> Any:
            out.send(message)
            return out.recv()

        def close() -> None:
            out.close()
            back.close()

        return Near(out.send, ask, back.recv, close)

    def _far_nng(
        folder: str, job: str, count: int, ready: Callable[[], object]
    ) -> None:
        kind = pynng.Pull0 if job == "sink" else pynng.Pair0
        inward = kind(listen=f"ipc://{folder}/out", **_room(kind))
        back = pynng.Push0(listen=f"ipc://{folder}/back")
        ready()
        if job == "sink":
            _one_way(inward.recv, count, lambda: back.send(b"over"))
        else:
            for _ in range(count):
                inward.send(inward.recv())
        Event().wait(0.2)  # its close drops messages that are still queued
        inward.close()
        back.close()

    def _room(kind: Any) -> dict[str, Any]:
        """Return the options that a kind of socket has."""
        one_way = {pynng.Push0: "recv", pynng.Pull0: "send"}.get(kind, "-")
        return {
            name: value for name, value in _ROOM.items() if not name.startswith(one_way)
        }

    PARTIES["pynng"] = _Party(_near_nng, _far_nng, pynng.__version__)

try:
    import zenoh
except ModuleNotFoundError:
    missing.append("zenoh (eclipse-zenoh) is not installed: left out")
else:

    def _session(folder: str, *, listens: bool) -> Any:
        config = zenoh.Config()
        where = f'["unixsock-stream/{folder}/zenoh"]'
        config.insert_json5("mode", '"peer"')
        config.insert_json5("scouting/multicast/enabled", "false")
        # Not used by a plain put; it leaves files behind.
        config.insert_json5("transport/shared_memory/enabled", "false")
        config.insert_json5("listen/endpoints", where if listens else "[]")
        config.insert_json5("connect/endpoints", "[]" if listens else where)
        return zenoh.open(config)

    def _reliably(session: Any, key: str) -> Any:
        return session.declare_publisher(
            key,
            congestion_control=zenoh.CongestionControl.BLOCK,
            reliability=zenoh.Reliability.RELIABLE,
        )

    def _near_zenoh(folder: str, _: str) -> Near:
        session = _session(folder, listens=False)
        out = _reliably(session, "out")
        back, over = Lock(), Event()
        back.acquire()
        session.declare_subscriber("back", lambda _: back.release())
        session.declare_subscriber("over", lambda _: over.set())
        while not out.matching_status.matching:
            Event().wait(0.01)

        def ask(message: bytes) -> None:
            out.put(message)
            back.acquire()

        return Near(out.put, ask, partial(over.wait, LIMIT_S), session.close)

    def _far_zenoh(
        folder: str, job: str, count: int, ready: Callable[[], object]
    ) -> None:
        session = _session(folder, listens=True)
        back, over = _reliably(session, "back"), _reliably(session, "over")
        left, done = count, Event()

        def take(sample: Any) -> None:
            nonlocal left
            if job == "echo":
                back.put(sample.payload)
            left -= 1
            if not left:
                over.put(b"")
                done.set()

        session.declare_subscriber("out", take)
        ready()
        done.wait(LIMIT_S)
        session.close()

    PARTIES["zenoh"] = _Party(_near_zenoh, _far_zenoh)
