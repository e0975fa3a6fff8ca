"""A byte channel seen as a queue of one-byte messages.

The disconnect rules of channels are those of queues with bytes for messages
(QB-CHAN-4), so the same programs run over both through this view. It holds no state.
"""

from __future__ import annotations

from typing import Any

__all__ = ["BytewiseBroker", "BytewiseEnd"]


class BytewiseBroker:
    """A broker of channels whose ends are `BytewiseEnd` objects."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker

    def accept(self, port: int, **options: Any) -> BytewiseEnd:
        """Accept as the broker does."""
        return BytewiseEnd(self._broker.accept(port, **options))

    def connect(self, name: str, port: int, **options: Any) -> BytewiseEnd | None:
        """Connect as the broker does."""
        channel = self._broker.connect(name, port, **options)
        return None if channel is None else BytewiseEnd(channel)


class BytewiseEnd:
    """One end of a channel; other members are those of the channel."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def send(self, data: bytes, **options: Any) -> None:
        """Write the one byte of ``data``."""
        written = self._channel.write(data, 0, len(data), **options)
        if written != len(data):
            raise AssertionError(f"write of {data!r} returned {written!r}")

    def receive(self, **options: Any) -> bytes:
        """Read one byte."""
        buffer = bytearray(1)
        count = self._channel.read(buffer, 0, 1, **options)
        return bytes(buffer[:count])
