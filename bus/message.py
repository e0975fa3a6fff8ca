"""What tasks say to one another: four kinds of message, as a callback gets them.

A message is made once for each addressee, by its sender, and is itself what the
addressee's callback gets. Fields that begin with an underscore belong to the bus; the
user may read the rest.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

if TYPE_CHECKING:
    from bus.address import Address
    from bus.errors import BusError
    from bus.payload import Payload

__all__ = [
    "NOREPLY",
    "Incoming",
    "Kind",
    "NoReply",
    "Presence",
    "Response",
    "Undelivered",
]


class Kind(enum.IntEnum):
    """The four kinds of message (BUS-MSG-1)."""

    COMMAND = 1
    COMMAND_RESPONSE = 2
    NOTIFICATION = 3
    NOTIFICATION_RESPONSE = 4


class NoReply(enum.Enum):
    """The type of `NOREPLY`: what a callback returns that answers later."""

    NOREPLY = enum.auto()


NOREPLY: Final = NoReply.NOREPLY


class Incoming(msgspec.Struct, eq=False):
    """A command or a notification, as its callback gets it (BUS-MSG-3).

    kind: `Kind.COMMAND` or `Kind.NOTIFICATION`.
    payload: the payload that was sent: lists arrive as tuples, maps as dicts. A dict is
      the receiver's own; a change of it does not affect the sender or other receivers.
    reference: what the receiver gave along with its callback.
    gap: how many notifications were dropped between the last one and this (BUS-FLOW-3).
    subscriptions: those that this notification answers to, in the order they were made
      (AMO-28); empty for a command.
    wants_reply: whether anybody waits for an answer.
    """

    # In this order, so that what is made most is made by position, which is quicker.
    kind: Kind
    payload: Any  # of what types says `bus.payload`; nobody would check each use
    reference: Any = None
    # By whom it was sent, as a routing entry: answers go there, whatever its name.
    _source: Any = None
    # To whom, once that was found, as one, too.
    _to: Any = None
    # Whose capacity it takes while it is unread, and how many bytes of it.
    _account: Any = None
    _size: int = 0
    # Not worth delivering after that, on the monotonic clock in seconds.
    _deadline: float | None = None
    # Whom to tell that it was taken, if it came from another process, and its number.
    _receipt: Any = None
    _number: int = 0
    # Which of the sender's waits an answer belongs to.
    _id: int = 0
    # To whom, by the name as sent.
    _name: str | None = None
    gap: int = 0
    subscriptions: tuple[Any, ...] = ()
    wants_reply: bool = False
    # What became of it: dropped while it lay unread; answered already.
    _dropped: bool = False
    _answered: bool = False
    # What a journal is told of it; None where nothing is recorded.
    _trace: Any = None

    @property
    def sender(self) -> Address:
        """Who sent it, private or not."""
        address: Address = self._source.address
        return address

    def view(self) -> memoryview:
        """Return a read-only view of a payload of bytes (BUS-MSG-16).

        Raises:
            TypeError: the payload is no bytes.
        """
        if not isinstance(self.payload, bytes):
            kind = type(self.payload).__name__
            msg = f"cannot view: the payload is no bytes but {kind}"
            raise TypeError(msg)
        return memoryview(self.payload)

    def respond(self, payload: Payload = None, *, error: str | None = None) -> None:
        """Answer it, now or later, in the thread of the task that got it (BUS-MSG-6).

        error: say that it failed, and why; the asker gets a `RemoteError`. What of it
          cannot be sent is written as an escape, and it is cut at 16 KiB.

        Raises:
            AlreadyAnsweredError: this task has answered it before (BUS-MSG-7).
            UnreachableError: it came over another bus, from another process.
            PayloadError, MessageTooLargeError: as `Task.command`.
        """
        self._to.box.client.respond(self, payload, error=error)


class Response(msgspec.Struct, frozen=True):
    """One outcome of a command for one addressee, or one answer to a notification.

    responder: who answered, or was asked; None when a notification's time is up.
    payload: the answer; for the end of a notification, how many have answered.
    error: why there is no answer.
    reference: what the asker gave along with its callback.
    final: whether nothing more comes from this addressee.
    """

    responder: Address | None
    payload: Any
    error: BusError | None = None
    reference: Any = None
    final: bool = True


@attrs.frozen
class Undelivered:
    """A message that nobody gets, and that its sender expects no answer to.

    to: whom it was for, by the name as sent.
    payload: what was sent.
    error: why; `UnresolvedError`, `AddresseeGoneError`, `ExpiredError` and so on.
    """

    to: str
    payload: Payload
    error: BusError


@attrs.frozen
class Presence:
    """A task that is watched appeared, or is gone.

    address: whose.
    here: True when it appeared, False when it is gone.
    reference: what the watcher gave along with its callback.
    """

    address: Address
    here: bool
    reference: Any = None
