"""The table of the frames that may be sent and received in each state of a connection.

It holds every transition. A received frame that the table lacks is a violation; a sent
one is a bug of this library. The state stays unchanged.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TRANSITIONS", "Act", "State"]


class State(enum.Enum):
    """The state of a connection, seen from one of its sides."""

    LISTENING = "listening"  # for a HELLO
    HELLO_RECEIVED = "hello received"  # no accept yet
    HELLO_SENT = "hello sent"
    OPEN = "open"
    LEFT = "left"  # this side has sent its GOODBYE, the peer has not yet
    PEER_LEFT = "peer left"  # the peer has sent its GOODBYE, this side has not yet
    ENDED = "ended"


class Act(enum.Enum):
    """The sending, or the receipt, of a frame of one type."""

    SEND_WELCOME = enum.auto()
    SEND_REFUSED = enum.auto()
    SEND_MESSAGES = enum.auto()
    SEND_CREDIT = enum.auto()
    SEND_GOODBYE = enum.auto()
    SEND_PING = enum.auto()
    SEND_PONG = enum.auto()
    RECEIVE_HELLO = enum.auto()
    RECEIVE_WELCOME = enum.auto()
    RECEIVE_REFUSED = enum.auto()
    RECEIVE_MESSAGES = enum.auto()
    RECEIVE_CREDIT = enum.auto()
    RECEIVE_GOODBYE = enum.auto()
    RECEIVE_PING = enum.auto()
    RECEIVE_PONG = enum.auto()


# By identity, as in `queuebroker.channel.status`: the hash of Enum is Python code.
State.__hash__ = object.__hash__  # type: ignore[method-assign]  # see above
Act.__hash__ = object.__hash__  # type: ignore[method-assign]  # see above

TRANSITIONS: Final[Mapping[tuple[State, Act], State]] = {
    (State.LISTENING, Act.RECEIVE_HELLO): State.HELLO_RECEIVED,
    (State.LISTENING, Act.SEND_REFUSED): State.ENDED,
    (State.HELLO_RECEIVED, Act.SEND_WELCOME): State.OPEN,
    (State.HELLO_RECEIVED, Act.SEND_REFUSED): State.ENDED,
    (
        State.HELLO_RECEIVED,
        Act.RECEIVE_GOODBYE,
    ): State.ENDED,  # the caller stopped waiting
    (State.HELLO_SENT, Act.RECEIVE_WELCOME): State.OPEN,
    (State.HELLO_SENT, Act.RECEIVE_REFUSED): State.ENDED,
    (State.HELLO_SENT, Act.SEND_GOODBYE): State.ENDED,
    (State.OPEN, Act.SEND_MESSAGES): State.OPEN,
    (State.OPEN, Act.RECEIVE_MESSAGES): State.OPEN,
    (State.OPEN, Act.SEND_CREDIT): State.OPEN,
    (State.OPEN, Act.RECEIVE_CREDIT): State.OPEN,
    (State.OPEN, Act.SEND_GOODBYE): State.LEFT,
    (State.OPEN, Act.RECEIVE_GOODBYE): State.PEER_LEFT,
    (State.LEFT, Act.RECEIVE_MESSAGES): State.LEFT,  # sent before our GOODBYE arrived
    (State.LEFT, Act.RECEIVE_CREDIT): State.LEFT,
    (State.LEFT, Act.RECEIVE_GOODBYE): State.ENDED,
    (State.PEER_LEFT, Act.SEND_CREDIT): State.PEER_LEFT,
    (State.PEER_LEFT, Act.SEND_GOODBYE): State.ENDED,
    **{
        (state, act): state
        for state in (
            State.HELLO_RECEIVED,
            State.HELLO_SENT,
            State.OPEN,
            State.LEFT,
            State.PEER_LEFT,
        )
        for act in (Act.SEND_PING, Act.RECEIVE_PING, Act.SEND_PONG, Act.RECEIVE_PONG)
    },
}
