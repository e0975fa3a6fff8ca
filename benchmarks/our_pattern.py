"""Our own contestant for the suite ``pattern``: bus sockets over ``ipc``.

Default arguments, but that the queues hold the window of the suite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.multicast_sender import MulticastSender
from bus.pattern import BusSocket, SocketConfig

if TYPE_CHECKING:
    from benchmarks.multicast_job import MulticastJob
    from benchmarks.tally import Tally

__all__ = ["NAME", "VERSION", "far", "near"]

NAME: Final = "ours"
VERSION: Final = ""


def near(folder: str, job: MulticastJob) -> MulticastSender:
    """Listen for the other nodes."""
    socket = BusSocket(_config(job))
    socket.listen(_address(folder, -1))

    def losses() -> int:
        lost = sum(socket.stats.dropped.values())
        for peer in socket.stats.peers:
            if peer.remote_taken is not None:
                lost += peer.remote_taken.overflowed
        return lost

    return MulticastSender(socket.send, socket.close, losses=losses)


def far(folder: str, job: MulticastJob, tally: Tally) -> None:
    """Connect with all other nodes, and receive in a loop."""
    with BusSocket(_config(job)) as socket:
        socket.listen(_address(folder, tally.number))
        for other in range(-1, tally.number):
            socket.dial(_address(folder, other))
        take, receive = tally.take, socket.receive
        while not tally.done:
            take(receive())
        tally.finish()


def _config(job: MulticastJob) -> SocketConfig:
    room = 2 * job.window
    return SocketConfig(send_messages=room, receive_messages=room)


def _address(folder: str, number: int) -> str:
    return f"ipc://{folder}/n{number}"
