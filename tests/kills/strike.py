"""`Strike`: a process that kills or stops itself at a chosen point of the library.

The library does not know of it: only the victim wraps the chosen function, on order,
and restores it if it continues. The blow is noted before it is struck, so the notes
give the state of the victim.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any, Final

from bus.kernel.links.link_table import LinkTable
from bus.kernel.messages.outbound_messages import OutboundMessages
from bus.kernel.name_registry import NameRegistry
from bus.kernel.searches.requests import Requests
from bus.kernel.searches.resolver import Resolver
from tests.kills.notes import Note

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kills.notes import Notebook

__all__ = ["CALLBACK", "FRAME", "HANDSHAKE", "IDLE", "MOVING", "SEARCH", "Strike"]

HANDSHAKE: Final = "handshake"
SEARCH: Final = "search"
FRAME: Final = "mid-frame"
CALLBACK: Final = "in callback"
MOVING: Final = "moving"
IDLE: Final = "idle"

# Functions of the library, with the state that a call of each means.
_PLACES: Final[dict[str, tuple[type, str]]] = {
    "on_hello": (LinkTable, HANDSHAKE),  # a process dials this one
    "spread": (Requests, SEARCH),  # the search is sent to others
    "on_answer": (Resolver, SEARCH),
    "on_search": (Resolver, SEARCH),  # another process searches
    "on_departure": (OutboundMessages, MOVING),
    "on_registered": (NameRegistry, MOVING),
}
# A frame of this length is a message by itself, and so is any part of it.
_LONG_BYTES: Final = 1 << 16


class Strike:
    """Strikes its process once, at a given place with a given signal.

    Args:
        book: for the note.
    """

    def __init__(self, book: Notebook) -> None:
        self._book: Final = book
        self._signal: int = 0
        self._place: str = ""
        self._put_back: Callable[[], object] = list
        # Before the bus opens: it looks these functions up once.
        for name, (kind, state) in _PLACES.items():
            self._watch(kind, state, name)

    def arm(self, place: str, number: int, by: int) -> None:
        """Strike at the next opportunity.

        place: one of the library's, ``NAME before`` or ``NAME after``; "socket" for a
          socket call; "frame" or "long frame" for a frame written in part; any other
          place is reached when its code calls `at`.
        number: which socket call, from 0; the position where a frame is cut.
        by: the number of the signal.
        """
        self._place, self._signal = place, by
        if place == "socket":
            self._count_calls(number)
        elif place in {"frame", "long frame"}:
            self._cut(number, _LONG_BYTES if place == "long frame" else 3)

    def at(self, place: str, state: str, prepare: Callable[[], object] = list) -> None:
        """Strike if this is the place; prepare: called before."""
        if place == self._place:
            prepare()
            self._strike(state)

    def _strike(self, state: str) -> None:
        by, self._signal = self._signal, 0
        if by:
            self._place = ""
            self._book.note(Note.KILLED, state)
            os.kill(os.getpid(), by)
            # A stopped process continues here.
            self._put_back()
            self._put_back = list

    def _watch(self, kind: type, state: str, name: str) -> None:
        """Strike before or after a call of a function, once that is the place."""
        original = getattr(kind, name)

        def watched(*args: Any, **named: Any) -> Any:
            self.at(f"{name} before", state)
            result = original(*args, **named)
            self.at(f"{name} after", state)
            return result

        setattr(kind, name, watched)

    def _cut(self, number: int, least: int) -> None:
        """Write a part of a frame, and strike; even a lone head is cut."""

        def send(sock: socket.socket, data: Any, flags: int = 0) -> int:
            size = len(data)
            if size < least or not self._signal:
                return super(socket.socket, sock).send(data, flags)
            cuts = (1, 2, size - 2, size - 1)
            cut = number % (size - 1) + 1 if size >= _LONG_BYTES else cuts[number % 4]
            sent = super(socket.socket, sock).send(memoryview(data)[:cut], flags)
            self._strike(FRAME)
            return sent

        def sendmsg(
            sock: socket.socket, pieces: Any, ancillary: Any = (), flags: int = 0
        ) -> int:
            if ancillary:
                return super(socket.socket, sock).sendmsg(pieces, ancillary, flags)
            return send(sock, b"".join(pieces), flags)  # a long frame and its head

        self._replace({"send": send, "sendmsg": sendmsg})

    def _count_calls(self, number: int) -> None:
        """Strike before a call of any socket, counted from now on."""
        left = [number]

        def counted(name: str) -> Callable[..., Any]:
            def call(sock: socket.socket, *args: Any) -> Any:
                if not left[0]:
                    self._strike(HANDSHAKE)
                left[0] -= 1
                return getattr(super(socket.socket, sock), name)(*args)

            return call

        names = ("connect", "connect_ex", "bind", "listen", "send", "recv")
        self._replace({name: counted(name) for name in names})

    def _replace(self, calls: dict[str, Callable[..., Any]]) -> None:
        for name, call in calls.items():
            setattr(socket.socket, name, call)

        def put_back() -> None:
            for name in calls:
                delattr(socket.socket, name)

        self._put_back = put_back
