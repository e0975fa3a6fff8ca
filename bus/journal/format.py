"""The journal's record: 80 bytes, with a single definition.

Writer, reader, both checkers and Spark take the layout from this module only. A record
is 80 bytes, little endian, every field on its natural boundary, so that the same bytes
are a `struct` and a numpy row. Never reorder fields: add a record version instead. This
module uses neither files nor threads; `header` defines the other half of the layout,
the head of a segment.

How the queue kinds (16 to 41, those of `queuebroker.observer`) fill the fields:

========  ==================================================================
flow      ``channel << 1 | direction``. `direction` is the side (0 acceptor,
          1 connector) that RECEIVES, for SEND, RECEIVE, DROP, RECV_*, WRITE
          and READ; the side that ACTS for all others. ``flow >> 1 == 0``: no
          channel yet.
seq       number of the message in its flow, from 1, given by the sender; 0: no
          message. For ACCEPT_*, CONNECT_*, REFUSE the ticket that joins a
          begin to its end; for WRITE and READ the bytes of the flow before.
mid       the port; 0 for BIND and UNBIND, which have none.
task      interned name of the broker on this side; 0: none, or not known.
peer      interned name of the broker on the other side; 0 likewise.
wait_us   how long the call was blocked, in microseconds, rounded down,
          saturating.
size      bytes of the message, saturating. depth: messages in the flow's
          buffer after the operation.
origin    0. flags: 0. hop: 0. These are the bus's.
========  ==================================================================

How the bus's kinds (from 64 on, `bus.model.events`) fill them; fields not named
are 0:

========  ==================================================================
flow      the destination: the number of a registration, or of a process for a
          notification on its way to all its subscribers there. In REGISTER,
          DEREGISTER, SUBSCRIBE and UNSUBSCRIBE, the registration itself.
origin    the number of the registration that sent it.
mid       number of the message at its origin; of an answer, that of the question;
          in SUBSCRIBE and UNSUBSCRIBE, of the subscription in its process.
flags     NOTIFICATION for a notification, ANSWER for an answer to anything;
          PAYLOAD, TRUNCATED, ERROR: see `Flag`.
seq       with PAYLOAD the location of the payload (`bus.journal.payload_file`).
hop       how many links it has crossed, including the one of this record.
size      bytes of the message, saturating; 0 if unknown.
task      in REGISTER the name that was taken; in SUBSCRIBE the name or pattern of
          the notifiers, without their machine.
========  ==================================================================

The channel half of `flow` has 62 bits. The highest one is 1 if the channel is a socket:
the other 61 are then the number that both ends have drawn together. Else they are a
random 30-bit base drawn per incarnation of a journal, then the process-wide number that
the observer is given, in 31 bits. The 2**31st channel of a process carries into the
base and takes numbers that are unlikely to be in use: a collision is then as improbable
as it was before. Two incarnations among k share a base with probability about k*k /
2**31. `flow` stays below 2**63, so that a signed column holds the same number.

How LINK_UP and LINK_DOWN fill them: `mid` is the other process as its system numbers
it, `task` its name, `peer` the machine as the journals of that process name it; the
rest is 0, except `reason`. A LINK_DOWN with the reason DIED records a death.

How the journal's own kinds fill them: OPEN and CLOCK carry wall-clock nanoseconds in
`origin` (an anchor together with `mono`). LOST carries in `seq` how many records, and
in `mid` how many payloads, were lost since the LOST before it. CLOSE is the last record
of a journal closed in order.
"""

from __future__ import annotations

import enum
import itertools
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bus.model.events import BusOperation
from queuebroker.observer import SHARED_CHANNELS, Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

__all__ = [
    "ACCEPTS",
    "CHANNEL_BITS",
    "COUNT_MAX",
    "FIELDS",
    "MARK_OFFSET",
    "RECORD",
    "RECORD_BYTES",
    "RECORD_VERSION",
    "SHARED_FLOWS",
    "Flag",
    "Record",
    "RecordKind",
    "dtype",
    "impossible_slots",
    "invalid_slots",
    "kind_name",
    "mark",
    "marks",
]

RECORD_VERSION: Final = 1
RECORD: Final = struct.Struct("<BBHIQqQQQQIIIIHBBI")
RECORD_BYTES: Final = RECORD.size
MARK_OFFSET: Final = 76
CHANNEL_BITS: Final = 31
SHARED_FLOWS: Final = 2 * SHARED_CHANNELS  # flows from here on are those of sockets
COUNT_MAX: Final = 2**62 - 1  # of `seq` and `mid`: signed columns can add to it

# (name, numpy code), in the order of RECORD. numpy's codes are kept beside the names
# because `struct` and numpy spell the same widths differently.
FIELDS: Final = (
    ("kind", "u1"),
    ("flags", "u1"),
    ("reason", "<u2"),
    ("size", "<u4"),
    ("n", "<u8"),
    ("mono", "<i8"),
    ("flow", "<u8"),
    ("seq", "<u8"),
    ("origin", "<u8"),
    ("mid", "<u8"),
    ("task", "<u4"),
    ("peer", "<u4"),
    ("wait_us", "<u4"),
    ("depth", "<u4"),
    ("thread", "<u2"),
    ("hop", "u1"),
    ("version", "u1"),
    ("mark", "<u4"),
)

_MARK_MODULUS: Final = 2**32 - 1
_MARK_SHIFT: Final = 0x51424A31

# How many marks are compared at a time, in C. The writer checks millions of slots while
# other threads wait for the interpreter.
_CHUNK_SLOTS: Final = 4096

# The offset of the top byte of a field in a record, and its possible values. The
# difference of two times between -2**61 and 2**61 fits 64 bits with room to add to it.
_TIMES: Final = bytes((*range(0x20), *range(0xE0, 0x100)))
_COUNTS: Final = bytes(range(0x40))  # `seq` and `mid` are below COUNT_MAX
_TOP_BYTES: Final = ((16 + 7, _TIMES), (32 + 7, _COUNTS), (48 + 7, _COUNTS))
_N_OFFSET: Final = 8


class RecordKind(enum.IntEnum):
    """The kind of a record. Below 16 the journal's own, from 64 on the bus's."""

    OPEN = 1
    CLOSE = 2
    CLOCK = 3
    LOST = 4

    BIND = Operation.BIND
    UNBIND = Operation.UNBIND
    ACCEPT_BEGIN = Operation.ACCEPT_BEGIN
    ACCEPT_END = Operation.ACCEPT_END
    CONNECT_BEGIN = Operation.CONNECT_BEGIN
    CONNECT_END = Operation.CONNECT_END
    REFUSE = Operation.REFUSE
    SEND = Operation.SEND
    RECEIVE = Operation.RECEIVE
    RECV_BEGIN = Operation.RECV_BEGIN
    RECV_END = Operation.RECV_END
    CLOSE_LOCAL = Operation.CLOSE_LOCAL
    CLOSE_SEEN = Operation.CLOSE_SEEN
    DROP = Operation.DROP
    WRITE = Operation.WRITE
    READ = Operation.READ

    REGISTER = BusOperation.REGISTER
    DEREGISTER = BusOperation.DEREGISTER
    MOVE = BusOperation.MOVE
    SUBSCRIBE = BusOperation.SUBSCRIBE
    UNSUBSCRIBE = BusOperation.UNSUBSCRIBE
    COMMAND = BusOperation.COMMAND
    RESPOND = BusOperation.RESPOND
    NOTIFY = BusOperation.NOTIFY
    RELAY_OUT = BusOperation.RELAY_OUT
    RELAY_IN = BusOperation.RELAY_IN
    EXTRACT = BusOperation.EXTRACT
    DELIVER = BusOperation.DELIVER
    DISCARD = BusOperation.DISCARD
    UNDELIVERED = BusOperation.UNDELIVERED
    IN_DOUBT = BusOperation.IN_DOUBT
    LINK_UP = BusOperation.LINK_UP
    LINK_DOWN = BusOperation.LINK_DOWN


# The kinds that accept a message; only these name payloads.
ACCEPTS: Final = frozenset(
    {int(RecordKind.COMMAND), int(RecordKind.RESPOND), int(RecordKind.NOTIFY)}
)


class Flag(enum.IntFlag):
    """Bits of `flags`. The queue kinds set none of them.

    PAYLOAD: the payload of the message is kept, at the location in `seq`.
    TRUNCATED: only its beginning is kept. ERROR: it is the text of an error, sent in
    place of an answer.

    A message of the bus is a command if it is neither NOTIFICATION nor ANSWER.
    """

    ERROR = 1
    REMOTE = 2
    NOTIFICATION = 4
    PAYLOAD = 8
    TRUNCATED = 16
    ANSWER = 32


class Record(NamedTuple):
    """One record, fields as in the module's table (a tuple: struct makes tuples)."""

    kind: int
    flags: int
    reason: int
    size: int
    n: int
    mono: int
    flow: int
    seq: int
    origin: int
    mid: int
    task: int
    peer: int
    wait_us: int
    depth: int
    thread: int
    hop: int
    version: int
    mark: int

    @property
    def port(self) -> int:
        """The port: the meaning of `mid` in a record of the queue kinds."""
        return self.mid


def mark(n: int) -> int:
    """Return the last four bytes of record ``n``: never 0, written last.

    A slot is valid if and only if its mark is that of the record number of the slot; an
    empty slot is all zero. Consecutive records have consecutive marks but for one wrap
    in 2**32 - 1, so a writer can count them in C.
    """
    return (n + _MARK_SHIFT) % _MARK_MODULUS + 1


def kind_name(kind: int) -> str:
    """Return the lower-case name of a kind, ``kind-77`` for an unknown one."""
    try:
        return RecordKind(kind).name.lower()
    except ValueError:
        return f"kind-{kind}"


def dtype() -> np.dtype[Any]:
    """Return the record as a numpy dtype of 80 bytes; imports numpy when called."""
    import numpy as np  # noqa: PLC0415 - importing bus.journal must not need numpy

    return np.dtype(list(FIELDS))


def invalid_slots(slots: memoryview, first_n: int, count: int) -> list[int]:
    """Return which of the first ``count`` slots lack the mark of their record.

    slots: bytes from slot 0 on, which is record ``first_n``.
    """
    if not count:
        return []
    words = slots[: count * RECORD_BYTES].cast("I")
    column = words[MARK_OFFSET // 4 :: RECORD_BYTES // 4]
    invalid: list[int] = []
    for start in range(0, count, _CHUNK_SLOTS):
        stop = min(start + _CHUNK_SLOTS, count)
        due = tuple(marks(first_n + start, stop - start))
        layout = f"<{stop - start}I"
        found = column[start:stop].tobytes()
        if found != struct.pack(layout, *due):
            pairs = zip(struct.unpack(layout, found), due, strict=True)
            invalid += [start + i for i, (is_, must) in enumerate(pairs) if is_ != must]
    return invalid


def impossible_slots(slots: memoryview, first_n: int, count: int) -> list[int]:
    """Return which of the first ``count`` slots hold impossible numbers.

    A slot with the mark of its record may still be damaged, and a segment without a
    seal has no checksum to detect it. The record number must be that of the slot;
    times, message numbers and ports must be within the range of later computations.
    All of this runs in C, as above.
    """
    body = slots[: count * RECORD_BYTES]
    impossible: set[int] = set()
    column = body.cast("Q")[_N_OFFSET // 8 :: RECORD_BYTES // 8]
    for start in range(0, count, _CHUNK_SLOTS):
        stop = min(start + _CHUNK_SLOTS, count)
        due = range(first_n + start, first_n + stop)
        found = column[start:stop].tobytes()
        if found != struct.pack(f"<{stop - start}Q", *due):
            numbers = struct.unpack(f"<{stop - start}Q", found)
            pairs = zip(numbers, due, strict=True)
            impossible |= {
                start + i for i, (is_, must) in enumerate(pairs) if is_ != must
            }
    for offset, possible in _TOP_BYTES:
        tops = body[offset::RECORD_BYTES].tobytes()
        if tops.translate(None, possible):
            impossible |= {i for i, top in enumerate(tops) if top not in possible}
    return sorted(impossible)


def marks(first_n: int, count: int) -> Iterator[int]:
    """Yield the marks of ``count`` consecutive records, counted in C.

    They are consecutive numbers but for the wrap after 2**32 - 1, which a segment can
    contain at most once.
    """
    first = mark(first_n)
    before_wrap = min(count, 2**32 - first)
    return itertools.chain(
        range(first, first + before_wrap), range(1, 1 + count - before_wrap)
    )
