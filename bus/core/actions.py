"""What a process manager wants done: it decides, others do it (design, section 3).

Actions are done in order, after the manager's lock was let go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.address import Address
    from bus.core.command_run import CommandRun
    from bus.core.peer import Key
    from bus.core.routing_table import Entry
    from bus.core.trace import Trace
    from bus.core.wire import Frame, LinkKind
    from bus.errors import BusError
    from bus.message import Incoming, Presence

__all__ = [
    "Action",
    "Confirm",
    "Dial",
    "Evict",
    "Fail",
    "HangUp",
    "Open",
    "Post",
    "Reply",
    "Resume",
    "Send",
    "Settled",
    "Tell",
    "Vacate",
]


@attrs.frozen
class Open:
    """Let a new registration receive: first what waited for its name, in order.

    Until then what is posted to it waits in its box, so that nothing overtakes.
    """

    entry: Entry
    messages: tuple[Incoming, ...]


@attrs.frozen
class Tell:
    """Tell a task that somebody it watches appeared, or is gone."""

    entry: Entry
    watch: object
    presence: Presence


@attrs.frozen
class Fail:
    """Tell the sender of a message that nobody gets it, or that nobody knows."""

    message: Incoming
    error: BusError


# What only a process among others wants.


class Post(Struct, frozen=True):
    """Post to a task of this process messages that came over a link, in order."""

    entry: Entry
    messages: list[Incoming | CommandRun]


@attrs.frozen
class Resume:
    """Give a task of this process what came for it and is held back: it has room.

    No manager wants this; who holds messages back does, in its turn.
    """

    entry: Entry


class Reply(Struct, frozen=True):
    """Give a task of this process an answer that came over a link.

    number: which of its questions it belongs to. final: as in `bus.message.Response`.
    trace: what a journal is told of it; None if nothing.
    """

    entry: Entry
    number: int
    responder: Address
    payload: Any
    error: BusError | None
    final: bool
    trace: Trace | None = None


@attrs.frozen
class Vacate:
    """Take out what a relay has left, which can be found no more.

    Give it back by `ProcessManager.left`, before it what else is posted to the relay.
    """

    entry: Entry
    messages: tuple[Incoming, ...]
    final: bool = False


@attrs.frozen
class Evict:
    """Let a task leave, since its name belongs to somebody else (OPEN-3); tell it."""

    entry: Entry
    error: BusError


@attrs.frozen
class Confirm:
    """Tell a task that the master has nothing against its name (OPEN-3)."""

    entry: Entry


@attrs.frozen
class Settled:
    """Call the function that a thread left for the confirmation of its request."""

    tell: Callable[[], object]


class Send(Struct, frozen=True):
    """Put a frame on a link, behind all that were put there before."""

    link: int
    frame: Frame


@attrs.frozen
class Dial:
    """Make a link; say `Neighbourhood.dialled` or `Neighbourhood.dial_failed`.

    key: the process that is meant; without a name it is whoever is master there.
    """

    key: Key
    kind: LinkKind
    addresses: tuple[str, ...]


@attrs.frozen
class HangUp:
    """Close a link, behind all that was sent on it; nobody is to be told."""

    link: int


Action = (
    Open
    | Tell
    | Fail
    | Post
    | Resume
    | Reply
    | Vacate
    | Evict
    | Confirm
    | Settled
    | Send
    | Dial
    | HangUp
)
