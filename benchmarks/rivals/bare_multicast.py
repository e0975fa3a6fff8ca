"""The least work: one copy into a sealed region, and a token to each receiver.

A ring of buffers in a `memfd`, which the receivers map for reading only. A buffer is
used again once the window of the suite shows that all receivers are done with it. The
tokens, the numbers of the buffers, go over UNIX sockets.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct
from typing import TYPE_CHECKING, Final

from benchmarks.multicast_job import PROBE
from benchmarks.multicast_sender import MulticastSender

if TYPE_CHECKING:
    from benchmarks.multicast_job import MulticastJob
    from benchmarks.tally import Tally

__all__ = ["NAME", "VERSION", "far", "near"]

NAME: Final = "bare"
VERSION: Final = ""

_PROBE_TOKEN: Final = 2**32 - 1
_TOKENS_BYTES: Final = 4096
# F_ADD_SEALS with F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_FUTURE_WRITE: after it, only
# the mapping of the sender can write. Python names the last one only from 3.13 on.
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | 0x10


def near(folder: str, job: MulticastJob) -> MulticastSender:
    """Make the region, and pass it to each receiver that dials."""
    size, window = job.size, job.window
    descriptor = os.memfd_create("bare", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size * window)
    region = mmap.mmap(descriptor, size * window)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    view = memoryview(region)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{folder}/bare")
    listener.listen(job.receivers)
    listener.setblocking(False)
    links: list[socket.socket] = []
    number = 0

    def probe() -> None:
        try:
            while True:
                link, _ = listener.accept()
                link.setblocking(True)
                socket.send_fds(link, [b"region"], [descriptor])
                links.append(link)
        except BlockingIOError:
            pass
        tell(_PROBE_TOKEN)

    def tell(index: int) -> None:
        token = struct.pack("<I", index)
        for link in links:
            link.send(token)

    def send(message: bytes | bytearray) -> None:
        nonlocal number
        if message is PROBE:
            probe()
            return
        view[number * size : (number + 1) * size] = message
        tell(number)
        number = (number + 1) % window

    def close() -> None:
        for each in (*links, listener):
            each.close()
        view.release()
        region.close()
        os.close(descriptor)

    return MulticastSender(send, close)


def far(folder: str, job: MulticastJob, tally: Tally) -> None:
    """Map the region; take the buffer of each token."""
    size = job.size
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(f"{folder}/bare")
        _, [descriptor], _, _ = socket.recv_fds(link, len(b"region"), 1)
        region = mmap.mmap(descriptor, size * job.window, prot=mmap.PROT_READ)
        os.close(descriptor)
        view = memoryview(region)
        buffers = [
            view[index * size : (index + 1) * size] for index in range(job.window)
        ]
        rest = b""
        while not tally.done:
            received = link.recv(_TOKENS_BYTES)
            if not received:
                raise EOFError("the sender closed its socket before the last message")
            tokens = rest + received
            whole = len(tokens) // 4 * 4
            rest = tokens[whole:]
            for [index] in struct.iter_unpack("<I", tokens[:whole]):
                tally.take(PROBE if index == _PROBE_TOKEN else buffers[index])
        tally.finish()
