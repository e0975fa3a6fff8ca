"""What the bus tells a journal: its operations, and why something came to nothing.

The numbers are those of the journal's records, above those of
`queuebroker.observer`, which knows nothing of the bus. How a record is filled stands in
`bus.journal.format`; who tells what, and when, in `bus.journal.bus_recorder`.
"""

from __future__ import annotations

import enum

__all__ = ["BusOperation", "BusReason"]


class BusOperation(enum.IntEnum):
    """What happened."""

    REGISTER = 64  # a task took its name
    DEREGISTER = 65  # it left
    MOVE = 66  # it changed its thread
    COMMAND = 72  # accepted: it lies in a FIFO or a relay of this process
    RESPOND = 73  # likewise, an answer
    NOTIFY = 74  # likewise, a notification for one of those who hear it
    RELAY_OUT = 80  # put on a link
    RELAY_IN = 81  # read from a link
    EXTRACT = 84  # taken out of the FIFO of its receiver
    DELIVER = 85  # its callback begins
    DISCARD = 86  # will not be delivered; its sender is not told
    UNDELIVERED = 87  # will not be delivered; its sender is told
    IN_DOUBT = 88  # whether it is delivered, nobody will know; its sender is told
    LINK_UP = 96  # another process can be spoken with
    LINK_DOWN = 97  # it cannot any more; `reason` says why


class BusReason(enum.IntEnum):
    """Why a message came to nothing, or a link went down."""

    UNRESOLVED = 64  # nobody had the name in time
    UNREACHABLE = 65  # no link leads there
    ADDRESSEE_GONE = 66  # it left before it took the message
    PROCESS_LOST = 67  # its process was lost
    EXPIRED = 68  # the message's own time passed
    FULL = 69  # no room, and the policy refuses
    OLDEST = 70  # dropped for a newer one
    NEWEST = 71  # dropped for older ones
    CANCELLED = 72  # whoever sent it does not want it any more
    UNWANTED = 73  # an answer that nobody waits for, a subscription that ended
    DENIED = 74  # the access list forbids it
    TOO_LONG = 75  # longer than what its process takes
    LEFT = 80  # the other process left in order
    DIED = 81  # it is gone for certain: it ended without a farewell
    GIVEN_UP = 82  # it may live: it did not answer, or said what it must not
