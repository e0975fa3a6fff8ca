"""`Traffic`: the small checker's fold over the records of journals.

It checks the rules on the order of records (Q2, Q7) while it reads each channel, and
the rules on all records (Q1, and a flow's Q3, Q4, Q5, Q6, Q8) when it is asked. The
records of a journal come in order; those of several journals may alternate.
Records of the bus go to `bus_traffic`. The verdict on a finding is decided elsewhere.
The predicates are those of `bus.journal.rules`, in its terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.bus_traffic import BusTraffic
from bus.journal.flow import End, Flow
from bus.journal.format import Record, RecordKind
from bus.journal.violation import Finding, Place
from bus.model.events import BusReason
from queuebroker.observer import SHARED_CHANNELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from bus.journal.reader import JournalFacts

__all__ = ["Channel", "Traffic"]

_FIRST: Final = int(RecordKind.BIND)
_LAST: Final = int(RecordKind.DROP)
_SEND, _RECEIVE = int(RecordKind.SEND), int(RecordKind.RECEIVE)
_DROP, _CLOSE_LOCAL = int(RecordKind.DROP), int(RecordKind.CLOSE_LOCAL)
_BEGIN_OF: Final = {
    int(RecordKind.ACCEPT_END): int(RecordKind.ACCEPT_BEGIN),
    int(RecordKind.CONNECT_END): int(RecordKind.CONNECT_BEGIN),
}
_BEGINS: Final = frozenset(_BEGIN_OF.values())
_BUS: Final = int(RecordKind.REGISTER)
_LAST_OF_BUS: Final = int(RecordKind.IN_DOUBT)
_LINK_DOWN: Final = int(RecordKind.LINK_DOWN)
_OPEN: Final = [None, None]


@attrs.frozen
class Meeting:
    """One ACCEPT_END or CONNECT_END."""

    kind: int
    place: Place
    ticket: int
    port: int
    task: str
    peer: str


@attrs.define(eq=False)
class Channel:
    """Both directions of one channel.

    left: for each side, True if it disconnected in any journal.
    receivers: for each flow, the journals with a record of its receiver.
    """

    number: int
    flows: tuple[Flow, Flow]
    journals: list[int] = attrs.field(factory=list)
    left: list[bool] = attrs.field(factory=lambda: [False, False])
    receivers: tuple[list[int], list[int]] = attrs.field(factory=lambda: ([], []))
    accepts: list[Meeting] = attrs.field(factory=list)
    connects: list[Meeting] = attrs.field(factory=list)
    names: tuple[str, str] = ("", "")
    port: int | None = None

    @property
    def is_whole(self) -> bool:
        """False if one end of a socket may have no journal here."""
        return self.number < SHARED_CHANNELS or all(
            received or other.counts().sent
            for received, other in zip(
                self.receivers, reversed(self.flows), strict=True
            )
        )


@attrs.define(eq=False)
class _Part:
    """A channel, as one journal shows it.

    ends: for each side, the first CLOSE_LOCAL.
    peaks: for each flow, the greatest `seq` received, and its record.
    """

    channel: Channel
    ends: list[int | None] = attrs.field(factory=lambda: [None, None])
    peaks: list[tuple[int, int]] = attrs.field(factory=lambda: [(0, 0), (0, 0)])


class Traffic:
    """The state after all records read so far.

    operations: sends and receives on channels. receives: those of messages.
    deaths: the recorded deaths. bus: the state of the bus.
    """

    # Of the current journal; `enter` assigns both.
    _journal: int
    _name: Callable[[int], str]

    def __init__(self) -> None:
        self.channels: dict[int, Channel] = {}
        self.operations = 0
        self.receives = 0
        self.deaths = Deaths()
        self.bus = BusTraffic()
        self._findings: list[Finding] = []
        # The first record of each call that blocked, by journal, kind and ticket.
        self._begins: dict[tuple[int, int, int], int] = {}
        # By journal and number of the channel; then those of the current journal.
        self._parts: dict[int, dict[int, _Part]] = {}
        self._parts_here: dict[int, _Part] = {}

    def enter(self, journal: int, name: Callable[[int], str]) -> None:
        """Begin or continue a journal; ``name`` maps its name numbers to texts."""
        self._journal, self._name = journal, name
        self._parts_here = self._parts.setdefault(journal, {})

    def take(self, records: Iterable[Record]) -> None:
        """Add records of the current journal, in order."""
        parts, journal = self._parts_here, self._journal
        for record in records:
            kind, _, _, size, n, mono, flow, seq, *_ = record
            if not _FIRST <= kind <= _LAST:
                if kind >= _BUS:
                    self._take_of_bus(record)
                continue
            if kind in _BEGINS and seq:
                self._begins.setdefault((journal, kind, seq), n)
            number, side = flow >> 1, flow & 1
            if not number:
                continue
            part = parts.get(number) or self._meet(number)
            if kind == _SEND:
                self.operations += 1
                if part.ends != _OPEN:
                    self._sent_late(part, record)
                if seq:
                    part.channel.flows[side].send(seq, size, journal, n, mono)
            elif kind == _RECEIVE:
                self.operations += 1
                if part.ends[side] is not None:
                    self._late(part, record, "received", side)
                if seq:
                    self._received(part, record)
            else:
                self._happened(part, record)

    def _take_of_bus(self, record: Record) -> None:
        if record.kind == _LINK_DOWN:
            self.deaths.take(self._journal, record, self._name(record.peer))
        elif record.kind <= _LAST_OF_BUS:
            self.bus.take(self._journal, record, self._name(record.task))

    def findings(
        self, facts: Mapping[int, JournalFacts], among: Iterable[int] | None = None
    ) -> Iterator[Finding]:
        """Yield the violations on channels, given the state of each journal.

        Those of an order are yielded once.

        among: the numbers of the channels to judge, None for all.
        """
        found, self._findings = self._findings, []
        yield from found
        for number in self.channels if among is None else among:
            channel = self.channels[number]
            dead = [journal for journal in channel.journals if facts[journal].died]
            yield from self._asymmetry(channel, any_died=bool(dead))
            ended = all(facts[journal].ended for journal in channel.journals)
            boots = {journal: facts[journal].boot for journal in channel.journals}
            for flow, left, receivers in zip(
                channel.flows, channel.left, channel.receivers, strict=True
            ):
                sender_died = any(journal not in receivers for journal in dead)
                yield from flow.findings(End(left, ended, sender_died, boots))

    def _meet(self, number: int) -> _Part:
        """Return a channel at its first record in this journal."""
        channel = self.channels.get(number)
        if channel is None:
            flows = Flow(number << 1), Flow(number << 1 | 1)
            channel = self.channels[number] = Channel(number, flows)
        channel.journals.append(self._journal)
        part = self._parts_here[number] = _Part(channel)
        return part

    def _happened(self, part: _Part, record: Record) -> None:
        """Add a record that is neither a send nor a receive."""
        channel, side = part.channel, record.flow & 1
        if record.kind == _DROP and record.seq:
            channel.flows[side].drop(record.seq)
        elif record.kind == _CLOSE_LOCAL:
            channel.left[side] = True
            channel.receivers[side].append(self._journal)
            if part.ends[side] is None:
                part.ends[side] = record.n
        elif record.kind in _BEGIN_OF:
            self._met(channel, record)

    def _received(self, part: _Part, record: Record) -> None:
        self.receives += 1
        channel, side, seq, n = part.channel, record.flow & 1, record.seq, record.n
        peak, peak_n = part.peaks[side]
        if seq > peak:
            if not peak:
                channel.receivers[side].append(self._journal)
            part.peaks[side] = seq, n
        elif seq < peak:
            found = self._find("Q2", "overtaken", record, peak_n, other_seq=peak)
            self._findings.append(found)
        channel.flows[side].receive(seq, record.size, self._journal, n, record.mono)

    def _sent_late(self, part: _Part, record: Record) -> None:
        receiver = record.flow & 1
        if part.ends[1 - receiver] is not None:
            self._late(part, record, "sent", 1 - receiver)
        elif part.channel.number < SHARED_CHANNELS:
            self._late(part, record, "accepted", receiver)

    def _late(self, part: _Part, record: Record, case: str, side: int) -> None:
        end = part.ends[side]
        self._findings.append(self._find("Q7", case, record, end))

    def _find(
        self, rule: str, case: str, record: Record, other_n: int | None, **facts: object
    ) -> Finding:
        place = Place(self._journal, record.n, record.mono)
        seq = record.seq or None
        return Finding(rule, case, record.flow, seq, place, other_n, facts)

    def _met(self, channel: Channel, record: Record) -> None:
        place = Place(self._journal, record.n, record.mono)
        task, peer = self._name(record.task), self._name(record.peer)
        met = Meeting(record.kind, place, record.seq, record.port, task, peer)
        if record.kind == RecordKind.ACCEPT_END:
            channel.accepts.append(met)
            channel.names = task, peer
        else:
            channel.connects.append(met)
            channel.names = peer, task
        channel.port = record.port

    def _asymmetry(self, channel: Channel, *, any_died: bool) -> Iterator[Finding]:
        """Check Q1 for one channel; ``any_died``: the process of one journal died."""
        accepts, connects = channel.accepts, channel.connects
        if any_died and len(accepts) + len(connects) == 1:
            return  # killed between the two records
        facts: dict[str, object]
        if len(accepts) != 1 or len(connects) != 1:
            facts = {"accepts": len(accepts), "connects": len(connects)}
            place = next((met.place for met in accepts + connects), None)
            yield Finding("Q1", "count", channel.number << 1, None, place, facts=facts)
            return
        (a,), (c,) = accepts, connects
        if a.port != c.port:
            case, facts = "port", {"accept_port": a.port, "connect_port": c.port}
        elif _differ(a.task, c.peer) or _differ(a.peer, c.task):
            case = "names"
            facts = {"a_task": a.task, "a_peer": a.peer}
            facts |= {"c_task": c.task, "c_peer": c.peer}
        elif self._began_after(a, c):
            case, facts = "interval", {"late": "accept"}
        elif self._began_after(c, a):
            case, facts = "interval", {"late": "connect"}
        else:
            return
        flow = channel.number << 1
        yield Finding("Q1", case, flow, None, a.place, c.place.n, facts)

    def _began_after(self, one: Meeting, other: Meeting) -> bool:
        """Return True if one began to wait after the other ended, in one journal."""
        journal = one.place.journal
        begin = self._begins.get((journal, _BEGIN_OF[one.kind], one.ticket))
        return (
            journal == other.place.journal
            and begin is not None
            and begin > other.place.n
        )


def _differ(one: str, other: str) -> bool:
    """Return True if two names are both known and differ."""
    return bool(one and other) and one != other


@attrs.frozen
class _Death:
    """One record of a death.

    journal: the one that holds it. pid, machine: of the dead process. mono: its time,
    on the machine's clock.
    """

    journal: int
    pid: int
    machine: str
    mono: int


class Deaths:
    """The deaths of processes, as recorded by living ones.

    A killed process closes nothing, so its journal has no end. If another process
    recorded its death, that record is the end: the file holds all that the dead process
    recorded, and it did nothing afterwards.
    """

    def __init__(self) -> None:
        self._deaths: list[_Death] = []

    def take(self, journal: int, record: Record, machine: str) -> None:
        """Add a LINK_DOWN record; ``machine`` is the name for its `peer`."""
        if record.reason == BusReason.DIED:
            death = _Death(journal, record.mid, machine, record.mono)
            self._deaths.append(death)

    def judge(self, facts: dict[int, JournalFacts]) -> dict[int, JournalFacts]:
        """Return the facts of all journals, with `died` set where it applies."""
        return {
            journal: attrs.evolve(each, died=self._is_of_the_dead(each, facts))
            for journal, each in facts.items()
        }

    def _is_of_the_dead(
        self, one: JournalFacts, facts: dict[int, JournalFacts]
    ) -> bool:
        if one.closed or one.last_mono is None:
            return False
        return any(
            death.journal != one.journal
            and (death.pid, death.machine) == (one.pid, one.machine)
            and facts[death.journal].boot == one.boot
            and one.last_mono <= death.mono
            for death in self._deaths
        )
