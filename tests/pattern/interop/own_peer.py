"""`OwnPeer`: one of our sockets, as the tests use any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.pattern import (
    BusSocket,
    Device,
    Dialler,
    PairSocket,
    RawBusSocket,
    SocketConfig,
    device,
)
from queuebroker.errors import ReceiveTimeoutError
from tests.watchdog import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.pattern.interop.peer import Peer

__all__ = ["OwnPeer"]

# Short pauses, so that no test waits for them.
_REDIAL: Final = {"redial_min_s": 0.01, "redial_max_s": 0.05}


class OwnPeer:
    """One of our sockets; a `Peer`."""

    library: Final = "ours"

    def __init__(self, kind: str, *, raw: bool, options: dict[str, float]) -> None:
        config = SocketConfig(**{**_REDIAL, **options})  # type: ignore[arg-type]
        self.socket: Final = _open(kind, config, raw=raw)
        self.diallers: Final[list[Dialler]] = []
        self._device: Device | None = None

    def listen(self, url: str) -> str:
        """Listen; see `Peer`."""
        return self.socket.listen(url).url

    def dial(self, url: str) -> None:
        """Dial; see `Peer`."""
        self.diallers.append(self.socket.dial(url))

    def send(self, data: bytes) -> None:
        """Send one message."""
        self.socket.send(data)

    def send_all(self, messages: Sequence[bytes]) -> None:
        """Send messages at once."""
        for each in messages:
            self.send(each)

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the next message, or None."""
        try:
            message = self.socket.receive(timeout_s)
        except ReceiveTimeoutError:
            return None
        return message if isinstance(message, bytes) else message.body

    def forward_to(self, other: Peer | None) -> None:
        """Make a device; see `Peer`."""
        assert isinstance(self.socket, RawBusSocket)
        if other is None:
            self._device = device(self.socket)
        else:
            assert isinstance(other, OwnPeer)
            assert isinstance(other.socket, RawBusSocket)
            self._device = device(self.socket, other.socket)

    def close(self) -> None:
        """Close the socket, and wait for the end of its device."""
        self.socket.close()
        if self._device is not None:
            assert self._device.wait(LIMIT_S)
            assert self._device.error is None


def _open(
    kind: str, config: SocketConfig, *, raw: bool
) -> BusSocket | RawBusSocket | PairSocket:
    if kind != "bus":
        return PairSocket(config, version=int(kind[-1]))
    return RawBusSocket(config) if raw else BusSocket(config)
