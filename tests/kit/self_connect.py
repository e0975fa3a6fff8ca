"""A socket that dials a free port, and that the system gives this very port."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

from queuebroker import _net

if TYPE_CHECKING:
    import pytest

__all__ = ["self_connecting_port"]

_HOST: Final = "127.0.0.1"


def self_connecting_port(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return a free port of 127.0.0.1; a socket that dials it connects to itself.

    The system draws the port of a dialling socket from a range, and rarely draws the
    one that is dialled. Here it always does.
    """
    free = _net.unused_port(_HOST)

    class SelfConnecting(socket.socket):
        def connect_ex(self, address: Any, /) -> int:
            if address[1] == free:
                self.bind((_HOST, free))
            return super().connect_ex(address)

    monkeypatch.setattr(socket, "socket", SelfConnecting)
    return free
