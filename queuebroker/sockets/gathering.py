"""`Gathering`: a long message on its way in.

It is put where it stays: the bytes are set aside when the length is known, the socket
writes into them, and at the end they are the message. Rejected: pieces joined at the
end (a copy), and a buffer used again (a copy as well, and somebody who lends it); a
fresh bytearray costs several times what the reading does.
"""

from __future__ import annotations

from io import BytesIO

from queuebroker.sockets.memory import keep_memory

__all__ = ["Gathering"]


class _Bytes(BytesIO):
    """One that its finalizer does not close.

    It cannot while the view is there, as in the garbage of a connection that was lost
    amid a message; CPython 3.15 reports that.
    """

    __slots__ = ()

    close = staticmethod(int)  # type: ignore[assignment] # in C, and does nothing


class Gathering:
    """Bytes of a known length that come in pieces."""

    __slots__ = ("_bytes", "_view", "wanted")

    def __init__(self, begun: bytes, wanted: int) -> None:
        """Begin with what has come; ``wanted``: how many bytes it lacks."""
        keep_memory()
        self.wanted: int = wanted
        # What only a BytesIO holds it lets be written to, and gives away as it is;
        # zeros that nobody has written to are not there at all.
        self._bytes = _Bytes(bytes(len(begun) + wanted))
        self._view = self._bytes.getbuffer()
        self._view[: len(begun)] = begun

    @property
    def room(self) -> memoryview:
        """Where the rest is to be put; to be released before `message` is asked for."""
        return self._view[len(self._view) - self.wanted :]

    def message(self) -> bytes:
        """Return it whole; called once, at the end."""
        self._view.release()
        return self._bytes.getvalue()
