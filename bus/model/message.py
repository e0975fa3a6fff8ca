"""The messages between tasks: four kinds, in the form that callbacks receive.

The sender makes one message for each addressee, and this very object is passed to the
addressee's callback. Fields that begin with an underscore belong to the bus; the user
may read the rest.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar, Final

import msgspec

from bus.errors import BusError
from bus.model.address import Address
from bus.model.payload import Payload
from queuebroker.closable import Uncopyable

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
    """The type of `NOREPLY`: returned by a callback that answers later."""

    NOREPLY = enum.auto()


NOREPLY: Final = NoReply.NOREPLY


class Incoming(Uncopyable, msgspec.Struct, eq=False):
    """A command or a notification, as its callback receives it (BUS-MSG-3).

    kind: `Kind.COMMAND` or `Kind.NOTIFICATION`.
    payload: the payload that was sent: lists arrive as tuples, maps as dicts, arrays as
      read-only views. A dict is the receiver's own; changing it does not affect the
      sender or other receivers.
    reference: the object that the receiver gave along with its callback.
    gap: how many notifications were dropped between the previous one and this one
      (BUS-FLOW-3).
    subscriptions: the subscriptions that this notification matches, in the order they
      were made (AMO-28); empty for a command.
    wants_reply: True if the sender waits for an answer.
    """

    _in_place_of_copy: ClassVar[str] = "pass on its payload"

    # Ordered so that the most frequent kind is built by position, which is faster.
    kind: Kind
    payload: (
        Any  # a `bus.model.payload.Payload`; that type would demand a check at each use
    )
    reference: Any = None
    # The sender, as a routing entry: answers go there, regardless of its name.
    _source: Any = None
    # The addressee, as a routing entry, once it is resolved.
    _to: Any = None
    # The account that it occupies while unread, and its size there in bytes.
    _account: Any = None
    _size: int = 0
    # Not worth delivering after this time, on the monotonic clock in seconds.
    _deadline: float | None = None
    # If it came from another process: where to acknowledge it, and its number.
    _receipt: Any = None
    _number: int = 0
    # Identifies the sender's wait that an answer belongs to.
    _id: int = 0
    # The addressee, by the name as sent.
    _name: str | None = None
    gap: int = 0
    subscriptions: tuple[Any, ...] = ()
    wants_reply: bool = False
    # Its outcome: dropped while unread; already answered.
    _dropped: bool = False
    _answered: bool = False
    # The facts that a journal records of it; None if nothing is recorded.
    _trace: Any = None
    # How often it has followed its addressee to another machine.
    _moves: int = 0
    # The report of its failure that its sender gets, or the `MovedError` that it
    # follows; None before. After an interrupt it shows the report begun.
    _report: Any = None

    @property
    def sender(self) -> Address:
        """The address of the sender, private or not."""
        address: Address = self._source.address
        return address

    def view(self) -> memoryview:
        """Return a read-only view of a payload of bytes or of an array (BUS-MSG-16).

        The caller may release it; the payload stays.

        Raises:
            TypeError: the payload is neither.
            ValueError: the payload is a view that was released.
        """
        if not isinstance(self.payload, (bytes, memoryview)):
            kind = type(self.payload).__name__
            msg = f"cannot view: the payload is not bytes or an array but {kind}"
            raise TypeError(msg)
        return memoryview(self.payload).toreadonly()

    def release(self) -> None:
        """End the use of a payload in shared memory, before its last view ends.

        It is for a long payload, which is a view (MC-35); any other is not affected.
        Later uses of the payload raise a `ValueError`. Slices and arrays made from it
        are views of their own: the memory is used again after the last of them.

        Raises:
            BufferError: an object that is no view uses the payload just now.
        """
        if isinstance(self.payload, memoryview):
            self.payload.release()

    def respond(self, payload: Any = None, *, error: str | None = None) -> None:
        """Answer it, now or later, in the thread of the receiving task (BUS-MSG-6).

        error: report a failure, with its reason; the sender gets a `RemoteError`.
          Characters that cannot be sent are escaped, and the text is cut at 16 KiB.

        Raises:
            AlreadyAnsweredError: this task has already answered it (BUS-MSG-7).
            NotJoinedError: it came over another bus, from another process, and this
              process has left that bus.
            PayloadError, MessageTooLargeError: as `Task.command`.
        """
        self._to.mailbox.client.respond(self, payload, error=error)


class Response(msgspec.Struct, frozen=True):
    """One outcome of a command for one addressee, or one answer to a notification.

    responder: the task that answered, or was to answer; None when the time of a
      notification is up.
    payload: the answer; at the end of a notification, the number of answers.
    error: the reason why there is no answer.
    reference: the object that the sender gave along with its callback.
    final: True if nothing more comes from this addressee.
    """

    responder: Address | None
    payload: Any
    error: BusError | None = None
    reference: Any = None
    final: bool = True


class Undelivered(msgspec.Struct, frozen=True):
    """A message that was not delivered, and to which its sender expects no answer.

    to: the addressee, by the name as sent.
    payload: the payload that was sent.
    error: the reason; `UnresolvedError`, `AddresseeGoneError`, `ExpiredError` or such.
    """

    to: str
    payload: Payload
    error: BusError


class Presence(msgspec.Struct, frozen=True):
    """A watched task appeared or left.

    address: the address of the task.
    here: True if it appeared, False if it left.
    reference: the object that the watcher gave along with its callback.
    """

    address: Address
    here: bool
    reference: Any = None
