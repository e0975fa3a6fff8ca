"""`Recorded`: the journals of a simulated world, held to the rules of the bus.

Each life of a process has its own journal, written by the recorder of real processes. A
process that dies leaves its journal without an end. At rest no message is under way. So
a living process is judged as if its journal never ended: by then, each accepted message
must have an outcome.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bus.journal.bus_recorder import BusRecorder
from bus.journal.bus_traffic import BusTraffic, sort_of
from bus.journal.format import RECORD_VERSION, Flag, Record
from bus.journal.reader import JournalFacts
from bus.journal.rules import SORTS
from bus.model.events import BusOperation, BusReason
from tests.simulate.checks import hold
from tests.simulate.counters import BrokenPromiseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.journal.violation import Finding
    from tests.simulate.process import SimProcess
    from tests.simulate.world import World

__all__ = ["Recorded"]


class Recorded:
    """The journals of all lives of all processes of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._journals: list[_Journal] = []

    def begin(self, process: SimProcess) -> BusRecorder:
        """Return the recorder of a process that starts."""
        journal = _Journal(self._world, process, len(self._journals))
        self._journals.append(journal)
        recorder = BusRecorder(journal.emit, journal.name)
        recorder.on_registered(process.life, "")
        return recorder

    def records(self) -> Iterator[Record]:
        """Yield the records, one journal after the other."""
        for journal in self._journals:
            yield from journal.records

    def rest(self) -> None:
        """Check the rules, once nothing is under way.

        Raises:
            BrokenPromiseError: one of B1 to B6 is violated, a message was read
            but
              not recorded, or recorded but not read, or a journal is wrong about a link
              or the death of a process.
        """
        traffic = BusTraffic()
        for journal in self._journals:
            self._see_links(journal)
            for record in journal.records:
                traffic.take(journal.number, record, journal.names[record.task])
        facts = {journal.number: journal.facts() for journal in self._journals}
        for finding in traffic.findings(facts):
            raise BrokenPromiseError(self._words(finding, traffic))
        self._see_deliveries()

    def _see_deliveries(self) -> None:
        processes = {journal.process.life for journal in self._journals}
        reported = Counter(
            sort_of(record.flags)
            for record in self.records()
            if record.kind == BusOperation.DELIVER and record.flow not in processes
        )
        counters = self._world.counters
        commands = counters.commands.values()
        done = {
            0: sum(each.taken_by is not None for each in commands),
            int(Flag.NOTIFICATION): sum(counters.received.values()),
            int(Flag.ANSWER): sum(each.answers for each in commands),
        }
        for sort, count in done.items():
            words = f"{SORTS[sort]}: {count} are read, {reported[sort]} reported"
            hold(reported[sort] == count, words)

    def _see_links(self, journal: _Journal) -> None:
        process = journal.process
        alive = {each.life for each in self._world.living()}
        up = set[int]()
        for record in journal.records:
            who = f"{journal.names[record.task]}, for {process.name},"
            if record.kind == BusOperation.LINK_UP:
                hold(record.mid not in up, f"{who} appears twice")
                up.add(record.mid)
            elif record.kind == BusOperation.LINK_DOWN:
                hold(record.mid in up, f"{who} goes and was not there")
                up.remove(record.mid)
                died = record.reason == BusReason.DIED
                hold(not (died and record.mid in alive), f"{who} is dead, and lives")
        if process.alive:
            peers = process.remote.topology.peers.values()
            ready = {each.session.incarnation for each in peers if each.session.ready}
            hold(ready == up, f"{process.name} is linked with {ready}, and tells {up}")

    def _words(self, finding: Finding, traffic: BusTraffic) -> str:
        """Return the violation, with all records of the message."""
        origin, sort = finding.origin, finding.sort
        assert origin is not None
        assert sort is not None
        reported = sorted(
            (record.mono, journal.number, record.n, _step(journal, record))
            for journal in self._journals
            for record in journal.records
            if (record.origin, record.mid) == (origin, finding.seq)
            and sort_of(record.flags) == sort
        )
        sender, receiver = (
            f"{traffic.lifetimes.names.get(each) or 'process'} {each}"
            for each in (origin, finding.flow)
        )
        steps = "; ".join(each[-1] for each in reported)
        return (
            f"{finding.rule}: {SORTS[sort]} {finding.seq} of {sender} for {receiver}:"
            f" {finding.explanation} ({steps})"
        )


class _Journal:
    """The journal of one life of a process, with the methods that a recorder calls."""

    def __init__(self, world: World, process: SimProcess, number: int) -> None:
        self._world = world
        self.process = process
        self.number = number
        self.records: list[Record] = []
        self.names: list[str] = [""]

    def name(self, text: str) -> int:
        self.names.append(text)
        return len(self.names) - 1

    def emit(
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
        self.records.append(
            Record(
                kind,
                flags,
                reason,
                size,
                len(self.records),
                int(self._world.now * 1e9),
                flow,
                seq,
                origin,
                mid,
                task,
                peer,
                wait_us,
                depth,
                0,
                hop,
                RECORD_VERSION,
                0,
            )
        )

    def facts(self) -> JournalFacts:
        """Return facts for the rules: nothing was lost, and only a death is an end."""
        return JournalFacts(
            journal=self.number,
            records=len(self.records),
            first=0,
            last=len(self.records) - 1,
            holes=0,
            lost=0,
            damaged=0,
            closed=False,
            late=False,
            segments=1,
            sealed=0,
            boot="world",
            died=not self.process.alive,
        )


def _step(journal: _Journal, record: Record) -> str:
    where = f"{record.mono / 1e9:.4f} {journal.process.name} {journal.process.life}"
    words = f"{where} {BusOperation(record.kind).name} for {record.flow}"
    return f"{words}, {BusReason(record.reason).name}" if record.reason else words
