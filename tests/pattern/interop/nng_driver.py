"""`NngDriver`: NNG through pynng; runs in the program `worker`."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pynng  # type: ignore[import-untyped] # it ships no types

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NngDriver"]

_LIB: Final[Any] = pynng.lib
_FFI: Final[Any] = pynng.ffi
# Each kind: its class, and the function that opens a raw socket.
_KINDS: Final[dict[str, tuple[Any, Any]]] = {
    "bus": (pynng.Bus0, _LIB.nng_bus0_open_raw),
    "pair0": (pynng.Pair0, _LIB.nng_pair0_open_raw),
    "pair1": (pynng.Pair1, None),
}
_OPTIONS: Final = {
    "message_bytes": "recv_max_size",
    "send_messages": "send_buffer_size",
    "receive_messages": "recv_buffer_size",
    "send_timeout_ms": "send_timeout",
}
_BUFFER_MESSAGES: Final = 8192  # the most that NNG allows
_REDIAL_MS: Final = 20


class NngDriver:
    """Sockets of NNG by their numbers."""

    def __init__(self) -> None:
        self._sockets: Final[dict[int, Any]] = {}
        self._numbers: Final = itertools.count(1)
        self._events: Final[dict[int, Counter[str]]] = {}

    def version(self) -> str:
        """Return the name of the library."""
        text = _FFI.string(_LIB.nng_version()).decode()
        return f"NNG {text}, pynng {pynng.__version__}"

    def open_socket(self, kind: str, raw: bool, options: dict[str, float]) -> int:
        """Open a socket; return its number."""
        cooked, opener = _KINDS[kind]
        given: dict[str, Any] = {"opener": opener} if raw else {}
        made = cooked(**given)
        made.reconnect_time_min = _REDIAL_MS
        made.reconnect_time_max = _REDIAL_MS
        made.send_buffer_size = made.recv_buffer_size = _BUFFER_MESSAGES
        for name, value in options.items():
            setattr(made, _OPTIONS[name], value)
        number = next(self._numbers)
        events = self._events[number] = Counter()
        made.add_pre_pipe_connect_cb(lambda _: events.update(["begun"]))
        made.add_post_pipe_connect_cb(lambda _: events.update(["connected"]))
        made.add_post_pipe_remove_cb(lambda _: events.update(["removed"]))
        self._sockets[number] = made
        return number

    def listen(self, number: int, url: str) -> str:
        """Listen; return the address with its port."""
        return str(self._sockets[number].listen(url).url)

    def dial(self, number: int, url: str) -> None:
        """Dial, again after each loss."""
        self._sockets[number].dial(url, block=False)

    def send(self, number: int, data: bytes) -> None:
        """Send one message."""
        self._sockets[number].send(data)

    def send_all(self, number: int, messages: Sequence[bytes]) -> None:
        """Send messages at once."""
        for each in messages:
            self.send(number, each)

    def receive(self, number: int, timeout_s: float) -> bytes | None:
        """Return the next message, or None if none arrives in time."""
        receiver = self._sockets[number]
        receiver.recv_timeout = max(1, int(timeout_s * 1000))
        # Not `recv`, which raises a RuntimeError for an empty message.
        data, size = _FFI.new("char **"), _FFI.new("size_t *")
        code = _LIB.nng_recv(receiver.socket, data, size, _LIB.NNG_FLAG_ALLOC)
        if code == _LIB.NNG_ETIMEDOUT:
            return None
        pynng.exceptions.check_err(code)
        body = bytes(_FFI.buffer(data[0], size[0])) if size[0] else b""
        _LIB.nng_free(data[0], size[0])
        return body

    def counters(self, number: int) -> dict[str, int]:
        """Return pipe events, and the statistics of socket, listeners and diallers."""
        owner = self._sockets[number]
        counted = dict(self._events[number])
        tree = _FFI.new("nng_stat **")
        if _LIB.nng_stats_get(tree):
            raise MemoryError("NNG has no memory for statistics")
        found = [("socket", _LIB.nng_stat_find_socket(tree[0], owner.socket))]
        for listener in owner.listeners:
            stat = _LIB.nng_stat_find_listener(tree[0], listener.listener)
            found.append(("listener", stat))
        for dialer in owner.dialers:
            stat = _LIB.nng_stat_find_dialer(tree[0], dialer.dialer)
            found.append(("dialler", stat))
        for owner_name, scope in found:
            each = _LIB.nng_stat_child(scope)
            while each != _FFI.NULL:
                if _LIB.nng_stat_type(each) == _LIB.NNG_STAT_COUNTER:
                    name = _FFI.string(_LIB.nng_stat_name(each)).decode()
                    key = f"{owner_name}.{name}"
                    value = int(_LIB.nng_stat_value(each))
                    counted[key] = counted.get(key, 0) + value
                each = _LIB.nng_stat_next(each)
        _LIB.nng_stats_free(tree[0])
        return counted

    def device(self, first: int, second: int | None) -> None:
        """Forward between raw sockets, in a thread, until one is closed."""
        left = self._sockets[first].socket
        right = (
            _FFI.new("nng_socket *")[0]
            if second is None
            else self._sockets[second].socket
        )
        threading.Thread(
            target=_LIB.nng_device, args=(left, right), daemon=True
        ).start()

    def close(self, number: int) -> None:
        """Close a socket."""
        if (found := self._sockets.pop(number, None)) is not None:
            found.close()

    def close_all(self) -> None:
        """Close all sockets."""
        for number in list(self._sockets):
            self.close(number)
