"""Processes that are killed during recorded traffic.

`split` gives each side of the channels a process of its own. `kill` ends one of two
journals at some moment, lets the other one continue as far as possible, and records the
death there. The result keeps every promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.journal.format import RecordKind
from bus.model.events import BusReason
from tests.journal.disk import MACHINE, Condition, process_id
from tests.journal.history import Entry

if TYPE_CHECKING:
    from tests.journal.history import History

__all__ = ["KILLED", "death", "kill", "split"]

KILLED: Final = Condition(closed=False, sealed=False)
_MEETING: Final = (RecordKind.ACCEPT_END, RecordKind.CONNECT_END)
_LATE: Final = 10**9  # later than all records of a history


def death(dead: int, witness: int, *, late: int = _LATE) -> Entry:
    """Return the record in another journal of the death of a journal's process."""
    return Entry(
        RecordKind.LINK_DOWN,
        port=process_id(dead),
        task="dead",
        peer=MACHINE,
        reason=BusReason.DIED,
        journal=witness,
        late=late,
    )


def split(history: History, *, alone: bool = False) -> None:
    """Assign side 0 of each channel to journal 0 and side 1 to journal 1.

    alone: True if side 1 is not recorded.
    """
    history.journals = 2
    for entry in history.entries:
        sends = entry.kind is RecordKind.SEND or (
            entry.kind is RecordKind.DROP and not entry.seq
        )
        entry.journal = 1 - entry.side if sends else entry.side
    if alone:
        history.entries = [entry for entry in history.entries if not entry.journal]
    history.number()


def kill(
    history: History, dead: int, at: int, *, unrecorded: bool = False
) -> dict[int, Condition]:
    """Kill the process of journal ``dead`` of two after ``at`` entries of the history.

    All channels must be connected by then. Its later steps do not happen, and the other
    process receives only messages sent before. Returns the conditions in which the
    journals are found.

    unrecorded: True if its last step is not on record.
    """
    before, after = history.entries[:at], history.entries[at:]
    after = [entry for entry in after if entry.journal != dead]
    sent = {(e.flow, e.seq) for e in before + after if e.kind is RecordKind.SEND}
    mine = [entry for entry in before if entry.journal == dead]
    if unrecorded and mine and mine[-1].kind not in _MEETING:
        before.remove(mine[-1])
    survives = [
        entry
        for entry in after
        if entry.kind not in (RecordKind.RECEIVE, RecordKind.DROP)
        or not entry.seq
        or (entry.flow, entry.seq) in sent
    ]
    history.entries = [*before, *survives, death(dead, 1 - dead)]
    history.number()
    return {dead: KILLED}
