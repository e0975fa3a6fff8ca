"""Faults for recorded traffic, each at a known place.

`plant` changes a history so that it breaks one promise, and returns the violation: a
checker must find that one and no other, if the history was clean.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.format import RecordKind
from queuebroker.observer import Reason
from tests.journal.history import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from tests.journal.history import History

__all__ = ["FAULTS", "Key", "plant"]

# The type of a violation's `key`.
Key = tuple[str | int | None, ...]

# Faults. Each changes the history and returns the violation: a rule, the entry that
# gives its flow, and True for `seq` and `n` if they identify it. None: no place.

_Told = tuple[str, Entry, bool, bool]


def _received_twice_over(history: History, rng: Random) -> list[Entry]:
    """Return two successive receives of one flow."""
    pairs = []
    for flow in {entry.flow for entry in history.of_kind(RecordKind.RECEIVE)}:
        receives = history.of_kind(RecordKind.RECEIVE, flow)
        pairs += [list(pair) for pair in itertools.pairwise(receives)]
    return rng.choice(sorted(pairs, key=lambda pair: pair[0].n)) if pairs else []


def _lost(history: History, rng: Random) -> _Told | None:
    if pair := _received_twice_over(history, rng):
        history.entries.remove(pair[0])
        return "Q5", pair[0], True, False
    return None


def _duplicate(history: History, rng: Random) -> _Told | None:
    if receives := history.of_kind(RecordKind.RECEIVE):
        entry = rng.choice(receives)
        history.after(entry, attrs.evolve(entry))
        return "Q3", entry, True, False
    return None


def _reorder(history: History, rng: Random) -> _Told | None:
    if pair := _received_twice_over(history, rng):
        first, second = pair
        history.entries.remove(first)
        history.after(second, first)
        return "Q2", first, True, True
    return None


def _half(history: History, rng: Random) -> _Told | None:
    """A side that hung up receives a message that it had not read."""
    dropped = [
        e for e in history.of_kind(RecordKind.DROP) if e.reason is Reason.DISCARDED
    ]
    firsts = {entry.flow: entry for entry in reversed(dropped)}
    if not firsts:
        return None
    entry = rng.choice(sorted(firsts.values(), key=lambda e: e.n))
    (close,) = history.of_kind(RecordKind.CLOSE_LOCAL, entry.flow)
    history.entries.remove(entry)
    entry.kind, entry.reason = RecordKind.RECEIVE, Reason.NONE
    history.after(close, entry)
    return "Q7", entry, False, True


def _unaccounted(history: History, rng: Random) -> _Told | None:
    """A side hangs up with an unread message and leaves no record of it."""
    dropped = [
        e for e in history.of_kind(RecordKind.DROP) if e.reason is Reason.DISCARDED
    ]
    if not dropped:
        return None
    entry = rng.choice(dropped)
    history.entries.remove(entry)
    return "Q5", entry, True, False


def _foreign(history: History, rng: Random) -> _Told | None:
    if receives := history.of_kind(RecordKind.RECEIVE):
        entry = rng.choice(receives)
        (sent,) = [
            e
            for e in history.of_kind(RecordKind.SEND, entry.flow)
            if e.seq == entry.seq
        ]
        history.entries.remove(sent)
        return "Q4", entry, True, False
    return None


def _early(history: History, rng: Random) -> _Told | None:
    """A message whose sending is recorded after it was received."""
    closes = history.of_kind(RecordKind.CLOSE_LOCAL)
    receives = [
        entry
        for entry in history.of_kind(RecordKind.RECEIVE)
        if not any(c.channel == entry.channel and c.n < entry.n for c in closes)
    ]
    if not receives:
        return None
    entry = rng.choice(receives)
    (sent,) = [
        e for e in history.of_kind(RecordKind.SEND, entry.flow) if e.seq == entry.seq
    ]
    history.entries.remove(sent)
    history.after(entry, sent)
    return "Q6", entry, True, False


def _size(history: History, rng: Random) -> _Told | None:
    if receives := history.of_kind(RecordKind.RECEIVE):
        entry = rng.choice(receives)
        entry.size += 1
        return "Q8", entry, True, False
    return None


def _one_sided_close(history: History, rng: Random) -> Entry | None:
    """Return the close of a side whose peer never hung up."""
    closes = [
        close
        for close in history.of_kind(RecordKind.CLOSE_LOCAL)
        if not history.of_kind(RecordKind.CLOSE_LOCAL, close.flow ^ 1)
    ]
    return rng.choice(closes) if closes else None


def _sent_late(history: History, rng: Random) -> _Told | None:
    """A side that hung up sends again; its peer receives it."""
    close = _one_sided_close(history, rng)
    if close is None:
        return None
    seq = 1 + len(history.of_kind(RecordKind.SEND, close.flow ^ 1))
    sent = attrs.evolve(
        close, kind=RecordKind.SEND, side=1 - close.side, seq=seq, size=1
    )
    history.after(close, sent)
    return "Q7", sent, False, True


def _accepted_late(history: History, rng: Random) -> _Told | None:
    """A message to a side that hung up is accepted as sent, then dropped."""
    close = _one_sided_close(history, rng)
    if close is None:
        return None
    seq = 1 + len(history.of_kind(RecordKind.SEND, close.flow))
    sent = attrs.evolve(close, kind=RecordKind.SEND, seq=seq, size=1)
    dropped = attrs.evolve(sent, kind=RecordKind.DROP, reason=Reason.DISCARDED)
    history.after(close, sent)
    history.after(sent, dropped)
    return "Q7", sent, False, True


def _alone(history: History, rng: Random) -> _Told | None:
    """An accept without a connect."""
    entry = rng.choice(history.of_kind(RecordKind.CONNECT_END))
    history.entries.remove(entry)
    return _of_channel(entry)


def _twice(history: History, rng: Random) -> _Told | None:
    """Two accepts of one connection."""
    entry = rng.choice(history.of_kind(RecordKind.ACCEPT_END))
    history.after(entry, attrs.evolve(entry))
    return _of_channel(entry)


def _port(history: History, rng: Random) -> _Told | None:
    entry = rng.choice(history.of_kind(RecordKind.CONNECT_END))
    entry.port += 1
    return _of_channel(entry)


def _names(history: History, rng: Random) -> _Told | None:
    entry = rng.choice(history.of_kind(RecordKind.ACCEPT_END))
    entry.peer += "!"
    return _of_channel(entry)


def _interval(history: History, rng: Random) -> _Told | None:
    """One side began to wait after the other side had been matched."""
    begins = history.of_kind(RecordKind.ACCEPT_BEGIN) + history.of_kind(
        RecordKind.CONNECT_BEGIN
    )
    begin = rng.choice(begins)
    accept = begin.kind is RecordKind.ACCEPT_BEGIN
    ends = history.of_kind(RecordKind.CONNECT_END if accept else RecordKind.ACCEPT_END)
    (other,) = [
        end
        for end in ends
        if (end.task, end.peer) == (begin.peer, begin.task)
        and end.port == begin.port
        and end.seq // 2 == begin.seq // 2
    ]
    history.entries.remove(begin)
    history.after(other, begin)
    return _of_channel(other)


def _of_channel(entry: Entry) -> _Told:
    return "Q1", attrs.evolve(entry, side=0), False, False


FAULTS: Final[Mapping[str, Callable[[History, Random], _Told | None]]] = {
    "lost": _lost,
    "duplicate": _duplicate,
    "reorder": _reorder,
    "half": _half,
    "unaccounted": _unaccounted,
    "foreign": _foreign,
    "early": _early,
    "size": _size,
    "sent late": _sent_late,
    "accepted late": _accepted_late,
    "alone": _alone,
    "twice": _twice,
    "port": _port,
    "names": _names,
    "interval": _interval,
}


def plant(history: History, fault: str, rng: Random) -> Key | None:
    """Plant a fault, if there is a place for it; return the violation it causes.

    Record numbers change with it: a key with an `n` is valid until the next fault is
    planted.
    """
    reported = FAULTS[fault](history, rng)
    if reported is None:
        return None
    history.number()
    rule, entry, by_seq, by_n = reported
    return (
        rule,
        entry.flow,
        entry.seq if by_seq else None,
        entry.n if by_n else None,
        None,
    )
