"""Hand-written traffic of a bus: task A of journal 0, and tasks B, C of journal 1.

`BUS_CLEAN` keeps every promise. Each history of `BUS_BROKEN` breaks one; the table
gives the rule, the case and the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from bus.journal.format import Flag, RecordKind
from bus.model.events import BusReason
from tests.journal.bus_history import process, step, subscribe, task
from tests.journal.history import Entry, History

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "BUS_BROKEN",
    "BUS_CLEAN",
    "NOTE",
    "A",
    "B",
    "C",
    "answered",
    "arrives",
    "bus",
    "gone",
    "inside",
    "received",
    "returned",
    "sent",
    "taken",
]

A, B, C = task(0), task(1, 0), task(1, 1)
NOTE, _ANSWER = int(Flag.NOTIFICATION), int(Flag.ANSWER)


def bus(
    *entries: Entry,
    names: Mapping[int, str] | None = None,
    listening: Sequence[int] = (B, C),
) -> History:
    """Register all tasks, let some subscribe to all names, then append the steps.

    names: of some registrations; the others are "task-" and their number.
    """
    known = {process(0): "", process(1): ""} | dict(names or {})
    registers = [
        Entry(
            RecordKind.REGISTER,
            task=known.get(number, f"task-{number}"),
            journal=number // 100 - 1,
            origin=number,
            destination=number,
        )
        for number in (process(0), process(1), A, B, C)
    ]
    listens = [subscribe(each, each, "*") for each in listening]
    steps = map(attrs.evolve, entries)
    history = History([*registers, *listens, *steps], journals=2)
    history.number()
    return history


def sent(mid: int, *, to: int = B, flags: int = 0, hop: int = 1) -> list[Entry]:
    """A sends a message to another process."""
    kind = RecordKind.NOTIFY if flags & NOTE else RecordKind.COMMAND
    return [
        step(kind, A, mid, to, flags=flags),
        step(RecordKind.RELAY_OUT, A, mid, to, hop=hop, flags=flags),
    ]


def arrives(mid: int, *, to: int = B, flags: int = 0) -> list[Entry]:
    """The message is read from the link and delivered."""
    return [
        step(kind, A, mid, to, journal=1, hop=1, flags=flags)
        for kind in (RecordKind.RELAY_IN, RecordKind.EXTRACT, RecordKind.DELIVER)
    ]


def gone(kind: RecordKind, mid: int, reason: BusReason, *, journal: int = 0) -> Entry:
    """The message will not be delivered, for a reason."""
    return step(kind, A, mid, B, journal=journal, hop=1, reason=reason)


def leaves(registration: int = B) -> Entry:
    return Entry(
        RecordKind.DEREGISTER, origin=registration, destination=registration, journal=1
    )


def inside(*mids: int) -> list[Entry]:
    """C sends commands to B, within their process."""
    return [step(RecordKind.COMMAND, C, mid, B, journal=1) for mid in mids]


def noted(*mids: int) -> list[Entry]:
    """C notifies B, within their process."""
    return [
        step(kind, C, mid, B, journal=1, flags=NOTE)
        for mid in mids
        for kind in (RecordKind.NOTIFY, RecordKind.DELIVER)
    ]


def unsubscribes() -> Entry:
    """B ends the subscription that `bus` gives it."""
    return attrs.evolve(subscribe(B, B, ""), kind=RecordKind.UNSUBSCRIBE)


def registered_late(history: History) -> History:
    """B registers only after the first record that accepts a message for it."""
    (register,) = [
        entry
        for entry in history.of_kind(RecordKind.REGISTER)
        if entry.destination == B
    ]
    history.entries.remove(register)
    history.after(history.of_kind(RecordKind.COMMAND)[0], register)
    history.number()
    return history


def taken(*mids: int) -> list[Entry]:
    """B takes the commands."""
    return [
        step(kind, C, mid, B, journal=1)
        for mid in mids
        for kind in (RecordKind.EXTRACT, RecordKind.DELIVER)
    ]


def answered(mid: int) -> list[Entry]:
    """B answers C."""
    return [
        step(kind, B, mid, C, journal=1, flags=_ANSWER)
        for kind in (RecordKind.RESPOND, RecordKind.EXTRACT, RecordKind.DELIVER)
    ]


def returned(*mids: int) -> list[Entry]:
    """B sends commands back to A."""
    return [
        step(kind, B, mid, A, journal=journal, hop=1)
        for mid in mids
        for kind, journal in (
            *[(RecordKind.COMMAND, 1), (RecordKind.RELAY_OUT, 1)],
            *[(RecordKind.RELAY_IN, 0), (RecordKind.DELIVER, 0)],
        )
    ]


def _heard() -> list[Entry]:
    """B notifies C, within their process."""
    kinds = RecordKind.NOTIFY, RecordKind.DELIVER
    return [step(kind, B, 1, C, journal=1, flags=NOTE) for kind in kinds]


def received() -> list[Entry]:
    """A notifies; B and C in the other process receive it."""
    there = process(1)
    arrival = [
        step(kind, A, 1, there, journal=1, hop=1, flags=NOTE)
        for kind in (RecordKind.RELAY_IN, RecordKind.DELIVER)
    ]
    copies = [
        step(kind, A, 1, each, journal=1, hop=1, flags=NOTE)
        for each in (B, C)
        for kind in (RecordKind.NOTIFY, RecordKind.DELIVER)
    ]
    return [*sent(1, to=there, flags=NOTE), *arrival, *copies]


BUS_CLEAN: Mapping[str, History] = {
    "nobody sent anything": bus(),
    "all within a process": bus(*inside(1, 2), *taken(1, 2)),
    "over a link": bus(*sent(1), *sent(2), *arrives(1), *arrives(2)),
    "a notification that two hear": bus(*received()),
    "answers in another order": bus(
        *inside(1, 2), *taken(1, 2), *answered(2), *answered(1)
    ),
    "a notification before a command": bus(
        *inside(1),
        *noted(2),
        *taken(1),
    ),
    "a callback was about to begin as its subscription ended": bus(
        *noted(1), unsubscribes(), *noted(2)
    ),
    "something is unread": bus(*inside(1, 2), *taken(1)),
    "something is on the link": bus(*sent(1), *arrives(1), *sent(2)),
    "the oldest was dropped": bus(
        *inside(1, 2),
        step(RecordKind.DISCARD, C, 1, B, journal=1, reason=BusReason.OLDEST),
        *taken(2),
    ),
    "the link was lost": bus(
        *sent(1),
        gone(RecordKind.IN_DOUBT, 1, BusReason.PROCESS_LOST),
        *sent(2),
        *arrives(2),
    ),
    "the receiver left": bus(
        *inside(1),
        step(
            RecordKind.UNDELIVERED, C, 1, B, journal=1, reason=BusReason.ADDRESSEE_GONE
        ),
        leaves(),
    ),
}

# rule, case, history, (origin, sort, number, destination)
BUS_BROKEN: Mapping[str, tuple[str, str, History, tuple[int, str, int, int]]] = {
    "delivered twice": (
        "B1",
        "twice",
        bus(*inside(1), *taken(1, 1)),
        (C, "command", 1, B),
    ),
    "a notification delivered twice": (
        "B1",
        "twice",
        bus(
            *received(), step(RecordKind.DELIVER, A, 1, C, journal=1, hop=1, flags=NOTE)
        ),
        (A, "notification", 1, C),
    ),
    "an answer delivered twice": (
        "B1",
        "twice",
        bus(*inside(1), *taken(1), *answered(1), answered(1)[-1]),
        (B, "answer to a command", 1, C),
    ),
    "put on a link twice": (
        "B2",
        "again",
        bus(*sent(1), sent(1, hop=2)[1], *arrives(1)),
        (A, "command", 1, B),
    ),
    "read from a link twice": (
        "B2",
        "again",
        bus(*sent(1), *arrives(1), arrives(1)[0]),
        (A, "command", 1, B),
    ),
    "two places under one hop": (
        "B2",
        "again",
        bus(
            *sent(1), *arrives(1), step(RecordKind.RELAY_OUT, A, 1, B, journal=1, hop=1)
        ),
        (A, "command", 1, B),
    ),
    "sent on under a lower hop": (
        "B2",
        "back",
        bus(
            *sent(1, hop=2),
            step(RecordKind.RELAY_IN, A, 1, B, journal=1, hop=2),
            step(RecordKind.RELAY_OUT, A, 1, B, journal=1, hop=1),
            step(RecordKind.DELIVER, A, 1, B, journal=1, hop=2),
        ),
        (A, "command", 1, B),
    ),
    "read from a link before it was put on it": (
        "B2",
        "early",
        bus(sent(1)[0], arrives(1)[0], sent(1)[1], *arrives(1)[1:]),
        (A, "command", 1, B),
    ),
    "read from a link on which nobody put it": (
        "B2",
        "foreign",
        bus(sent(1)[0], *arrives(1)),
        (A, "command", 1, B),
    ),
    "not read, though delivered, and a later one was": (
        "B2",
        "overtaken",
        bus(*sent(1), *sent(2), *arrives(1)[1:], *arrives(2)),
        (A, "command", 1, B),
    ),
    "lost, and a later one was delivered": (
        "B3",
        "overtaken",
        bus(*inside(1, 2), *taken(2)),
        (C, "command", 1, B),
    ),
    "lost when its receiver left": (
        "B3",
        "unaccounted",
        bus(*inside(1), leaves()),
        (C, "command", 1, B),
    ),
    "an answer lost when its asker left": (
        "B3",
        "unaccounted",
        bus(*inside(1), *taken(1), answered(1)[0], leaves(C)),
        (B, "answer to a command", 1, C),
    ),
    "notified without a subscription": (
        "B4",
        "unsubscribed",
        bus(*inside(1), *taken(1), *_heard(), *noted(2), listening=[C]),
        (C, "notification", 2, B),
    ),
    "notified by a task with another name": (
        "B4",
        "unsubscribed",
        bus(subscribe(B, 1, "task/*"), *noted(1), listening=[C]),
        (C, "notification", 1, B),
    ),
    "notified twice after its subscription had ended": (
        "B4",
        "unsubscribed",
        bus(*noted(1), unsubscribes(), *noted(2, 3)),
        (C, "notification", 3, B),
    ),
    "found before it registered": (
        "B6",
        "early",
        registered_late(bus(*inside(1), *taken(1))),
        (C, "command", 1, B),
    ),
    "found after it deregistered": (
        "B6",
        "late",
        bus(*inside(1), leaves(), *taken(1)),
        (C, "command", 1, B),
    ),
    "delivered in another order": (
        "B5",
        "overtaken",
        bus(*inside(1, 2), *taken(2, 1)),
        (C, "command", 1, B),
    ),
}
