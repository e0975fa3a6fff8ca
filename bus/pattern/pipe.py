"""`Pipe`: one connection of a socket, as the socket sees it."""

from __future__ import annotations

import itertools
import secrets
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, Protocol

import attrs

from bus.pattern.drop_reason import DropReason
from bus.pattern.message_run import MessageRun
from bus.pattern.native import ReceiverAccount, SenderAccount
from bus.pattern.send_queue import SendQueue
from queuebroker.sockets.quick_sends import FlushSoon

__all__ = ["Carrier", "PeerStats", "Pipe", "new_node_id"]

_IDS: Final = 1 << 31
# Process-wide, so that a tag names no connection of another socket (BP-10).
_ids: Final = itertools.count(1 + secrets.randbelow(_IDS - 1))


class Carrier(Protocol):
    """The transport of one pipe."""

    def put(self, run: MessageRun) -> int:
        """Queue messages, as many as there is room for; return how many.

        Under the node's lock.
        """

    @property
    def queue(self) -> SendQueue[Any]:
        """The messages that wait to be sent."""

    @property
    def flush_soon(self) -> FlushSoon | None:
        """Has another thread call a function soon, which flushes the queue.

        None if many messages at once are no faster than one by one.
        """

    @property
    def is_idle(self) -> bool:
        """True if nothing waits to be sent, not even the rest of a message.

        If a native peer sends its account by itself, that must have confirmed the rest.
        """

    def report(self) -> None:
        """Send the account of this end soon; for any thread."""

    def ask(self) -> None:
        """Ask a native peer to confirm the messages sent, if it must be asked.

        For any thread, without a lock.
        """

    def refresh(self) -> None:
        """Fetch the account of the peer, if that takes no time; without a lock."""

    def resume(self) -> None:
        """Take in messages again: see `Node.pauses`. Without a lock."""

    def close(self) -> None:
        """End the connection; messages that wait are dropped. For any thread."""


@attrs.frozen(kw_only=True)
class PeerStats:
    """The account of one connection; totals since it began.

    ``sent`` equals the messages queued here, those in ``dropped`` with the reasons of a
    sender, and those that reached the peer. For a native peer, ``remote_taken`` counts
    these: delivered, queued or dropped there.

    pipe: its id (BP-10).
    url: the address of the peer, as far as it is known.
    is_native: True for a socket of this package.
    node: the node id of a native peer; None otherwise.
    is_standby: True if another connection to the same node carries the messages.
    sent: messages of this socket that were meant for the peer.
    queued: those that wait to be sent, or that the system has not taken whole.
    arrived: messages from the peer.
    delivered: those that the application has taken.
    dropped: by reason, in both directions.
    remote_sent: how many messages a native peer meant for this socket, and how many of
      these it dropped; None before its first account.
    remote_taken: the account of a native peer of the messages that arrived there.
    """

    pipe: int
    url: str
    is_native: bool
    node: int | None
    is_standby: bool
    sent: int
    queued: int
    arrived: int
    delivered: int
    dropped: Mapping[DropReason, int]
    remote_sent: SenderAccount | None
    remote_taken: ReceiverAccount | None


class Pipe:
    """One connection of a socket; its fields are guarded by the lock of the node.

    id: of 31 bits, never 0; unique among all sockets of the process (BP-10).
    url: the address of the peer.
    node: the node id of a native peer; None for a peer of another library.
    origin: stands for a peer of another library as the origin of its messages.
    """

    __slots__ = (
        "arrived",
        "carrier",
        "delivered",
        "dropped",
        "id",
        "is_paused",
        "is_report_due",
        "is_standby",
        "node",
        "origin",
        "remote_sent",
        "remote_taken",
        "sent",
        "url",
    )

    def __init__(self, carrier: Carrier, url: str, node: int | None) -> None:
        self.id: Final = next(_ids) % _IDS or next(_ids) % _IDS
        self.carrier: Final = carrier
        self.url: Final = url
        self.node: Final = node
        self.origin: Final = new_node_id() if node is None else node
        self.is_standby: bool = False
        self.is_paused: bool = False  # its carrier takes in nothing: `Node.pauses`
        self.is_report_due: bool = False  # its carrier sends the accounts soon
        self.sent: int = 0
        self.arrived: int = 0
        self.delivered: int = 0
        self.dropped: Final[defaultdict[DropReason, int]] = defaultdict(int)
        self.remote_sent: SenderAccount | None = None
        self.remote_taken: ReceiverAccount | None = None

    def report_soon_locked(self) -> None:
        """Have the accounts of this end sent to a native peer soon."""
        if self.node is not None and not self.is_report_due:
            # In this order: an interrupt in between must not leave a report due that
            # nobody sends.
            self.carrier.report()
            self.is_report_due = True

    def note_account_locked(self, account: SenderAccount | ReceiverAccount) -> None:
        """Keep an account of a native peer."""
        if isinstance(account, SenderAccount):
            self.remote_sent = account
        else:
            self.remote_taken = account

    def accounts_locked(self, delivered: int) -> tuple[SenderAccount, ReceiverAccount]:
        """Return the accounts of this end for a native peer.

        delivered: how many messages from it the application has taken.
        """
        dropped = self.dropped.get
        return SenderAccount(self.sent, self.dropped_unsent), ReceiverAccount(
            self.arrived,
            delivered,
            dropped(DropReason.RECEIVE_QUEUE, 0) + dropped(DropReason.CLOSED, 0),
            dropped(DropReason.DUPLICATE, 0),
        )

    @property
    def has_arrived(self) -> bool:
        """True if the account of a native peer confirms all messages to it."""
        arrived = 0 if self.remote_taken is None else self.remote_taken.arrived
        # Not by `sent`: it counts a message, too, whose send was interrupted.
        return arrived >= self.carrier.queue.messages_put

    @property
    def queued_or_dropped(self) -> int:
        """The number of messages to the peer that were queued, or dropped here.

        It equals ``sent``, unless a send is under way, or was interrupted.
        """
        return self.carrier.queue.messages_put + self.dropped_unsent

    @property
    def dropped_unsent(self) -> int:
        """The number of messages to the peer that were dropped here."""
        dropped = self.dropped.get
        return dropped(DropReason.SEND_QUEUE, 0) + dropped(DropReason.TOO_LONG, 0)

    def stats(self, delivered: int) -> PeerStats:
        """Return the account of this connection.

        delivered: how many messages from it the application has taken.
        """
        return PeerStats(
            pipe=self.id,
            url=self.url,
            is_native=self.node is not None,
            node=self.node,
            is_standby=self.is_standby,
            sent=self.sent,
            queued=len(self.carrier.queue),
            arrived=self.arrived,
            delivered=delivered,
            dropped=dict(self.dropped),
            remote_sent=self.remote_sent,
            remote_taken=self.remote_taken,
        )


def new_node_id() -> int:
    """Return a random node id of 64 bits, not 0."""
    return 1 + secrets.randbelow((1 << 64) - 1)
