"""What goes into the FIFO of a task beside messages: answers, and news.

Only commands and notifications (`Incoming`) are on an account. An answer always finds
room, since there is one for each question (BUS-FLOW-4); news are one for each event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from bus.message import Incoming

if TYPE_CHECKING:
    from bus.address import Address
    from bus.core.actions import Reply
    from bus.errors import BusError
    from bus.message import Presence, Undelivered

__all__ = ["Answer", "Delivery", "News", "Returned", "answer_of"]


class Answer(msgspec.Struct, eq=False, kw_only=True):
    """What came of a question, for who asked it.

    number: which of the asker's waits it belongs to.
    responder: who answered, or was asked.
    final: False for one of several answers to a notification.
    _trace: as that of a message.
    """

    _to: Any
    number: int
    responder: Address | None
    payload: Any = None
    error: BusError | None = None
    final: bool = True
    _account: None = None
    _trace: Any = None


class News(msgspec.Struct, eq=False, kw_only=True):
    """That somebody who is watched appeared, or is gone."""

    _to: Any
    watch: Any
    presence: Presence
    _account: None = None
    _trace: None = None


class Returned(msgspec.Struct, eq=False, kw_only=True):
    """That what was sent without a question reaches nobody."""

    _to: Any
    undelivered: Undelivered
    _account: None = None
    _trace: None = None


Delivery = Incoming | Answer | News | Returned


def answer_of(reply: Reply) -> Answer:
    """Return what a task here gets of an answer that came over a link."""
    return Answer(
        _to=reply.entry,
        number=reply.number,
        responder=reply.responder,
        payload=reply.payload,
        error=reply.error,
        final=reply.final,
        _trace=reply.trace,
    )
