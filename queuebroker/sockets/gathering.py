"""`Gathering`: the buffer of a long incoming message; `Dropping`: none for one.

The message is read into its final place. The buffer is allocated when the length is
known, the socket writes into it, and at the end its bytes are the message. Rejected:
pieces joined at the end (a copy), and a reused buffer (also a copy, and a pool to
manage). A fresh bytearray costs several times as much as the read itself.
"""

from __future__ import annotations

from io import BytesIO

from queuebroker.sockets.memory import keep_memory

__all__ = ["Dropping", "Gathering"]

# The bytes of all messages that are dropped, one over the other. It exists before the
# memory is short.
_DROPPED = memoryview(bytearray(1 << 16))


class _Bytes(BytesIO):
    """A `BytesIO` that its finalizer does not close.

    The finalizer cannot close it while a view of it exists, as in the garbage of a
    connection that was lost amid a message. CPython 3.15 reports that failure.
    """

    __slots__ = ()

    close = staticmethod(int)  # type: ignore[assignment] # in C, and does nothing


class Gathering:
    """A buffer of known length that is filled in pieces."""

    __slots__ = ("_bytes", "_view", "wanted")

    def __init__(self, begun: bytes, wanted: int) -> None:
        """Start with the bytes in ``begun``; ``wanted``: how many are still missing."""
        keep_memory()
        self.wanted: int = wanted
        # A BytesIO with the only reference to its bytes lets them be written, and
        # returns them without a copy. Zero pages without a write take no memory.
        self._bytes = _Bytes(bytes(len(begun) + wanted))
        self._view = self._bytes.getbuffer()
        self._view[: len(begun)] = begun

    @property
    def room(self) -> memoryview:
        """The space for the rest; release it before the call of `message`."""
        return self._view[len(self._view) - self.wanted :]

    def message(self) -> bytes:
        """Return the complete message; called once, at the end."""
        self._view.release()
        return self._bytes.getvalue()


class Dropping:
    """Takes the place of a `Gathering` without memory; yields an empty message."""

    __slots__ = ("wanted",)

    def __init__(self, wanted: int) -> None:
        """wanted: how many bytes are still missing."""
        self.wanted: int = wanted

    @property
    def room(self) -> memoryview:
        """The space for the next bytes, the rest at most."""
        return _DROPPED[: self.wanted]

    def message(self) -> bytes:
        """Return the empty message."""
        return b""
