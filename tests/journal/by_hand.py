"""Hand-written traffic: one channel between "a", which accepted, and "b".

`CLEAN` keeps every promise. Each history of `BROKEN` breaks one; the table gives the
rule, the case, the message, and the required content of the explanation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from bus.journal.format import RecordKind
from queuebroker.observer import Reason
from tests.journal.deaths import death, split
from tests.journal.history import Entry, History

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "A_LEAVES",
    "BROKEN",
    "CLEAN",
    "DEATHS",
    "FLOW",
    "at_a",
    "at_b",
    "by_b",
    "dropped",
    "from_a",
    "killed_with",
    "met",
    "received",
    "sent",
]


def at_a(kind: RecordKind, **fields: object) -> Entry:
    """An operation of a, or an event in the flow to it."""
    return Entry(kind, 1, 0, port=5, task="a", peer="b", **fields)  # type: ignore[arg-type] # as Entry says


def at_b(kind: RecordKind, **fields: object) -> Entry:
    """An operation of b, or an event in the flow to it."""
    return Entry(kind, 1, 1, port=5, task="b", peer="a", **fields)  # type: ignore[arg-type] # as Entry says


def met(*entries: Entry) -> History:
    """The two connect, then the entries follow."""
    meeting = [
        attrs.evolve(at_a(RecordKind.ACCEPT_BEGIN, seq=1), channel=0),
        at_a(RecordKind.ACCEPT_END, seq=1),
        at_b(RecordKind.CONNECT_END, seq=2),
    ]
    history = History([*meeting, *entries])
    history.number()
    return history


def sent(*seqs: int, size: int = 8) -> list[Entry]:
    """From b to a."""
    return [at_a(RecordKind.SEND, seq=seq, size=size) for seq in seqs]


def received(*seqs: int, size: int = 8) -> list[Entry]:
    """By a."""
    return [at_a(RecordKind.RECEIVE, seq=seq, size=size) for seq in seqs]


def dropped(*seqs: int) -> list[Entry]:
    """By a, which hangs up."""
    return [at_a(RecordKind.DROP, seq=seq, reason=Reason.DISCARDED) for seq in seqs]


A_LEAVES, B_LEAVES = at_a(RecordKind.CLOSE_LOCAL), at_b(RecordKind.CLOSE_LOCAL)

CLEAN: Mapping[str, History] = {
    "nothing happened": History(),
    "nothing was sent": met(),
    "all was received": met(*sent(1, 2), *received(1, 2)),
    "some is under way": met(*sent(1, 2, 3), *received(1)),
    "the receiver left": met(*sent(1, 2), *received(1), *dropped(2), A_LEAVES),
    "the sender left, the receiver drains": met(*sent(1, 2), B_LEAVES, *received(1, 2)),
    "the sender left, the receiver did not drain": met(*sent(1), B_LEAVES),
    "sent while half-disconnected": met(
        *sent(1),
        B_LEAVES,
        at_b(RecordKind.DROP, reason=Reason.HALF_DISCONNECTED),
        *received(1),
    ),
    "both left": met(*sent(1), B_LEAVES, *dropped(1), A_LEAVES),
    "a side is told twice that it left": met(
        A_LEAVES, at_a(RecordKind.CLOSE_SEEN), A_LEAVES
    ),
    "an accept that met nobody was refused": History(
        [
            attrs.evolve(at_a(RecordKind.ACCEPT_BEGIN, seq=9), channel=0),
            attrs.evolve(at_a(RecordKind.REFUSE, seq=9), channel=0),
        ]
    ),
    "bytes instead of messages": met(
        at_a(RecordKind.WRITE, seq=0, size=9),
        at_a(RecordKind.READ, seq=0, size=4),
        at_a(RecordKind.READ, seq=4, size=5),
    ),
}


FLOW = at_a(RecordKind.SEND).flow

# rule, case, history, seq, the preceding step named in the explanation
BROKEN: Mapping[str, tuple[str, str, History, int | None, str]] = {
    "nobody connected": (
        "Q1",
        "count",
        History([at_a(RecordKind.ACCEPT_END)]),
        None,
        "1 accepts and 0 connects",
    ),
    "a message without a meeting": (
        "Q1",
        "count",
        History([*sent(1), *received(1)]),
        None,
        "0 accepts and 0 connects",
    ),
    "two accepts": ("Q1", "count", met(at_a(RecordKind.ACCEPT_END)), None, "2 accepts"),
    "another port": (
        "Q1",
        "port",
        History(
            [
                at_a(RecordKind.ACCEPT_END),
                attrs.evolve(at_b(RecordKind.CONNECT_END), port=6),
            ]
        ),
        None,
        "accepted on port 5, connected on 6",
    ),
    "another name": (
        "Q1",
        "names",
        History(
            [
                at_a(RecordKind.ACCEPT_END),
                attrs.evolve(at_b(RecordKind.CONNECT_END), peer="c"),
            ]
        ),
        None,
        "a accepted b, but b connected to c",
    ),
    "an accept that began after the connect had ended": (
        "Q1",
        "interval",
        History(
            [
                at_b(RecordKind.CONNECT_END, seq=2),
                attrs.evolve(at_a(RecordKind.ACCEPT_BEGIN, seq=1), channel=0),
                at_a(RecordKind.ACCEPT_END, seq=1),
            ]
        ),
        None,
        "accept began to wait after",
    ),
    "a connect that began after the accept had ended": (
        "Q1",
        "interval",
        History(
            [
                at_a(RecordKind.ACCEPT_END, seq=1),
                attrs.evolve(at_b(RecordKind.CONNECT_BEGIN, seq=2), channel=0),
                at_b(RecordKind.CONNECT_END, seq=2),
            ]
        ),
        None,
        "connect began to wait after",
    ),
    "an overtaken message": (
        "Q2",
        "overtaken",
        met(*sent(1, 2, 3), *received(1, 3, 2)),
        2,
        "after message 3",
    ),
    "a message received twice": (
        "Q3",
        "twice",
        met(*sent(1, 2), *received(1, 2, 2)),
        2,
        "2 times",
    ),
    "a message nobody sent": ("Q4", "foreign", met(*received(1)), 1, "never sent"),
    "a lost message": (
        "Q5",
        "overtaken",
        met(*sent(1, 2, 3), *received(1, 3)),
        2,
        "though message 3 was",
    ),
    "a last message lost": (
        "Q5",
        "unaccounted",
        met(*sent(1, 2), *received(1), A_LEAVES),
        2,
        "neither received nor dropped",
    ),
    "a message received before it was sent": (
        "Q6",
        "early",
        met(*received(1), *sent(1)),
        1,
        "before it was sent",
    ),
    "a message received by an end that had left": (
        "Q7",
        "received",
        met(*sent(1), A_LEAVES, *received(1)),
        None,
        "received on a side",
    ),
    "a message sent by an end that had left": (
        "Q7",
        "sent",
        met(B_LEAVES, *sent(1)),
        None,
        "sent by a side",
    ),
    "a message accepted for an end that had left": (
        "Q7",
        "accepted",
        met(A_LEAVES, *sent(1), *dropped(1)),
        None,
        "accepted for a side",
    ),
    "a message that grew": (
        "Q8",
        "size",
        met(*sent(1), *received(1, size=9)),
        1,
        "sizes from 8 to 9",
    ),
}


def apart(*entries: Entry) -> History:
    """Connect a in journal 0, whose process died, and b in journal 1, which knows."""
    history = met(*map(attrs.evolve, entries))
    split(history)
    history.entries.append(death(0, 1))
    history.number()
    return history


def killed_with(*entries: Entry) -> History:
    """A channel within the process of journal 0; the entries are unchanged."""
    history = met(*sent(1, 2), *received(1, 2))
    history.entries += entries
    history.journals = 2
    history.number()
    return history


def from_a(*seqs: int) -> list[Entry]:
    """Sent by a, whose process dies."""
    return [at_b(RecordKind.SEND, seq=seq, size=8) for seq in seqs]


def by_b(*seqs: int) -> list[Entry]:
    """Received by b, whose process lives."""
    return [at_b(RecordKind.RECEIVE, seq=seq, size=8) for seq in seqs]


def without(kind: RecordKind, history: History) -> History:
    """Return a history without its records of a kind."""
    history.entries = [entry for entry in history.entries if entry.kind is not kind]
    history.number()
    return history


# history, violations found: rule, case, seq
DEATHS: Mapping[str, tuple[History, list[tuple[str, str, int | None]]]] = {
    "all within the dead one": (killed_with(death(0, 1)), []),
    "nothing was under way": (apart(*from_a(1), *by_b(1), *sent(1), *received(1)), []),
    "messages sent to the dead end": (apart(*sent(1, 2, 3), *received(1)), []),
    "what the dead one sent last": (apart(*from_a(1, 2), *by_b(1, 2, 3)), []),
    "the first thing it sent": (apart(*by_b(1)), []),
    "what never left it": (apart(*from_a(1, 2), *by_b(1), B_LEAVES), []),
    "one end, within the dead one": (
        without(RecordKind.CONNECT_END, killed_with(death(0, 1))),
        [],
    ),
    "two more than it had sent": (
        apart(*from_a(1), *by_b(1, 2, 3)),
        [("Q4", "foreign", 3)],
    ),
    "one left out of what it had sent": (
        apart(*from_a(1), *by_b(1, 3)),
        [("Q4", "foreign", 3)],
    ),
    "what the living one never sent": (
        apart(*sent(1), *received(1, 2)),
        [("Q4", "foreign", 2)],
    ),
    "a message that the dead one passed over": (
        apart(*sent(1, 2), *received(2)),
        [("Q5", "overtaken", 1)],
    ),
    "a message that the living one passed over": (
        apart(*from_a(1, 2), *by_b(2)),
        [("Q5", "overtaken", 1)],
    ),
    "what the living one sent, and the dead one forgot": (
        apart(*sent(1), A_LEAVES),
        [("Q5", "unaccounted", 1)],
    ),
    "no end at all": (
        without(
            RecordKind.ACCEPT_END,
            without(RecordKind.CONNECT_END, killed_with(death(0, 1))),
        ),
        [("Q1", "count", None)],
    ),
    "another port": (
        apart(attrs.evolve(at_b(RecordKind.CONNECT_END), port=6)),
        [("Q1", "count", None)],
    ),
    "received twice": (apart(*from_a(1), *by_b(1, 1)), [("Q3", "twice", 1)]),
}
