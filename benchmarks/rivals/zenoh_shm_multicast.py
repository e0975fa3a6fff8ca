"""zenoh with its shared memory, which it calls unstable.

The sender copies each message into memory of a provider. A message below the size from
which zenoh shares by itself is sent as it is. A receiver in Python copies the bytes
out, since no view of them is offered.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

import zenoh.shm

from benchmarks.rivals.zenoh_multicast import near_of, receive, session_of

if TYPE_CHECKING:
    from benchmarks.multicast_job import MulticastJob
    from benchmarks.multicast_sender import MulticastSender
    from benchmarks.tally import Tally

__all__ = ["NAME", "VERSION", "far", "near"]

NAME: Final = "zenoh shm"
VERSION: Final = metadata.version("eclipse-zenoh")

_SHARED_BYTES: Final = 3072
_SPARE: Final = 4  # messages beyond the window, until the provider collects them


def near(folder: str, job: MulticastJob) -> MulticastSender:
    """Listen, and publish from shared memory."""
    session = session_of(folder, listens=True, shares=True)
    provider = zenoh.shm.ShmProvider.default_backend((job.window + _SPARE) * job.size)
    policy = zenoh.shm.GarbageCollect()

    def shared(message: bytes | bytearray) -> Any:
        if len(message) < _SHARED_BYTES:
            return message
        buffer = provider.alloc(len(message), policy)
        buffer[:] = message
        return buffer

    return near_of(session, shared)


def far(folder: str, job: MulticastJob, tally: Tally) -> None:
    """Dial, and subscribe."""
    receive(session_of(folder, listens=False, shares=True), job, tally)
