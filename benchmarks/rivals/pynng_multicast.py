"""pynng to several processes over ``ipc``: Pub0 and Sub0, or Push0 and Pull0.

The buffers hold the window of the suite, since a publisher drops what they cannot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pynng  # type: ignore[import-untyped] # it ships no types

from benchmarks.multicast_sender import MulticastSender

if TYPE_CHECKING:
    from benchmarks.multicast_job import MulticastJob
    from benchmarks.tally import Tally

__all__ = ["NAME", "VERSION", "far", "near"]

NAME: Final = "pynng"
VERSION: Final = pynng.__version__


def near(folder: str, job: MulticastJob) -> MulticastSender:
    """Listen; messages without a subscriber are dropped."""
    kind = pynng.Push0 if job.kind == "command" else pynng.Pub0
    socket = kind(listen=_address(folder), send_buffer_size=job.window)
    send = socket.send
    if job.kind == "camera":
        # It takes bytes only, in spite of its documentation.
        return MulticastSender(lambda frame: send(bytes(frame)), socket.close)
    return MulticastSender(send, socket.close)


def far(folder: str, job: MulticastJob, tally: Tally) -> None:
    """Dial, and receive in a loop."""
    room: dict[str, Any] = {"recv_buffer_size": job.window, "recv_max_size": 0}
    if job.kind == "command":
        socket = pynng.Pull0(**room)
    else:
        socket = pynng.Sub0(topics=b"", **room)
    socket.dial(_address(folder), block=True)
    take, receive = tally.take, socket.recv
    while not tally.done:
        take(receive())
    tally.finish()
    socket.close()


def _address(folder: str) -> str:
    return f"ipc://{folder}/nng"
