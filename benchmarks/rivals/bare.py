"""The least work: one copy into a sealed region, and a token to each receiver.

A ring of buffers in a `memfd`, which the receivers map for reading only. A buffer is
used again once the window of the job shows that all receivers are done with it. The
tokens, the numbers of the buffers, go over UNIX sockets.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Final

from benchmarks.job import Job, Sender
from benchmarks.tally import END, PROBE, Tally

_SPECIAL: Final = {2**32 - 1: PROBE, 2**32 - 2: END}
_TOKENS_BYTES: Final = 4096
# F_ADD_SEALS with F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_FUTURE_WRITE: after it, only
# the mapping of the sender can write. Python names the last one only from 3.13 on.
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | 0x10


def near(job: Job) -> Sender:
    """Make the region, and pass it to each receiver."""
    size, window = job.size, job.window
    descriptor = os.memfd_create("bare", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size * window)
    region = mmap.mmap(descriptor, size * window)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    view = memoryview(region)
    links = [socket.socket(socket.AF_UNIX) for _ in range(job.receivers)]
    for number, link in enumerate(links):
        link.connect(_path(job, number))
        socket.send_fds(link, [b"region"], [descriptor])
    tokens = {message: token for token, message in _SPECIAL.items()}
    places = chain.from_iterable(repeat(range(window)))

    def send(message: bytes) -> None:
        if len(message) < size:
            token = tokens[message]
        else:
            token = next(places)
            view[token * size : (token + 1) * size] = message
        for link in links:
            link.send(struct.pack("<I", token))

    def close() -> None:
        for link in links:
            link.close()
        view.release()
        region.close()
        os.close(descriptor)

    return Sender(send, close)


def far(job: Job, tally: Tally) -> None:
    """Map the region; take the buffer of each token."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(_path(job, tally.number))
        listener.listen()
        tally.ready()
        link, _ = listener.accept()
    with link:
        _, [descriptor], _, _ = socket.recv_fds(link, len(b"region"), 1)
        region = mmap.mmap(descriptor, job.size * job.window, prot=mmap.PROT_READ)
        view = memoryview(region)
        for token in _tokens(link):
            start = token * job.size
            tally.take(_SPECIAL.get(token) or view[start : start + job.size])
            if tally.done:
                break
        tally.finish()


def _tokens(link: socket.socket) -> Iterator[int]:
    rest = b""
    while received := link.recv(_TOKENS_BYTES):
        tokens = rest + received
        whole = len(tokens) // 4 * 4
        rest = tokens[whole:]
        for [token] in struct.iter_unpack("<I", tokens[:whole]):
            yield token


def _path(job: Job, number: int) -> str:
    return job.address(number).removeprefix("ipc://")
