"""nanomsg: AF_SP bus sockets over ``ipc``, through ctypes.

Its buffers are bounds in bytes, which hold the window of the suite.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import TYPE_CHECKING, Final

from benchmarks.multicast_sender import MulticastSender

if TYPE_CHECKING:
    from benchmarks.multicast_job import MulticastJob
    from benchmarks.tally import Tally

__all__ = ["NAME", "VERSION", "far", "near"]

_FILE: Final = ctypes.util.find_library("nanomsg")
if _FILE is None:
    raise ModuleNotFoundError("libnanomsg is not installed", name="nanomsg")
_nn: Final = ctypes.CDLL(_FILE, use_errno=True)

NAME: Final = "nanomsg"
VERSION: Final = _FILE.rpartition(".")[2]

_AF_SP: Final = 1
_BUS: Final = 0x70
_SOL_SOCKET: Final = 0
_SNDBUF: Final = 2
_RCVBUF: Final = 3
_FRAME_BYTES: Final = 64  # it counts more than the body of each message


def near(folder: str, job: MulticastJob) -> MulticastSender:
    """Listen for the other nodes."""
    socket = _Socket(job)
    socket.bind(_address(folder, -1))
    return MulticastSender(socket.send, socket.close)


def far(folder: str, job: MulticastJob, tally: Tally) -> None:
    """Connect with all other nodes, and receive in a loop."""
    socket = _Socket(job)
    socket.bind(_address(folder, tally.number))
    for other in range(-1, tally.number):
        socket.connect(_address(folder, other))
    while not tally.done:
        tally.take(socket.receive())
    tally.finish()
    socket.close()


class _Socket:
    def __init__(self, job: MulticastJob) -> None:
        self._at: Final = _checked(_nn.nn_socket(_AF_SP, _BUS))
        room = ctypes.c_int(2 * job.window * (job.size + _FRAME_BYTES))
        for option in (_SNDBUF, _RCVBUF):
            _checked(
                _nn.nn_setsockopt(
                    *(self._at, _SOL_SOCKET, option),
                    *(ctypes.byref(room), ctypes.sizeof(room)),
                )
            )
        self._buffer: Final = ctypes.create_string_buffer(max(job.size, 64))

    def bind(self, address: str) -> None:
        _checked(_nn.nn_bind(self._at, address.encode()))

    def connect(self, address: str) -> None:
        _checked(_nn.nn_connect(self._at, address.encode()))

    def send(self, data: bytes | bytearray) -> None:
        _checked(_nn.nn_send(self._at, bytes(data), len(data), 0))

    def receive(self) -> bytes:
        buffer = self._buffer
        size = _checked(_nn.nn_recv(self._at, buffer, len(buffer), 0))
        return ctypes.string_at(buffer, size)

    def close(self) -> None:
        _nn.nn_close(self._at)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"nanomsg error {code}")
    return result


def _address(folder: str, number: int) -> str:
    return f"ipc://{folder}/n{number}"
