"""`Library`: the program in which a foreign library runs, and its sockets."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Final

from tests.pattern.interop.worker import HEAD, pack
from tests.processes import import_path
from tests.watchdog import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.pattern.interop.peer import Peer

__all__ = [
    "ForeignPeer",
    "Library",
    "LibraryDiedError",
    "LibraryHangsError",
    "missing_package",
]


def missing_package(library: str) -> str:
    """Return the missing package of a library as a skip reason; "" if none is."""
    try:
        if library == "nng":
            import pynng  # type: ignore[import-untyped] # noqa: F401, PLC0415
        elif library == "nanomsg":
            ctypes.CDLL("libnanomsg.so.5")
    except ImportError:
        return "needs pynng, of the extra `test`"
    except OSError:
        return "needs libnanomsg, of the Debian package libnanomsg5"
    return ""


class LibraryDiedError(AssertionError):
    """The program has ended, for example since the library aborted it.

    code: its exit code; minus the number of the signal.
    """

    def __init__(self, library: str, code: int | None) -> None:
        super().__init__(f"the program with {library} has ended with exit code {code}")
        self.code = code


class LibraryHangsError(AssertionError):
    """The program has not answered in time; it is killed."""


class Library:
    """One program with one library.

    Raises, from all methods:
        LibraryDiedError: the program has ended.
        LibraryHangsError: the program has not answered, and is killed.
        OSError: the library has refused a call; the text has its reason.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._program: Final = subprocess.Popen(
            [sys.executable, "-m", "tests.pattern.interop.worker", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": import_path()},
        )
        self.version: Final[str] = self.call("version")

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a method of the driver; return its result."""
        assert self._program.stdin is not None
        try:
            data = memoryview(pack((name, arguments)))
            while data:
                data = data[self._program.stdin.write(data) :]
        except BrokenPipeError:
            raise LibraryDiedError(self.name, self._program.wait()) from None
        succeeded, value = pickle.loads(self._read(HEAD.unpack(self._read(4))[0]))
        if not succeeded:
            raise OSError(value)
        return value

    def _read(self, size: int) -> bytes:
        assert self._program.stdout is not None
        data = b""
        while len(data) < size:
            if not wait([self._program.stdout.fileno()], LIMIT_S):
                self._program.kill()  # or all later tests would wait for it as well
                self._program.wait()
                raise LibraryHangsError(
                    f"{self.name} has not answered in {LIMIT_S:g} s"
                )
            piece = self._program.stdout.read(size - len(data))
            if not piece:
                raise LibraryDiedError(self.name, self._program.wait())
            data += piece
        return data

    def open(self, kind: str = "bus", *, raw: bool = False, **options: float) -> int:
        """Open a socket; return its number."""
        number = self.call("open_socket", kind, raw, options)
        assert isinstance(number, int)
        return number

    def kill(self) -> None:
        """End the program as a fault would."""
        self._program.kill()
        self._end()

    def close(self) -> None:
        """End the program."""
        if self._program.stdin is not None:
            self._program.stdin.close()
        try:
            self._program.wait(LIMIT_S)
        finally:
            self.kill()

    def _end(self) -> None:
        self._program.wait()
        for pipe in (self._program.stdin, self._program.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def ended(self) -> bool:
        """True once the program has ended."""
        return self._program.poll() is not None


class ForeignPeer:
    """A socket of a foreign library; a `Peer`."""

    def __init__(
        self, owner: Library, kind: str, *, raw: bool, options: dict[str, float]
    ) -> None:
        self.owner: Final = owner
        self._number: Final = owner.open(kind, raw=raw, **options)

    @property
    def library(self) -> str:
        """The name of its library."""
        return self.owner.name

    def listen(self, url: str) -> str:
        """Listen; see `Peer`."""
        address = self.owner.call("listen", self._number, url)
        assert isinstance(address, str)
        return address

    def dial(self, url: str) -> None:
        """Dial; see `Peer`."""
        self.owner.call("dial", self._number, url)

    def send(self, data: bytes) -> None:
        """Send one message."""
        self.owner.call("send", self._number, data)

    def send_all(self, messages: Sequence[bytes]) -> None:
        """Send messages at once."""
        self.owner.call("send_all", self._number, messages)

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the next message, or None."""
        data = self.owner.call("receive", self._number, timeout_s)
        assert data is None or isinstance(data, bytes)
        return data

    def counters(self) -> dict[str, int]:
        """Return the statistics of the library."""
        counted: dict[str, int] = self.owner.call("counters", self._number)
        return counted

    def forward_to(self, other: Peer | None) -> None:
        """Make a device; see `Peer`."""
        assert other is None or isinstance(other, ForeignPeer)
        second = None if other is None else other._number
        self.owner.call("device", self._number, second)

    def close(self) -> None:
        """Close the socket."""
        self.owner.call("close", self._number)
