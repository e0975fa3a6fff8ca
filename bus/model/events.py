"""The events that the bus reports to a journal: operations, and reasons of failures.

The numbers are those of the journal's records, above those of `queuebroker.observer`,
which knows nothing of the bus. `bus.journal.format` defines the fields of a record;
`bus.journal.bus_recorder` defines where and when each is written.
"""

from __future__ import annotations

import enum

__all__ = ["BusOperation", "BusReason"]


class BusOperation(enum.IntEnum):
    """The operation that a record reports."""

    REGISTER = 64  # a task took its name
    DEREGISTER = 65  # a task left
    MOVE = 66  # a task changed its thread
    SUBSCRIBE = 67  # a task is about to subscribe
    UNSUBSCRIBE = 68  # a subscription of a task has ended
    COMMAND = 72  # accepted: it is in a FIFO or a relay of this process
    RESPOND = 73  # likewise, an answer
    NOTIFY = 74  # likewise, a notification for one subscriber
    RELAY_OUT = 80  # put on a link
    RELAY_IN = 81  # read from a link
    EXTRACT = 84  # taken out of the FIFO of its receiver
    DELIVER = 85  # its callback begins
    DISCARD = 86  # will not be delivered; the sender is not informed
    UNDELIVERED = 87  # will not be delivered; the sender is informed
    IN_DOUBT = 88  # delivery cannot be determined; the sender is informed
    LINK_UP = 96  # another process became reachable
    LINK_DOWN = 97  # another process became unreachable; see `reason`


class BusReason(enum.IntEnum):
    """The reason why a message was not delivered, or a link went down."""

    UNRESOLVED = 64  # no task had the name in time
    UNREACHABLE = 65  # no link to its process
    ADDRESSEE_GONE = 66  # the addressee left before it took the message
    PROCESS_LOST = 67  # the addressee's process was lost
    EXPIRED = 68  # the message's deadline passed
    FULL = 69  # no room, and the policy refuses
    OLDEST = 70  # dropped for a newer one
    NEWEST = 71  # dropped for older ones
    CANCELLED = 72  # the sender withdrew it
    UNWANTED = 73  # an answer that no task waits for, a subscription that ended
    DENIED = 74  # the access list forbids it
    TOO_LONG = 75  # longer than the receiving process accepts
    LEFT = 80  # the other process left in order
    DIED = 81  # the other process certainly ended, without a farewell
    GIVEN_UP = 82  # it may live: it did not answer, or violated the protocol
