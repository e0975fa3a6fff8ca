"""Traffic that no program would make: any record anywhere, from a seed.

Numbers, names, sides and tickets come from a few values each, so that everything
collides with everything: sends in one journal and receives in another, tickets used
twice, messages dropped before they are sent, channels without a meeting. Two checkers
that read a predicate differently will differ here.
"""

from __future__ import annotations

from random import Random
from typing import Final

from bus.journal.format import Kind
from queuebroker.observer import Reason
from tests.journal.histories import Entry, History

__all__ = ["chaos"]

_NAMES: Final = ("", "a", "b", "c")
# Messages often, the rest now and then; the end of a journal in the midst of it, too.
_KINDS: Final = (
    *[Kind.SEND] * 12,
    *[Kind.RECEIVE] * 12,
    *[Kind.DROP] * 3,
    *[Kind.CLOSE_LOCAL] * 2,
    *[kind for kind in Kind if kind is not Kind.OPEN],
)


def chaos(seed: int, *, journals: int = 1, records: int = 60) -> History:
    """A history without rhyme or reason."""
    rng = Random(seed)
    channels = rng.choice([1, 2, 4])
    entries = [_entry(rng, journals, channels) for _ in range(rng.randrange(records))]
    return History(entries, journals)


def _entry(rng: Random, journals: int, channels: int) -> Entry:
    kind = rng.choice(_KINDS)
    begins = kind in (Kind.ACCEPT_BEGIN, Kind.CONNECT_BEGIN)
    return Entry(
        kind,
        # Nearly all of them belong to a channel, as in life; begins nearly never.
        channel=rng.randint(1, channels)
        if rng.random() < (0.1 if begins else 0.95)
        else 0,
        side=rng.randrange(2),
        seq=rng.choice([0, *range(1, 9)]),
        size=rng.choice([0, 1, 1, 1, 2**32 - 1]),
        port=rng.choice([5, 5, 5, 6]),
        task=rng.choice(_NAMES),
        peer=rng.choice(_NAMES),
        reason=rng.choice(list(Reason)),
        journal=rng.randrange(journals),
    )
