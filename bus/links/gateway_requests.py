"""The requests to a gateway, on a port of their own, and the answer to them.

A link that a gateway forwards begins with one request on each part of its path:

process -> its own master         `DialOutside`  the address to dial
process, master -> other master   `DialInside`   the process of that machine
master -> process of its machine  `Vouch`        the machine of the first process

Each of them gets an `Answer`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

__all__ = [
    "NOT_TRUSTED",
    "NO_LIMIT",
    "Answer",
    "DialInside",
    "DialOutside",
    "GatewayRequest",
    "NotReachedError",
    "Vouch",
    "answer_in",
    "encode",
    "request_in",
]

NO_LIMIT: Final = 2**32 - 1  # of the length of a frame
NOT_TRUSTED: Final = (
    "the user of the process lacks full rights, which a gateway needs: grant them in "
    "BusConfig.access"
)


class DialOutside(msgspec.Struct, frozen=True, tag=True):
    """The request of a process to its own master: a link with an address."""

    address: str


class DialInside(msgspec.Struct, frozen=True, tag=True):
    """The request from another machine: a link with a process of this machine."""

    process: str


class Vouch(msgspec.Struct, frozen=True, tag=True):
    """The request of a master to a process of its machine: a link with another machine.

    machine: the other machine, as its certificate proves; "" without keys.
    """

    machine: str


class Answer(msgspec.Struct, frozen=True, tag=True):
    """The answer to a request; with an empty ``refusal`` the link is open.

    machine: the machine of the reached process, as its certificate proves; "" without
      keys.
    frame_bytes_max: the longest frame that every master on the path forwards.
    retry: True if a later request may succeed, such as after a takeover.
    """

    machine: str = ""
    frame_bytes_max: int = NO_LIMIT
    refusal: str = ""
    retry: bool = False


GatewayRequest: TypeAlias = DialOutside | DialInside | Vouch

encode: Final = msgspec.msgpack.encode
request_in: Final = msgspec.msgpack.Decoder(GatewayRequest).decode
answer_in: Final = msgspec.msgpack.Decoder(Answer).decode


class NotReachedError(PermissionError):
    """The process behind is not reached now; a later request may reach it."""
