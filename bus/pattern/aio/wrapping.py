"""`wrap`: the face of a socket for coroutines."""

from __future__ import annotations

from typing import overload

from bus.pattern import bus_socket, pair_socket, raw_bus_socket
from bus.pattern.aio.bus_socket import BusSocket
from bus.pattern.aio.pair_socket import PairSocket
from bus.pattern.aio.raw_bus_socket import RawBusSocket
from queuebroker.arguments import wrong_type

__all__ = ["wrap"]


@overload
def wrap(socket: bus_socket.BusSocket) -> BusSocket: ...
@overload
def wrap(socket: raw_bus_socket.RawBusSocket) -> RawBusSocket: ...
@overload
def wrap(socket: pair_socket.PairSocket) -> PairSocket: ...
def wrap(socket: object) -> BusSocket | RawBusSocket | PairSocket:
    """Return the face of a socket; both may be used at once.

    Raises:
        TypeError: it is no socket of `bus.pattern`.
    """
    if isinstance(socket, bus_socket.BusSocket):
        return BusSocket(socket)
    if isinstance(socket, raw_bus_socket.RawBusSocket):
        return RawBusSocket(socket)
    if isinstance(socket, pair_socket.PairSocket):
        return PairSocket(socket)
    raise wrong_type(
        "socket to wrap", "a BusSocket, a RawBusSocket or a PairSocket", socket
    )
