"""Faults for recorded traffic of a bus, each at a known place.

As `tests.journal.faults`: `plant_on_bus` returns the violation for a checker to find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.format import Flag, RecordKind
from bus.journal.rules import SORTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from tests.journal.faults import Key
    from tests.journal.history import Entry, History

__all__ = ["BUS_FAULTS", "plant_on_bus"]

_ACCEPTED: Final = (RecordKind.COMMAND, RecordKind.RESPOND, RecordKind.NOTIFY)

_Told = tuple[str, "Entry", bool]  # rule, a record of the message, whether n matters


def _message(entry: Entry) -> tuple[int, ...]:
    return entry.origin, entry.flags, entry.port, entry.destination


def _line(entry: Entry) -> tuple[int, ...]:
    return entry.origin, entry.flags, entry.destination


def _choose(history: History, rng: Random, *kinds: RecordKind) -> Entry | None:
    found = [entry for entry in history.entries if entry.kind in kinds]
    return rng.choice(found) if found else None


def _followed(history: History, rng: Random, kind: RecordKind) -> Entry | None:
    """Return a record followed by a like one of a later message in its line."""
    found = history.of_kind(kind)
    followed = [
        entry
        for place, entry in enumerate(found)
        if not entry.flags & Flag.ANSWER
        and any(
            _line(later) == _line(entry) and later.port > entry.port
            for later in found[place + 1 :]
        )
    ]
    return rng.choice(followed) if followed else None


def _twice(history: History, rng: Random) -> _Told | None:
    entry = _choose(history, rng, RecordKind.DELIVER)
    if entry is None:
        return None
    history.after(entry, attrs.evolve(entry))
    return "B1", entry, False


def _again(history: History, rng: Random) -> _Told | None:
    entry = _choose(history, rng, RecordKind.RELAY_OUT, RecordKind.RELAY_IN)
    if entry is None:
        return None
    history.after(entry, attrs.evolve(entry))
    return "B2", entry, False


def _from_nowhere(history: History, rng: Random) -> _Told | None:
    entry = _choose(history, rng, RecordKind.RELAY_IN)
    if entry is None:
        return None
    (out,) = [
        other
        for other in history.of_kind(RecordKind.RELAY_OUT)
        if _message(other) == _message(entry)
    ]
    history.entries.remove(out)
    return "B2", entry, False


def _early(history: History, rng: Random) -> _Told | None:
    entry = _choose(history, rng, RecordKind.RELAY_IN)
    if entry is None:
        return None
    for out in history.of_kind(RecordKind.RELAY_OUT):
        if (_message(out), out.hop) == (_message(entry), entry.hop):
            history.entries.remove(out)
            history.after(entry, out)
    return "B2", entry, False


def _never_read(history: History, rng: Random) -> _Told | None:
    entry = _followed(history, rng, RecordKind.RELAY_IN)
    explained = (RecordKind.DISCARD, RecordKind.UNDELIVERED, RecordKind.IN_DOUBT)
    if entry is None or any(
        other.kind in explained and _message(other) == _message(entry)
        for other in history.entries
    ):
        return None
    history.entries.remove(entry)
    return "B2", entry, False


def _lost(history: History, rng: Random) -> _Told | None:
    entry = _followed(history, rng, RecordKind.DELIVER)
    if entry is None:
        return None
    history.entries.remove(entry)
    return "B3", entry, False


def _reorder(history: History, rng: Random) -> _Told | None:
    """A delivery is recorded right after the next one of its line."""
    entry = _followed(history, rng, RecordKind.DELIVER)
    if entry is None:
        return None
    at = history.entries.index(entry)
    later = next(
        other
        for other in history.entries[at + 1 :]
        if other.kind is RecordKind.DELIVER and _line(other) == _line(entry)
    )
    history.entries.remove(entry)
    history.after(later, entry)
    return "B5", entry, True


def _found(history: History, registration: int) -> list[Entry]:
    """Return the records that accept messages for a task, or deliver them to it."""
    kinds = {*_ACCEPTED, RecordKind.DELIVER}
    return [
        entry
        for entry in history.entries
        if entry.kind in kinds and entry.destination == registration
    ]


def _unsubscribed(history: History, rng: Random) -> _Told | None:
    """A task begins to subscribe only once its first notification was delivered."""
    tasks = {entry.destination for entry in history.of_kind(RecordKind.SUBSCRIBE)}
    firsts = {
        entry.destination: entry
        for entry in reversed(history.of_kind(RecordKind.DELIVER))
        if entry.flags == Flag.NOTIFICATION and entry.destination in tasks
    }
    if not firsts:
        return None
    entry = rng.choice(sorted(firsts.values(), key=lambda each: each.at))
    kinds = RecordKind.SUBSCRIBE, RecordKind.UNSUBSCRIBE
    before = history.entries[: history.entries.index(entry)]
    for each in reversed(before):
        if each.kind in kinds and each.destination == entry.destination:
            history.entries.remove(each)
            history.after(entry, each)
    return "B4", entry, True


def _unregistered(history: History, rng: Random) -> _Told | None:
    """A task registers only after its first message."""
    register = _choose(history, rng, RecordKind.REGISTER)
    if register is None or not (of := _found(history, register.destination)):
        return None
    history.entries.remove(register)
    history.after(of[0], register)
    return "B6", of[0], True


def _departed(history: History, rng: Random) -> _Told | None:
    """A task deregisters right before the last time that it is found."""
    left = _choose(history, rng, RecordKind.DEREGISTER)
    if left is None:
        return None
    of = [
        entry
        for entry in _found(history, left.destination)
        if entry.journal == left.journal and not entry.flags & Flag.ANSWER
    ]
    if not of:
        return None
    history.entries.remove(left)
    history.before(of[-1], left)
    return "B6", of[-1], True


BUS_FAULTS: Final[Mapping[str, Callable[[History, Random], _Told | None]]] = {
    "twice": _twice,
    "again": _again,
    "from nowhere": _from_nowhere,
    "early": _early,
    "never read": _never_read,
    "lost": _lost,
    "reorder": _reorder,
    "unsubscribed": _unsubscribed,
    "unregistered": _unregistered,
    "departed": _departed,
}


def plant_on_bus(history: History, fault: str, rng: Random) -> Key | None:
    """Plant a fault, if there is a place for it; return the violation it causes."""
    try:
        reported = BUS_FAULTS[fault](history, rng)
    except ValueError:
        reported = None  # an earlier fault removed the records that this one needs
    history.number()
    if reported is None:
        return None
    rule, entry, by_n = reported
    place = entry.destination, entry.port, entry.n if by_n else None, None
    return rule, *place, entry.origin, SORTS[entry.flags]
