"""Frames about subscriptions, and about tasks that may be present.

The docstring of each frame names the clauses that need its fields.
"""

from __future__ import annotations

from bus.kernel.wire.codec import register
from bus.kernel.wire.frames import ControlFrame, FrameType, RequestEnd, RequestFrame
from bus.kernel.wire.parts import (  # read by `msgspec`
    U64,
    Characteristics,
    Overflow,
    Text,
    check_registration,
)
from bus.model.registration import RegistrationId
from bus.model.specification import Specification

__all__ = ["Subscribe", "Unexport", "Unsubscribe"]


class Unsubscribe(RequestEnd, frozen=True, kw_only=True):
    """The end of a subscription (AMO-26)."""

    type = FrameType.UNSUBSCRIBE


class Subscribe(RequestFrame, frozen=True, kw_only=True):
    """A task's subscription to the notifiers of a specification (BUS-RELAY-8).

    presence: True if the task only watches which of them are present; nothing is sent
      to it.
    specification: as `Specification.parse` reads it (OPEN-16).
    subscriber: the data from which the subscriber's relay is made.
    overflow: policy for notifications that exceed its capacity (BUS-FLOW-6).
    confirm: the number of the PONG to send once all processes have received it; 0 for
      none.
    """

    type = FrameType.SUBSCRIBE
    end = Unsubscribe
    specification: Text
    subscriber: Characteristics
    overflow: Overflow = "drop-oldest"
    presence: bool = False
    confirm: U64 = 0

    def __post_init__(self) -> None:
        Specification.parse(self.specification)


class Unexport(ControlFrame, frozen=True, kw_only=True):
    """Withdrawal of a task that may live: of another machine, by the master."""

    type = FrameType.UNEXPORT
    id: RegistrationId

    def __post_init__(self) -> None:
        check_registration(self.id)


register(Subscribe, Unsubscribe, Unexport)
