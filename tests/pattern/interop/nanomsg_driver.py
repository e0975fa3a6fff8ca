"""`NanomsgDriver`: libnanomsg through ctypes; runs in the program `worker`."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NanomsgDriver"]

_AF_SP: Final = 1
_AF_SP_RAW: Final = 2
_KINDS: Final = {"bus": 0x70, "pair0": 0x10}
_SOL_SOCKET: Final = 0
_ANY_SIZE: Final = ctypes.c_size_t(-1)  # NN_MSG: the library allocates
_OPTIONS: Final = {
    "send_timeout_ms": 4,
    "receive_timeout_ms": 5,
    "redial_ms": 6,
    "message_bytes": 16,
}
_SEND_BUFFER: Final = 2
_RECEIVE_BUFFER: Final = 3
_BUFFER_BYTES: Final = 4 << 20
_COUNTERS: Final = {
    "established": 101,
    "accepted": 102,
    "dropped": 103,
    "broken": 104,
    "connect_errors": 105,
    "accept_errors": 107,
    "current": 201,
}
_TIMED_OUT: Final = {"ETIMEDOUT", "EAGAIN"}


class NanomsgDriver:
    """Sockets of libnanomsg by their numbers."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libnanomsg.so.5")
        self._library: Final = library
        library.nn_strerror.restype = ctypes.c_char_p
        library.nn_get_statistic.restype = ctypes.c_uint64
        library.nn_send.argtypes = [
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_int,
        ]
        library.nn_recv.argtypes = [
            ctypes.c_int,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_size_t,
            ctypes.c_int,
        ]
        library.nn_freemsg.argtypes = [ctypes.c_void_p]
        self._sockets: Final[set[int]] = set()

    def version(self) -> str:
        """Return the name of the library."""
        return "nanomsg, ABI 5"

    def open_socket(self, kind: str, raw: bool, options: dict[str, float]) -> int:
        """Open a socket; return its number."""
        family = _AF_SP_RAW if raw else _AF_SP
        number = self._check(self._library.nn_socket(family, _KINDS[kind]))
        self._sockets.add(number)
        for option in (_SEND_BUFFER, _RECEIVE_BUFFER):
            self._set(number, option, _BUFFER_BYTES)
        for name, value in options.items():
            self._set(number, _OPTIONS[name], value)
        return number

    def _set(self, number: int, option: int, value: float) -> None:
        held = ctypes.c_int(int(value))
        self._check(
            self._library.nn_setsockopt(
                number,
                _SOL_SOCKET,
                option,
                ctypes.byref(held),
                ctypes.c_size_t(ctypes.sizeof(held)),
            )
        )

    def listen(self, number: int, url: str) -> str:
        """Listen; the address must have a port, since the library reports none."""
        self._check(self._library.nn_bind(number, url.encode()))
        return url

    def dial(self, number: int, url: str) -> None:
        """Dial, again after each loss."""
        self._check(self._library.nn_connect(number, url.encode()))

    def send(self, number: int, data: bytes) -> None:
        """Send one message."""
        self._check(self._library.nn_send(number, data, len(data), 0))

    def send_all(self, number: int, messages: Sequence[bytes]) -> None:
        """Send messages at once."""
        for each in messages:
            self.send(number, each)

    def receive(self, number: int, timeout_s: float) -> bytes | None:
        """Return the next message, or None if none arrives in time."""
        self._set(number, _OPTIONS["receive_timeout_ms"], max(1, int(timeout_s * 1000)))
        message = ctypes.c_void_p()
        size = self._library.nn_recv(number, ctypes.byref(message), _ANY_SIZE, 0)
        if size < 0:
            error = self._error()
            if any(each in str(error) for each in _TIMED_OUT):
                return None
            raise error
        data = ctypes.string_at(message, size) if size else b""
        self._library.nn_freemsg(message)
        return data

    def counters(self, number: int) -> dict[str, int]:
        """Return the statistics of a socket."""
        return {
            name: self._library.nn_get_statistic(number, which)
            for name, which in _COUNTERS.items()
        }

    def device(self, first: int, second: int | None) -> None:
        """Forward between raw sockets, in a thread, until one is closed."""
        pair = (first, -1 if second is None else second)
        threading.Thread(target=self._library.nn_device, args=pair, daemon=True).start()

    def close(self, number: int) -> None:
        """Close a socket."""
        if number in self._sockets:
            self._sockets.remove(number)
            self._check(self._library.nn_close(number))

    def close_all(self) -> None:
        """Close all sockets."""
        for number in list(self._sockets):
            self.close(number)

    def _check(self, result: int) -> int:
        if result < 0:
            raise self._error()
        return result

    def _error(self) -> OSError:
        number = self._library.nn_errno()
        name = os.strerror(number)
        known = {110: "ETIMEDOUT", 11: "EAGAIN", 98: "EADDRINUSE"}.get(number, name)
        return OSError(number, known)
