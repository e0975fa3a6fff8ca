"""`Testbed`: the sockets and the addresses of one test."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Final

import pytest

from queuebroker._net import unused_port
from tests.kit.systems import require_unix_sockets
from tests.pattern.interop.library import (
    ForeignPeer,
    Library,
    LibraryDiedError,
    LibraryHangsError,
    missing_package,
)
from tests.pattern.interop.own_peer import OwnPeer
from tests.pattern.raw_end import RawListener

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pattern.interop.peer import Peer

__all__ = ["TRANSPORTS", "Libraries", "Testbed"]

TRANSPORTS = ("ipc", "tcp")


class Libraries:
    """The programs of the foreign libraries; each is started when it is needed."""

    def __init__(self) -> None:
        self._running: Final[dict[str, Library]] = {}

    def get(self, name: str) -> Library:
        """Return a running program; skip the test if the library is not installed."""
        if name not in self._running:
            if missing := missing_package(name):
                pytest.skip(missing)
            self._running[name] = Library(name)
        return self._running[name]

    def start_if_present(self, name: str) -> None:
        """Start a program now, if its library is installed."""
        if not missing_package(name):
            self.get(name)

    def close_sockets(self) -> None:
        """Close all sockets, after a test; a library that hangs then is killed.

        `nng_close` may deadlock (nng #1543 and #1813); the test has passed by then.
        """
        for each in self._running.values():
            with contextlib.suppress(LibraryDiedError, LibraryHangsError):
                each.call("close_all")

    def start_again(self) -> None:
        """Start the programs again that have ended."""
        for name, each in list(self._running.items()):
            if each.ended:
                each.close()
                self._running[name] = Library(name)

    def close(self) -> None:
        """End the programs."""
        while self._running:
            self._running.popitem()[1].close()


class Testbed:
    """The sockets and the addresses of one test, of any library.

    folder: for socket files; its path is short.
    """

    __test__ = False  # pytest would take a class with this name for tests

    def __init__(self, libraries: Libraries, folder: Path) -> None:
        self.libraries: Final = libraries
        self._folder: Final = folder
        self._own: Final[list[OwnPeer]] = []
        self._names: Final = itertools.count(1)

    def open(
        self, library: str, kind: str = "bus", *, raw: bool = False, **options: float
    ) -> Peer:
        """Open a socket of a library, closed at the end of the test."""
        if library != "ours":
            return self.foreign(library, kind, raw=raw, **options)
        return self.own(kind, raw=raw, **options)

    def own(self, kind: str = "bus", *, raw: bool = False, **options: float) -> OwnPeer:
        """Open one of our sockets."""
        self._own.append(OwnPeer(kind, raw=raw, options=options))
        return self._own[-1]

    def foreign(
        self, library: str, kind: str = "bus", *, raw: bool = False, **options: float
    ) -> ForeignPeer:
        """Open a socket of another library."""
        owner = self.libraries.get(library)
        return ForeignPeer(owner, kind, raw=raw, options=options)

    @property
    def folder(self) -> Path:
        """The folder for socket files."""
        require_unix_sockets()
        return self._folder

    def path(self) -> Path:
        """Return a path for a socket file."""
        return self.folder / str(next(self._names))

    def listen(self, peer: Peer, transport: str) -> str:
        """Let a socket listen at a new address; return the address."""
        if transport != "tcp":
            return peer.listen(f"ipc://{self.path()}")
        if peer.library != "nanomsg":
            return peer.listen("tcp://127.0.0.1:0")
        # nanomsg takes no port 0.
        return peer.listen(f"tcp://127.0.0.1:{unused_port()}")

    def raw_listener(self, transport: str) -> RawListener:
        """Return a plain listener, which the test closes."""
        return RawListener(f"ipc://{self.path()}" if transport == "ipc" else "tcp")

    def close(self) -> None:
        """Close all sockets of the test."""
        for each in self._own:
            each.socket.close()
        for each in self._own:
            each.close()
        self.libraries.close_sockets()
