"""pyzmq as its guide teaches it: REQ and REP, PUB and SUB, with JSON."""

from __future__ import annotations

from typing import Any

import zmq

from benchmarks.job import Job, Sender
from benchmarks.tally import Tally

_HWM = 100_000


def near(job: Job) -> Sender:
    """Connect to all receivers."""
    socket = _socket(zmq.PUB if job.act == "paced" else zmq.REQ)
    for number in range(job.receivers):
        socket.connect(job.address(number))
    if job.act == "paced":
        return Sender(socket.send_json, socket.close)

    def ask(value: Any) -> Any:
        socket.send_json(value)
        return socket.recv_json()

    return Sender(ask, socket.close, ask)


def far(job: Job, tally: Tally) -> None:
    """Answer requests, or receive publications."""
    socket = _socket(zmq.SUB if job.act == "paced" else zmq.REP)
    socket.bind(job.address(tally.number))
    if job.act == "paced":
        socket.subscribe(b"")
    tally.ready()
    while not tally.done:
        value = socket.recv_json()
        if job.act == "paced":
            tally.take_value(value)
            continue
        if not value:
            tally.take_value(value)
        socket.send_json(value)
    tally.finish()


def _socket(kind: int) -> Any:
    socket: Any = zmq.Context.instance().socket(kind)
    socket.set_hwm(_HWM)
    return socket
