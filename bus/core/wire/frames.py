"""`ControlFrame`: the frames between managers, each type with a number (BUS-WIRE-2).

Each type has a struct of the same name in `link_frames`, `task_frames`, `stream_frames`
or `memory_frames`. Keys may be added to a struct, with a default; an existing key keeps
its meaning. MSG, the frame of messages, is in `batch`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from bus.core.wire.parts import Part

__all__ = ["ControlFrame", "FrameType"]


class FrameType(IntEnum):
    """The first byte of a frame; its top bit is `OPTIONAL` (BUS-WIRE-3)."""

    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    OPEN_STREAM = 4
    EXPORT = 5
    UNEXPORT = 6
    SEARCH = 7
    CANCEL = 8
    ADD_RELAY = 9
    UNRELAY = 10
    ELIMINATE = 11
    SUBSCRIBE = 12
    UNSUBSCRIBE = 13
    MSG = 14
    ACK = 15
    RELEASE = 17
    CONNECT_OFFER = 18
    ERROR = 19
    PING = 20
    PONG = 21
    BYE = 22
    DISMISS = 23
    DISMISSED = 24
    GAP = 25
    SLAB_ANSWER = 26
    CLOSE_SLAB = 27
    # Skipped by older code, which then gets no message in shared memory.
    OFFER_SLAB = 0x80 + 16


class ControlFrame(Part, frozen=True):
    """Any frame except MSG."""

    type: ClassVar[FrameType]
