"""The table of the frames that may be sent and received in each state of a connection.

It holds every transition. A received frame that the table lacks is a violation; a sent
one is a bug of ours. The state stays unchanged.
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
    ASKED = "asked"  # a HELLO arrived; no accept yet
    ASKING = "asking"  # a HELLO was sent
    OPEN = "open"
    LEFT = "left"  # this side has sent its GOODBYE, the peer has not yet
    DESERTED = "deserted"  # the peer has sent its GOODBYE, this side has not yet
    ENDED = "ended"


class Act(enum.Enum):
    """A frame sent (SAY) or received (HEAR)."""

    SAY_WELCOME = enum.auto()
    SAY_REFUSED = enum.auto()
    SAY_MESSAGES = enum.auto()
    SAY_CREDIT = enum.auto()
    SAY_GOODBYE = enum.auto()
    SAY_PING = enum.auto()
    SAY_PONG = enum.auto()
    HEAR_HELLO = enum.auto()
    HEAR_WELCOME = enum.auto()
    HEAR_REFUSED = enum.auto()
    HEAR_MESSAGES = enum.auto()
    HEAR_CREDIT = enum.auto()
    HEAR_GOODBYE = enum.auto()
    HEAR_PING = enum.auto()
    HEAR_PONG = enum.auto()


# By identity, as in `queuebroker.channel.status`: the hash of Enum is Python code.
State.__hash__ = object.__hash__  # type: ignore[method-assign]  # see above
Act.__hash__ = object.__hash__  # type: ignore[method-assign]  # see above

TRANSITIONS: Final[Mapping[tuple[State, Act], State]] = {
    (State.LISTENING, Act.HEAR_HELLO): State.ASKED,
    (State.LISTENING, Act.SAY_REFUSED): State.ENDED,
    (State.ASKED, Act.SAY_WELCOME): State.OPEN,
    (State.ASKED, Act.SAY_REFUSED): State.ENDED,
    (State.ASKED, Act.HEAR_GOODBYE): State.ENDED,  # the caller stopped waiting
    (State.ASKING, Act.HEAR_WELCOME): State.OPEN,
    (State.ASKING, Act.HEAR_REFUSED): State.ENDED,
    (State.ASKING, Act.SAY_GOODBYE): State.ENDED,
    (State.OPEN, Act.SAY_MESSAGES): State.OPEN,
    (State.OPEN, Act.HEAR_MESSAGES): State.OPEN,
    (State.OPEN, Act.SAY_CREDIT): State.OPEN,
    (State.OPEN, Act.HEAR_CREDIT): State.OPEN,
    (State.OPEN, Act.SAY_GOODBYE): State.LEFT,
    (State.OPEN, Act.HEAR_GOODBYE): State.DESERTED,
    (State.LEFT, Act.HEAR_MESSAGES): State.LEFT,  # sent before our GOODBYE arrived
    (State.LEFT, Act.HEAR_CREDIT): State.LEFT,
    (State.LEFT, Act.HEAR_GOODBYE): State.ENDED,
    (State.DESERTED, Act.SAY_CREDIT): State.DESERTED,
    (State.DESERTED, Act.SAY_GOODBYE): State.ENDED,
    **{
        (state, act): state
        for state in (State.ASKED, State.ASKING, State.OPEN, State.LEFT, State.DESERTED)
        for act in (Act.SAY_PING, Act.HEAR_PING, Act.SAY_PONG, Act.HEAR_PONG)
    },
}
