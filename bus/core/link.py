"""`Link`: one link to another process, from the first greeting to its end.

Every state, and which frame may come in which, stands in the tables here. What the
frames mean is decided elsewhere.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bus.core.wire import FrameType, LinkKind
from bus.errors import WireError
from bus.rights import UNRESTRICTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.core.peer import Key, Peer
    from bus.core.wire import Identity
    from bus.rights import Credentials

__all__ = ["NEXT", "Link", "LinkState"]


class LinkState(enum.Enum):
    """How far the two ends have come to know one another."""

    DIALLED = "dialled"  # HELLO was sent
    ACCEPTED = "accepted"  # nothing has come
    OPENING = "opening"  # each knows who the other is, and OPEN_STREAM was sent
    OPEN = "open"


_ANY_LINK: Final = (
    *(FrameType.ADD_RELAY, FrameType.UNRELAY, FrameType.MSG, FrameType.ACK),
    *(FrameType.DESCRIPTOR, FrameType.RELEASE, FrameType.CONNECT_OFFER),
    *(FrameType.DISMISS, FrameType.DISMISSED, FrameType.GAP),
    *(FrameType.ERROR, FrameType.PING, FrameType.PONG, FrameType.BYE),
)
# Managers speak of what concerns others on signalling links alone (BUS-ENT-12).
_SIGNALLING: Final = (
    *(FrameType.EXPORT, FrameType.UNEXPORT, FrameType.SEARCH, FrameType.CANCEL),
    *(FrameType.ELIMINATE, FrameType.SUBSCRIBE, FrameType.UNSUBSCRIBE),
)

# What a frame that comes makes of a link; a pair that is not here is a violation.
NEXT: Final[Mapping[tuple[LinkState, FrameType], LinkState | None]] = MappingProxyType(
    {
        (LinkState.DIALLED, FrameType.WELCOME): LinkState.OPENING,
        (LinkState.DIALLED, FrameType.REFUSED): None,
        (LinkState.ACCEPTED, FrameType.HELLO): LinkState.OPENING,
        (LinkState.OPENING, FrameType.OPEN_STREAM): LinkState.OPEN,
        **{
            (LinkState.OPEN, each): LinkState.OPEN
            for each in (*_ANY_LINK, *_SIGNALLING)
        },
    }
)


class Link:
    """One end of a link.

    id: what the driver knows it by. kind: what it is for; None before that was said.
    dialled: whether this process made it. wanted: which process was dialled, if any
    one was meant.
    since: when it was made, in seconds.
    peer: who is at the other end, once that is known.
    credentials: what the system says of it, and what that may do.
    """

    __slots__ = (
        "credentials",
        "dialled",
        "id",
        "identity",
        "kind",
        "peer",
        "since",
        "state",
        "wanted",
    )

    def __init__(
        self,
        number: int,
        kind: LinkKind | None,
        now: float,
        wanted: Key | None = None,
        *,
        credentials: Credentials = UNRESTRICTED,
    ) -> None:
        self.id: Final = number
        self.kind = kind
        self.dialled: Final = kind is not None
        self.wanted: Final = wanted
        self.since: Final = now
        self.identity: Identity | None = None
        self.state: LinkState = (
            LinkState.DIALLED if self.dialled else LinkState.ACCEPTED
        )
        self.peer: Peer | None = None
        self.credentials: Final = credentials

    @property
    def who(self) -> str:
        """Who is at the other end, in words; what it says itself counts."""
        if self.identity is not None:
            return f"{self.identity.machine}/{self.identity.process}"
        if self.wanted is not None:
            return "/".join(self.wanted)
        return "somebody who has not greeted"

    def step(self, kind: FrameType) -> None:
        """Note which frame has come.

        Raises:
            WireError: it may not come now, or not on such a link; nothing is changed.
        """
        known = (self.state, kind) in NEXT
        wrong = kind in _SIGNALLING and self.kind is LinkKind.DATA
        if not known or wrong:
            which = "" if self.kind is None else f" on a {self.kind.value} link"
            msg = f"{kind.name} must not come{which} that is {self.state.value}"
            raise WireError(msg)
        self.state = NEXT[self.state, kind] or self.state

    def beats(self, other: Link, *, ours: bool) -> bool:
        """Whether this one is kept, and the other closed, between the same processes.

        ours: whether of the two processes this is the lower one. Both sides come to
        the same answer: signalling before data; then what the lower one dialled; of two
        that one side has dialled the newer, since it knows that the older is lost.
        """
        if self.kind is not other.kind:
            return self.kind is LinkKind.SIGNALLING
        if self.dialled is not other.dialled:
            return self.dialled is ours
        return self.id >= other.id
