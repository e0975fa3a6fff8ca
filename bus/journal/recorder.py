"""The hot path of a journal: two functions that turn a call into 80 bytes.

Everything here runs inside a caller's critical section, once per message. So it takes
no lock, makes no avoidable call and never raises. The functions are closures because a
cell is read faster than an attribute; the rest of the journal changes those cells
through `Recorder`. Rare cases are handed over: a new name or thread to ``introduce``, a
full segment or a value out of range to ``write``.

Names and thread are looked up before a slot is drawn: a slot that is drawn and not
written is a hole in the journal.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, Protocol

from bus.journal.format import CHANNEL_BITS, RECORD, RECORD_VERSION
from queuebroker import _sync
from queuebroker.observer import SHARED_CHANNELS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bus.journal.segment import Slot
    from queuebroker.observer import Observer, Operation, Reason

__all__ = ["Emit", "Fields", "Recorder", "exhausted", "flow_of", "make_recorder"]

# RECORD with the fields that an observed operation leaves at 0 as padding, `flow` in
# two halves and thread, hop and version in one: fewer arguments, fewer long integers.
_OBSERVED: Final = struct.Struct("<BxHIQqIIQ8xQIIIIII")
_VERSION_STAMP: Final = RECORD_VERSION << 24  # thread | hop << 16 | version << 24
_THREAD: Final = 2**16 - 1

# No slot is left; a value does not fit; the slot's segment was sealed meanwhile (for a
# released target, `pack_into` raises different errors in different Python versions).
_REFUSALS: Final = (StopIteration, struct.error, ValueError, TypeError)

# The fields of RECORD without n, mono, version and mark.
Fields = tuple[int, ...]


class Emit(Protocol):
    """Writes one record of any kind; the fields are those of `bus.journal.format`."""

    def __call__(
        self,
        kind: int,
        flags: int = 0,
        reason: int = 0,
        size: int = 0,
        flow: int = 0,
        seq: int = 0,
        origin: int = 0,
        mid: int = 0,
        task: int = 0,
        peer: int = 0,
        wait_us: int = 0,
        depth: int = 0,
        hop: int = 0,
    ) -> None:
        """Never block, never raise; values beyond their field saturate.

        `seq` and `mid` count from 1 and stay below 2**62: a reader treats a record with
        a greater one as damaged.
        """


class Recorder(NamedTuple):
    """The two functions, and the setters of their cells.

    switch: draw slots with another function from now on.
    rebase: forget all threads; use another base for channel numbers, and other names.
    enrol: give the running thread a number.
    """

    observe: Observer
    emit: Emit
    switch: Callable[[Callable[[], Slot]], None]
    rebase: Callable[[int, Mapping[str, int]], None]
    enrol: Callable[[Callable[[], int]], None]


def exhausted() -> NoReturn:
    """Stand in for a segment while there is none to draw from."""
    raise StopIteration


def flow_of(base: int, channel: int, direction: int) -> int:
    """Return the `flow` of a channel's direction; channel 0 is none (see `format`)."""
    if channel >= SHARED_CHANNELS:
        return channel << 1 | direction
    return ((base << CHANNEL_BITS) + channel << 1 if channel else 0) | direction


def make_recorder(
    introduce: Callable[[str, str], tuple[int, int]],
    write: Callable[[Slot | None, Fields], None],
) -> Recorder:
    """Return the functions for one journal; they draw no slot before `switch`.

    introduce: returns the numbers of two names; enrols the running thread.
    write: writes the fields, into the slot if one was drawn.
    """
    take: Callable[[], Slot] = exhausted
    thread = _sync.Local()
    base = 0
    names: Mapping[str, int] = {}
    # Looked up when the journal is opened, as the explorer has set it then.
    clock = _sync.monotonic_ns
    pack_observed, pack_record = _OBSERVED.pack_into, RECORD.pack_into

    def observe(
        operation: Operation,
        channel: int,
        direction: int,
        seq: int,
        size: int,
        depth: int,
        waited_ns: int,
        local: str,
        remote: str,
        port: int,
        reason: Reason,
        /,
    ) -> None:
        slot = None
        try:
            task, peer, stamp = names[local], names[remote], thread.stamp
        except (KeyError, AttributeError):
            task, peer = introduce(local, remote)
            stamp = thread.stamp
        try:
            n, offset, mark, target = slot = take()
            pack_observed(
                target,
                offset,
                operation,
                reason,
                size,
                n,
                clock(),
                channel + channel + direction,
                base if channel else 0,
                seq,
                port,
                task,
                peer,
                waited_ns and waited_ns // 1000,
                depth,
                stamp,
                mark,
            )
        except _REFUSALS:
            flow = flow_of(base, channel, direction)
            call = operation, 0, reason, size, flow, seq, 0, port, task, peer
            write(slot, (*call, waited_ns // 1000, depth, stamp & _THREAD, 0))

    def emit(
        kind: int,
        flags: int = 0,
        reason: int = 0,
        size: int = 0,
        flow: int = 0,
        seq: int = 0,
        origin: int = 0,
        mid: int = 0,
        task: int = 0,
        peer: int = 0,
        wait_us: int = 0,
        depth: int = 0,
        hop: int = 0,
    ) -> None:
        slot = None
        try:
            number = thread.number
        except AttributeError:
            introduce("", "")
            number = thread.number
        try:
            n, offset, mark, target = slot = take()
            pack_record(
                target,
                offset,
                kind,
                flags,
                reason,
                size,
                n,
                clock(),
                flow,
                seq,
                origin,
                mid,
                task,
                peer,
                wait_us,
                depth,
                number,
                hop,
                RECORD_VERSION,
                mark,
            )
        except _REFUSALS:
            call = kind, flags, reason, size, flow, seq, origin, mid, task, peer
            write(slot, (*call, wait_us, depth, number, hop))

    def switch(new: Callable[[], Slot]) -> None:
        nonlocal take
        take = new

    def rebase(new_base: int, new_names: Mapping[str, int]) -> None:
        nonlocal base, names, thread
        base, names, thread = new_base, new_names, _sync.Local()

    def enrol(draw_number: Callable[[], int]) -> None:
        if not hasattr(thread, "stamp"):
            thread.number = number = draw_number()
            thread.stamp = number | _VERSION_STAMP

    return Recorder(observe, emit, switch, rebase, enrol)
