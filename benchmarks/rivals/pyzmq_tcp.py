"""pyzmq between machines: PUSH and PULL one way, two PAIR sockets there and back.

Encrypted, the sockets use CURVE, and the far one admits only keys of this testbed.
They dial again every 10 ms, since the other side may not listen yet; the default of
100 ms would only delay the first message.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

import zmq
import zmq.auth
from zmq.auth.thread import ThreadAuthenticator

from benchmarks.testbed import Near
from benchmarks.wires import CAPACITY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from benchmarks.testbed import Arrivals, Over, Testbed

__all__ = ["NAME", "VERSION", "far", "near", "service"]

NAME: Final = "pyzmq"
VERSION: Final = zmq.__version__

_PORT: Final = 7402
_DIAL_AGAIN_MS: Final = 10


def service(testbed: Testbed) -> AbstractContextManager[object]:
    """Make the keys of both sides; there is no server."""
    if testbed.secure:
        for machine in ("near", "far"):
            zmq.auth.create_certificates(testbed.folder, machine)
    return nullcontext()


def near(testbed: Testbed, job: str) -> Near:
    """Dial; messages wait until the link is up."""
    context = zmq.Context()
    socket = context.socket(zmq.PUSH if job == "sink" else zmq.PAIR)
    socket.set_hwm(CAPACITY)
    socket.reconnect_ivl = _DIAL_AGAIN_MS
    if testbed.secure:
        _load(socket, testbed, "near")
        far_key = testbed.folder / "far.key"
        socket.curve_serverkey, _ = zmq.auth.load_certificate(far_key)
    socket.connect(f"tcp://{testbed.far}:{_PORT}")

    def ask(message: bytes) -> bytes:
        socket.send(message)
        return socket.recv()

    return Near.of_calls(socket.send, ask, partial(context.destroy, linger=0))


def far(testbed: Testbed, job: str, arrivals: Arrivals, over: Over) -> None:
    """Listen; pass each message to a function, as a library with callbacks does."""
    context = zmq.Context()
    with _admission(context, testbed):
        socket = context.socket(zmq.PULL if job == "sink" else zmq.PAIR)
        socket.set_hwm(CAPACITY)
        if testbed.secure:
            _load(socket, testbed, "far")
            socket.curve_server = True
        socket.bind(f"tcp://{testbed.far}:{_PORT}")
        arrived, receive, send = arrivals.take, socket.recv, socket.send
        for _ in range(arrivals.expected):
            message = receive()
            arrived(message)
            if job == "echo":
                send(message)
        over()
        socket.close(linger=0)
    context.term()


@contextmanager
def _admission(
    context: zmq.Context[zmq.Socket[bytes]], testbed: Testbed
) -> Iterator[None]:
    """Admit only keys of this testbed, if the links are encrypted."""
    if not testbed.secure:
        yield
        return
    admission = ThreadAuthenticator(context)
    admission.start()
    admission.configure_curve(domain="*", location=testbed.folder)
    try:
        yield
    finally:
        admission.stop()


def _load(socket: zmq.Socket[bytes], testbed: Testbed, machine: str) -> None:
    public, secret = zmq.auth.load_certificate(testbed.folder / f"{machine}.key_secret")
    socket.curve_publickey = public
    assert secret is not None
    socket.curve_secretkey = secret
