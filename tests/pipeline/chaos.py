"""Traffic that no program would produce: arbitrary records, drawn from a seed.

Numbers, names, sides and tickets are drawn from a few values each, so that everything
collides with everything: sends in one journal and receives in another, tickets used
twice, messages dropped before they are sent, channels connected twice or never. Two
checkers that read a predicate differently will differ here.
"""

from __future__ import annotations

from random import Random
from typing import Final

import attrs

from bus.journal.format import Flag, RecordKind
from bus.model.events import BusReason
from queuebroker.observer import Reason
from tests.journal.deaths import death
from tests.journal.histories import Entry, History

__all__ = ["chaos"]

_NAMES: Final = ("", "a", "b", "c")
# Messages often, other records rarely; also the end of a journal amid its records.
_KINDS: Final = (
    *[RecordKind.SEND] * 12,
    *[RecordKind.RECEIVE] * 12,
    *[RecordKind.DROP] * 3,
    *[RecordKind.CLOSE_LOCAL] * 2,
    *[kind for kind in RecordKind if kind is not RecordKind.OPEN],
    *[kind for kind in RecordKind if kind >= RecordKind.REGISTER],
)
_ENDS: Final = (RecordKind.ACCEPT_END, RecordKind.CONNECT_END)
_BEGINS: Final = (RecordKind.ACCEPT_BEGIN, RecordKind.CONNECT_BEGIN)


def chaos(seed: int, *, journals: int = 1, records: int = 60) -> History:
    """Return a random history in which some channels look as if they had connected."""
    rng = Random(seed)
    channels = range(1, rng.choice([2, 3, 5]))
    entries = [
        _entry(rng, rng.choice(_KINDS), rng.choice(channels), journals)
        for _ in range(rng.randrange(records))
    ]
    for channel in channels:
        if rng.random() < 0.7:
            entries += [_entry(rng, kind, channel, journals) for kind in _ENDS]
        entries += [_entry(rng, kind, 0, journals) for kind in _BEGINS]
    entries += [
        attrs.evolve(
            death(rng.randrange(journals), rng.randrange(journals)),
            late=rng.choice([0, 10**9]),
            reason=rng.choice([BusReason.DIED, BusReason.DIED, BusReason.LEFT]),
        )
        for _ in range(rng.randrange(3))
    ]
    rng.shuffle(entries)
    return History(entries, journals)


def _entry(rng: Random, kind: RecordKind, channel: int, journals: int) -> Entry:
    if kind >= RecordKind.REGISTER:
        return _entry_of_bus(rng, kind, journals)
    meets = kind in _ENDS + _BEGINS
    return Entry(
        kind,
        channel=channel if rng.random() < 0.97 else 0,
        side=rng.randrange(2),
        seq=rng.randrange(3) if meets else rng.randrange(9),
        size=rng.choice([0, 1, 1, 1, 2**32 - 1]),
        port=rng.choice([5] * 9 + [6]),
        task=rng.choice(_NAMES),
        peer=rng.choice(_NAMES),
        reason=rng.choice(list(Reason)),
        journal=rng.randrange(journals),
    )


def _entry_of_bus(rng: Random, kind: RecordKind, journals: int) -> Entry:
    return Entry(
        kind,
        size=rng.randrange(3),
        port=rng.randrange(1, 5),
        task=rng.choice(_NAMES),
        peer=rng.choice(_NAMES),
        reason=rng.choice(list(BusReason)),
        journal=rng.randrange(journals),
        origin=rng.randrange(1, 3),
        destination=rng.randrange(1, 3),
        hop=rng.randrange(3),
        late=rng.choice([0, 0, 0, 10**9]),
        flags=rng.choice([0, 0, 0, *map(int, Flag)]),
    )
