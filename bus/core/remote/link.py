"""`Link`: one link to another process, from the handshake to its end.

The tables here list every state, and the frames that may arrive in it. Other modules
decide what the frames mean.
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

    from bus.core.peer.peer import Peer
    from bus.core.wire import Identity
    from bus.registration import Key
    from bus.rights import Credentials

__all__ = ["NEXT", "Link", "LinkState"]


class LinkState(enum.Enum):
    """The progress of the handshake between the two ends."""

    DIALLED = "dialled"  # HELLO was sent
    ACCEPTED = "accepted"  # no frame has arrived
    OPENING = "opening"  # both identities are known, and OPEN_STREAM was sent
    OPEN = "open"


_ANY_LINK: Final = (
    *(FrameType.ADD_RELAY, FrameType.UNRELAY, FrameType.MSG, FrameType.ACK),
    *(FrameType.OFFER_SLAB, FrameType.SLAB_ANSWER, FrameType.CLOSE_SLAB),
    *(FrameType.RELEASE, FrameType.CONNECT_OFFER),
    *(FrameType.DISMISS, FrameType.DISMISSED, FrameType.GAP),
    *(FrameType.ERROR, FrameType.PING, FrameType.PONG, FrameType.BYE),
)
# Frames about other processes travel on signalling links alone (BUS-ENT-12).
_SIGNALLING: Final = (
    *(FrameType.EXPORT, FrameType.UNEXPORT, FrameType.SEARCH, FrameType.CANCEL),
    *(FrameType.ELIMINATE, FrameType.SUBSCRIBE, FrameType.UNSUBSCRIBE),
)

# The next state of a link, by its state and the frame that arrives. A pair that is
# missing is a violation.
NEXT: Final[Mapping[tuple[LinkState, FrameType], LinkState | None]] = MappingProxyType(
    {
        (LinkState.DIALLED, FrameType.WELCOME): LinkState.OPENING,
        (LinkState.DIALLED, FrameType.REFUSED): None,
        (LinkState.ACCEPTED, FrameType.HELLO): LinkState.OPENING,
        (LinkState.OPENING, FrameType.OPEN_STREAM): LinkState.OPEN,
        # From a dialling side that objects to the machine of WELCOME (BUS-DISC-8).
        (LinkState.OPENING, FrameType.REFUSED): None,
        **{
            (LinkState.OPEN, each): LinkState.OPEN
            for each in (*_ANY_LINK, *_SIGNALLING)
        },
    }
)


class Link:
    """One end of a link.

    id: the number that the driver assigned.
    kind: its purpose; None until the peer has named it.
    dialled: True if this process dialled it.
    wanted: the process that was dialled, with an empty name for the master of a
      machine; None if the other end dialled.
    since: when it was made, in seconds.
    peer: the process at the other end, once it is known.
    credentials: those that the operating system reports of the peer, with its rights.
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
        """The name of the process at the other end; preferably as it states it."""
        if self.identity is not None:
            return f"{self.identity.machine}/{self.identity.process}"
        if self.wanted is not None:
            return "/".join(self.wanted)
        return "an unidentified peer"

    def step(self, kind: FrameType) -> None:
        """Advance to the next state on the arrival of a frame.

        Raises:
            WireError: the frame may not arrive now, or not on such a link; the state is
              kept.
        """
        known = (self.state, kind) in NEXT
        wrong = kind in _SIGNALLING and self.kind is LinkKind.DATA
        if not known or wrong:
            which = "link" if self.kind is None else f"{self.kind.value} link"
            msg = f"{kind.name} is not allowed on a {which} that is {self.state.value}"
            raise WireError(msg)
        self.state = NEXT[self.state, kind] or self.state

    def beats(self, other: Link, *, ours: bool) -> bool:
        """Return True if this link is kept, and ``other``, to the same process, closed.

        ours: True if this process is the lower of the two.

        Both sides get the same result. A signalling link beats a data link. Between two
        of a kind, the link that the lower process dialled is kept. If one side dialled
        both, the newer is kept, since that side knows that the older is lost.
        """
        if self.kind is not other.kind:
            return self.kind is LinkKind.SIGNALLING
        if self.dialled is not other.dialled:
            return self.dialled is ours
        return self.id >= other.id
