"""pyzmq to several processes over ``ipc``: PUB and SUB, PUSH and PULL, or two PAIRs.

Large messages are received, and sent unless the caller may change them, without a copy
by Python, as its guide advises. There is no high-water mark, since the window of the
suite is the bound: below a mark of twice that window PUB dropped messages, because it
learns only after half of its mark how many were read.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import zmq

from benchmarks.multicast_sender import MulticastSender

if TYPE_CHECKING:
    from benchmarks.multicast_job import MulticastJob
    from benchmarks.tally import Tally

__all__ = ["NAME", "VERSION", "far", "near"]

NAME: Final = "pyzmq"
VERSION: Final = zmq.__version__

_COPIED_BYTES: Final = zmq.COPY_THRESHOLD
_SENDING: Final = {
    "notify": zmq.PUB,
    "camera": zmq.PUB,
    "command": zmq.PUSH,
    "echo": zmq.PAIR,
}
_RECEIVING: Final = {zmq.PUB: zmq.SUB, zmq.PUSH: zmq.PULL, zmq.PAIR: zmq.PAIR}


def near(folder: str, job: MulticastJob) -> MulticastSender:
    """Listen; messages without a subscriber are dropped."""
    context = zmq.Context()
    socket = context.socket(_SENDING[job.kind])
    socket.set_hwm(0)  # see above
    socket.bind(f"ipc://{folder}/zmq")
    changing = job.kind == "camera"
    copied = changing or job.size < _COPIED_BYTES
    send, receive = partial(socket.send, copy=copied), socket.recv

    def ask(message: bytes) -> None:
        socket.send(message, 0, len(message) < _COPIED_BYTES)
        receive(copy=len(message) < _COPIED_BYTES)

    return MulticastSender(send, partial(context.destroy, linger=0), ask)


def far(folder: str, job: MulticastJob, tally: Tally) -> None:
    """Dial, and receive in a loop."""
    context = zmq.Context()
    socket = context.socket(_RECEIVING[_SENDING[job.kind]])
    socket.set_hwm(0)  # see above
    if job.kind in {"notify", "camera"}:
        socket.subscribe(b"")
    socket.connect(f"ipc://{folder}/zmq")
    take, receive = tally.take, socket.recv
    if job.size < _COPIED_BYTES:
        while not tally.done:
            take(receive())
    else:
        while not tally.done:
            frame = receive(copy=False)
            if take(frame.buffer) and job.kind == "echo":
                socket.send(frame, copy=False)
    tally.finish()
    context.destroy(linger=0)
