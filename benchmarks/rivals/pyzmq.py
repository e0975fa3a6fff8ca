"""pyzmq: PAIR; PUSH and PULL; PUB and SUB, as the job asks for.

Settings as its guide advises. Between threads, no I/O thread, since ``inproc`` needs
none. High-water marks at the capacity (``inproc`` adds them up). PUB has none, since
the window of the job is the bound: below a mark of twice that window it dropped
messages, because it learns only after half of its mark how many were read. Messages are
not copied by Python if they are large. Encrypted, the sockets use CURVE, and the far
one admits only keys of this job.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import zmq
import zmq.auth
from zmq.auth.thread import ThreadAuthenticator

from benchmarks.job import CAPACITY, Job, Sender
from benchmarks.tally import Tally

if TYPE_CHECKING:
    from benchmarks.threads import Link

_ADDRESS: Final = "inproc://link"
_RECEIVING: Final = {zmq.PUB: zmq.SUB, zmq.PUSH: zmq.PULL, zmq.PAIR: zmq.PAIR}


@contextmanager
def link(capacity: int) -> Iterator[Link]:
    """Open a context with two PAIR sockets. One thread at a time may use an end."""
    with zmq.Context(io_threads=0) as context:
        near, far = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        with near, far:
            for socket in (near, far):
                socket.set_hwm(capacity)
                socket.linger = 0
            far.bind(_ADDRESS)
            near.connect(_ADDRESS)
            yield (near.send, near.recv), (far.send, far.recv)


def near(job: Job) -> Sender:
    """Connect to all receivers."""
    context = zmq.Context()
    socket = _socket(context, job, _sending(job))
    if job.medium == "tls":
        _load(socket, job, "near")
        socket.curve_serverkey, _ = zmq.auth.load_certificate(f"{job.folder}/far.key")
    for number in range(job.receivers):
        socket.connect(job.address(number))
    send, receive = _calls(socket, job)

    def ask(message: bytes) -> Any:
        send(message)
        return receive()

    return Sender(send, partial(context.destroy, linger=0), ask)


def far(job: Job, tally: Tally) -> None:
    """Listen, and receive in a loop."""
    context = zmq.Context()
    admission = None
    socket = _socket(context, job, _RECEIVING[_sending(job)])
    if job.way == "publish":
        socket.subscribe(b"")
    if job.medium == "tls":
        for side in ("near", "far"):
            zmq.auth.create_certificates(job.folder, side)
        admission = ThreadAuthenticator(context)
        admission.start()
        admission.configure_curve(domain="*", location=job.folder)
        _load(socket, job, "far")
        socket.curve_server = True
    socket.bind(job.address(tally.number))
    tally.ready()
    send, receive = _calls(socket, job)
    answer = send if job.act == "echo" else None
    tally.loop(receive, answer, plain=job.way == "pair")
    tally.finish()
    if admission is not None:
        admission.stop()
    context.destroy(linger=0)


def _sending(job: Job) -> zmq.SocketType:
    if job.act == "echo" or job.way == "pair":
        return zmq.PAIR
    return zmq.PUB if job.way == "publish" else zmq.PUSH


def _socket(
    context: zmq.Context[Any], job: Job, kind: zmq.SocketType
) -> zmq.Socket[Any]:
    socket: zmq.Socket[Any] = context.socket(kind)
    socket.set_hwm(0 if job.way == "publish" else CAPACITY)
    return socket


def _calls(socket: zmq.Socket[Any], job: Job) -> tuple[Any, Any]:
    if job.size < zmq.COPY_THRESHOLD:
        return socket.send, socket.recv
    return partial(socket.send, copy=False), partial(socket.recv, copy=False)


def _load(socket: zmq.Socket[Any], job: Job, side: str) -> None:
    public, secret = zmq.auth.load_certificate(f"{job.folder}/{side}.key_secret")
    assert secret is not None
    socket.curve_publickey, socket.curve_secretkey = public, secret
