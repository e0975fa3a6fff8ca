"""The sockets of `bus.pattern` from asyncio: the same names, with ``await``.

::

    async with aio.wrap(socket) as bus:
        await bus.send(b"here I am")
        async for message in bus:
            ...

A face adds no rules, as those of `queuebroker.aio`: a coroutine sleeps instead of a
thread. So a socket and its face may be used at once, by tasks, loops and threads. No
socket needs a descriptor or a thread for this: a loop has one descriptor for all that
its coroutines wait for.

sp_socket       the common part of the faces
bus_socket, raw_bus_socket, pair_socket    the faces
wrapping        the face of a socket

Not imported by ``import bus.pattern``, so that only programs with asyncio load it.
"""

from __future__ import annotations

from bus.pattern.aio.bus_socket import BusSocket
from bus.pattern.aio.pair_socket import PairSocket
from bus.pattern.aio.raw_bus_socket import RawBusSocket
from bus.pattern.aio.wrapping import wrap

__all__ = ["BusSocket", "PairSocket", "RawBusSocket", "wrap"]
