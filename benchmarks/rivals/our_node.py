"""This project's sockets of the bus pattern over ``ipc``.

Default arguments, except that the queues hold the window of the job.
"""

from __future__ import annotations

from benchmarks.job import Job, Sender
from benchmarks.tally import Tally
from bus.pattern import BusSocket, SocketConfig


def near(job: Job) -> Sender:
    """Dial all other nodes."""
    node = BusSocket(_config(job))
    for number in range(job.receivers):
        node.dial(job.address(number))
    return Sender(node.send, node.close)


def far(job: Job, tally: Tally) -> None:
    """Listen, dial the other receivers, and receive in a loop."""
    with BusSocket(_config(job)) as node:
        node.listen(job.address(tally.number))
        tally.ready()
        for other in range(tally.number):
            node.dial(job.address(other))
        tally.loop(node.receive)
        tally.finish()


def _config(job: Job) -> SocketConfig:
    room = 2 * job.window
    return SocketConfig(send_messages=room, receive_messages=room)
