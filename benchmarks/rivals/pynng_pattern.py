"""pynng: Bus0 sockets over ``ipc``.

The queues hold the window of the suite, since a bus drops the messages beyond them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pynng  # type: ignore[import-untyped] # it ships no types

from benchmarks.multicast_sender import MulticastSender

if TYPE_CHECKING:
    from benchmarks.multicast_job import MulticastJob
    from benchmarks.tally import Tally

__all__ = ["NAME", "VERSION", "far", "near"]

NAME: Final = "pynng"
VERSION: Final = pynng.__version__


def near(folder: str, job: MulticastJob) -> MulticastSender:
    """Listen for the other nodes."""
    socket = pynng.Bus0(listen=_address(folder, -1), send_buffer_size=_room(job))
    return MulticastSender(socket.send, socket.close)


def far(folder: str, job: MulticastJob, tally: Tally) -> None:
    """Connect with all other nodes, and receive in a loop."""
    with pynng.Bus0(
        listen=_address(folder, tally.number), recv_buffer_size=_room(job)
    ) as socket:
        for other in range(-1, tally.number):
            socket.dial(_address(folder, other), block=False)
        take, receive = tally.take, socket.recv
        while not tally.done:
            take(receive())
        tally.finish()


def _room(job: MulticastJob) -> int:
    return min(8192, 2 * job.window)  # the greatest that it accepts


def _address(folder: str, number: int) -> str:
    return f"ipc://{folder}/n{number}"
