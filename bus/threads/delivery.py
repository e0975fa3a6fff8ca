"""The items in a task's mailbox besides messages, such as answers and returns.

Only commands and notifications (`Incoming`) are on an account. An answer always finds
room, since each question has only one (BUS-FLOW-4).
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from bus.address import Address
from bus.core.local.actions import Reply
from bus.errors import BusError
from bus.message import Undelivered

__all__ = ["Answer", "Delivery", "RepeatedAnswer", "Returned", "answer_of"]


class Delivery(Protocol):
    """An item for a task's mailbox: an `Incoming`, an `Answer`, or another one.

    The latter has a method ``deliver``, which the receiver of the task calls with
    itself, in the thread that hosts the task.
    """

    _to: Any
    _account: Any
    _trace: Any


class Answer(msgspec.Struct, eq=False, kw_only=True):
    """The outcome of a question, for the asker.

    number: the number of the asker's question.
    responder: the address of the answering task; None if no task answered.
    payload, error: the answer, or the reason why there is none.
    final: False for one of several answers to a notification.
    _trace: the trace, as in a message.
    """

    _to: Any
    number: int
    responder: Address | None
    payload: Any = None
    error: BusError | None = None
    final: bool = True
    _account: None = None
    _trace: Any = None


class RepeatedAnswer(Answer, eq=False, kw_only=True):
    """The failure of a question, posted again after an interrupt of the first post.

    If the first one has arrived, this one has no effect and is not counted as late.
    """


class Returned(msgspec.Struct, eq=False, kw_only=True):
    """The return of an undeliverable command that requested no answer.

    handled: True once the callback is called. After an interrupt the same object may
      be posted again.
    """

    _to: Any
    undelivered: Undelivered
    handled: bool = False
    _account: None = None
    _trace: None = None

    def deliver(self, receiver: Any) -> None:
        """Call the callback of the task that sent the command."""
        receiver.delivery_failures.on_returned(self, receiver)


def answer_of(reply: Reply) -> Answer:
    """Return the answer for a local task from a reply received over a link."""
    return Answer(
        _to=reply.entry,
        number=reply.number,
        responder=reply.responder,
        payload=reply.payload,
        error=reply.error,
        final=reply.final,
        _trace=reply.trace,
    )
