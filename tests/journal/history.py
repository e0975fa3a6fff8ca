"""Generated traffic, drawn from a seed, as an observer would record it.

`clean` runs the sequential model of the channels at random, so its history keeps every
promise. This module uses neither the library's channels, the writer nor a checker.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.format import RecordKind
from queuebroker.observer import SHARED_CHANNELS, Reason

if TYPE_CHECKING:
    from bus.model.events import BusReason

__all__ = ["Entry", "History", "clean"]

_BASE: Final = 0x2ADB_EE5 << 31
_CAPACITY: Final = 4


@attrs.define(eq=False)
class Entry:
    """One record; `History.number` sets `n` and `at`.

    at: its position among all records of the history, from 1, which gives its time.
    late: delay of its time after the time of its position, in nanoseconds.
    origin, destination, hop, flags: of a message of the bus, whose number is `port`.
    socket: True if the channel is that of a socket.
    """

    kind: RecordKind
    channel: int = 0
    side: int = 0
    seq: int = 0
    size: int = 0
    port: int = 0
    task: str = ""
    peer: str = ""
    reason: Reason | BusReason = Reason.NONE
    journal: int = 0
    n: int = -1
    at: int = 0
    late: int = 0
    origin: int = 0
    destination: int = 0
    hop: int = 0
    flags: int = 0
    socket: bool = False

    @property
    def flow(self) -> int:
        """The flow number, as stored in the record."""
        if self.kind >= RecordKind.REGISTER:
            return self.destination
        if not self.channel:
            return self.side
        base = _BASE + SHARED_CHANNELS * self.socket
        return (base + self.channel) << 1 | self.side


@attrs.define
class History:
    """Entries in the order of their events, over some journals."""

    entries: list[Entry] = attrs.field(factory=list)
    journals: int = 1

    def number(self) -> None:
        """Number the entries, of each journal and of all; record 0 is the OPEN."""
        for at, entry in enumerate(self.entries, 1):
            entry.at = at
        self.number_journals()

    def number_journals(self) -> None:
        """Number the entries of each journal, and keep their times."""
        following = [1] * self.journals
        for entry in self.entries:
            entry.n = following[entry.journal]
            following[entry.journal] += 1

    def of_kind(self, kind: RecordKind, flow: int | None = None) -> list[Entry]:
        """Return the entries of a kind, of one flow or of all."""
        return [
            entry
            for entry in self.entries
            if entry.kind is kind and flow in (None, entry.flow)
        ]

    def before(self, entry: Entry, new: Entry) -> None:
        """Insert an entry right before another."""
        self.entries.insert(self.entries.index(entry), new)

    def after(self, entry: Entry, new: Entry) -> None:
        """Insert an entry right after another."""
        self.entries.insert(self.entries.index(entry) + 1, new)


class _Channel:
    """One channel of the sequential model, and the broker names at its ends."""

    def __init__(self, history: History, number: int, rng: Random) -> None:
        self.history = history
        self.number = number
        self.rng = rng
        self.port = rng.randrange(100)
        self.names = (f"server-{rng.randrange(3)}", f"client-{number}")
        self.journal = number % history.journals
        self.unread: tuple[list[Entry], list[Entry]] = ([], [])
        self.closed = [False, False]
        self.last_seq = [0, 0]

    def note(
        self,
        kind: RecordKind,
        side: int,
        actor: int,
        *,
        seq: int = 0,
        size: int = 0,
        reason: Reason = Reason.NONE,
        met: bool = True,
    ) -> Entry:
        entry = Entry(
            kind,
            self.number if met else 0,
            side,
            seq,
            size,
            self.port,
            self.names[actor],
            self.names[1 - actor],
            reason,
            self.journal,
        )
        self.history.entries.append(entry)
        return entry

    def meet(self) -> None:
        tickets = [2 * self.number, 2 * self.number + 1]
        kinds = [
            (RecordKind.ACCEPT_BEGIN, RecordKind.ACCEPT_END),
            (RecordKind.CONNECT_BEGIN, RecordKind.CONNECT_END),
        ]
        first = self.rng.randrange(2)
        for side in (first, 1 - first):
            if side == first or self.rng.random() < 0.5:
                self.note(kinds[side][0], side, side, seq=tickets[side], met=False)
        for side in (0, 1):
            self.note(kinds[side][1], side, side, seq=tickets[side])

    def step(self) -> None:
        side = self.rng.randrange(2)
        act = self.rng.choices([self.send, self.receive, self.hang_up], [10, 10, 1])[0]
        act(side)

    def send(self, side: int) -> None:
        peer = 1 - side
        if self.closed[side] or (self.closed[peer] and not self.unread[side]):
            return
        size = self.rng.choice([0, 1, 64, 1500])
        if self.closed[peer]:
            reason = Reason.HALF_DISCONNECTED
            self.note(RecordKind.DROP, peer, side, size=size, reason=reason)
        elif len(self.unread[peer]) < _CAPACITY:
            self.last_seq[peer] += 1
            seq = self.last_seq[peer]
            self.unread[peer].append(
                self.note(RecordKind.SEND, peer, side, seq=seq, size=size)
            )

    def receive(self, side: int) -> None:
        if self.unread[side] and not self.closed[side]:
            sent = self.unread[side].pop(0)
            self.note(RecordKind.RECEIVE, side, side, seq=sent.seq, size=sent.size)
            if self.closed[1 - side] and not self.unread[side]:
                self.note(RecordKind.CLOSE_SEEN, side, side, reason=Reason.DISCONNECTED)

    def hang_up(self, side: int) -> None:
        if self.closed[side]:
            return
        self.closed[side] = True
        for sent in self.unread[side]:
            reason = Reason.DISCARDED
            self.note(
                RecordKind.DROP, side, side, seq=sent.seq, size=sent.size, reason=reason
            )
        self.unread[side].clear()
        self.note(RecordKind.CLOSE_LOCAL, side, side)


def clean(
    seed: int, *, channels: int = 3, steps: int = 200, journals: int = 1
) -> History:
    """Return a history that keeps every promise; some channels are left open."""
    rng = Random(seed)
    history = History(journals=journals)
    ends = [_Channel(history, number, rng) for number in range(1, channels + 1)]
    for end in ends:
        end.meet()
    for _ in range(steps):
        rng.choice(ends).step()
    history.number()
    return history
