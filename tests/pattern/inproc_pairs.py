"""Two sockets with a connection in the process, for tests: no thread and no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus.pattern.inproc import InprocConnection

if TYPE_CHECKING:
    from bus.pattern.sp_socket import SpSocket

__all__ = ["connect"]


def connect(first: SpSocket[Any], second: SpSocket[Any]) -> InprocConnection:
    """Connect two sockets as a dialler and a listener of ``inproc`` do."""
    ends = [InprocConnection(each._node, lambda: None) for each in (first, second)]
    assert ends[0].join(ends[1], "inproc://test")
    return ends[0]
