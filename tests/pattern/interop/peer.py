"""`Peer`: one socket of any library, as the tests of this folder use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LIBRARIES", "Peer"]

LIBRARIES = ("ours", "nng", "nanomsg")


class Peer(Protocol):
    """One socket, of ours or of another library."""

    @property
    def library(self) -> str:
        """One of `LIBRARIES`."""

    def listen(self, url: str) -> str:
        """Listen; return the address, with the port that the system chose."""

    def dial(self, url: str) -> None:
        """Dial, again after each loss; does not wait."""

    def send(self, data: bytes) -> None:
        """Send one message."""

    def send_all(self, messages: Sequence[bytes]) -> None:
        """Send messages as fast as the library takes them."""

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the next message, or None if none arrives in time."""

    def forward_to(self, other: Peer | None) -> None:
        """Make a device of this raw socket and another one of the same library.

        other: None for a device of one socket.
        """

    def close(self) -> None:
        """Close the socket; for a device, end it."""
