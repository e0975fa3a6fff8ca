"""`read_messages`: the messages of a bus in a recording, each once, in order of time.

A message has many records. The one at its origin, which accepts it, stands for it here:
COMMAND, RESPOND or NOTIFY with no link crossed. The others only show its course; see
`bus.journal.bus_recorder`.

The order: records of a journal are sorted by its monotonic clock, and journals merged
by the wall clock. Threads draw the number of a record before they read the clock, so a
record may be later than some that follow it. Each thread has at most one such record at
a time. So the records are sorted in batches, and the last `_THREADS_MAX` of each wait
for the next batch. This is exact up to that many threads that write at one instant. A
wall clock that is set back reorders nothing within a journal: such a message keeps its
place there.

The memory does not grow with the messages. It holds the names, one segment while it is
read, and for each journal the packed origins of one segment.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import logging
import operator
import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bus.errors import JournalError
from bus.journal.format import RECORD, RECORD_BYTES, Flag, Record, RecordKind
from bus.journal.reader import StoredJournal, open_journals
from bus.journal.wording import hex64
from bus.model.payload import Payload, decode
from bus.model.specification import Specification

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from bus.journal.stored_segment import StoredSegment

__all__ = ["KINDS", "RecordedMessage", "read_messages", "task_names"]

_log = logging.getLogger("bus.journal")

# Plain numbers: to combine a number with a `Flag` takes as long as to unpack a record.
_PAYLOAD, _TRUNCATED, _ERROR = map(int, (Flag.PAYLOAD, Flag.TRUNCATED, Flag.ERROR))
_NOTIFY, _RESPOND, _REGISTER = map(
    int, (RecordKind.NOTIFY, RecordKind.RESPOND, RecordKind.REGISTER)
)
_ORIGINS: Final = {
    int(RecordKind.COMMAND): "command",
    int(RecordKind.RESPOND): "answer",
    int(RecordKind.NOTIFY): "notification",
}
KINDS: Final = tuple(_ORIGINS.values())

_THREADS_MAX: Final = 64
_BATCH: Final = 4096  # records that are sorted together
_HOP: Final = Record._fields.index("hop")
_MONO: Final = operator.itemgetter(Record._fields.index("mono"))
_Fields = tuple[Any, ...]  # of a `Record`, which takes as long to make as to unpack

# Of each journal, twice as many keys at most are kept to recognize a repeated record.
# The comm thread writes the second record of a notification, after a delay.
_KEYS: Final = 32_768


class RecordedMessage(NamedTuple):
    """One message as its sender sent it; a tuple, which is made the fastest.

    wall_ns: its time on the wall clock; mono: on the monotonic clock of its machine.
    journal, n: the record that accepted it.
    kind: "command", "answer" or "notification".
    sender, receiver: names of tasks, "" if unknown. A notification has no receiver.
    origin: the registration that sent it. mid: its number there; of an answer, that of
      the question.
    size: of the payload in bytes.
    encoded: the payload as the bus encodes it, None if it was not kept; b"" if it was
      kept and not read.
    truncated: True if only the beginning of the payload was kept.
    failed: True for an answer that is an error; the payload is its text.
    """

    wall_ns: int
    mono: int
    journal: int
    n: int
    kind: str
    sender: str
    receiver: str
    origin: int
    mid: int
    size: int
    encoded: bytes | None
    truncated: bool = False
    failed: bool = False

    def payload(self) -> Payload:
        """Return the payload that the sender sent.

        Raises:
            JournalError: it was not kept, or not as a whole.
            WireError: it is damaged.
        """
        if self.encoded is None or self.truncated:
            record = f"record {self.n} of journal {hex64(self.journal)}"
            if self.truncated:
                raise JournalError(
                    f"{record} has only the beginning of a payload of {self.size}"
                    " bytes; record with a larger Journal(payload_bytes_max=)"
                )
            raise JournalError(
                f"{record} has no payload; record with Journal(payloads=True)"
            )
        return decode(self.encoded)


def _log_problem(problem: str) -> None:
    _log.warning("%s", problem)


def read_messages(
    directory: str | os.PathLike[str],
    *,
    names: Iterable[str] = (),
    since_ns: int | None = None,
    until_ns: int | None = None,
    kinds: Collection[str] = KINDS,
    payloads: bool = True,
    on_problem: Callable[[str], object] = _log_problem,
) -> Iterator[RecordedMessage]:
    """Yield the messages of all journals at or below a folder, in order of time.

    A command that is sent on to another task, and a notification to several tasks, is
    one message. Without a payload, a notification counts once for each subscriber in
    the process of its sender: their records have nothing in common.

    names: patterns of task names, as for a subscription. A message is yielded if one
      matches its sender or its receiver; without patterns, all are.
    since_ns, until_ns: times on the wall clock, the first included, the second not.
    kinds: those of `RecordedMessage.kind` to yield.
    payloads: False to read no payloads; it takes half of the time.
    on_problem: called at the end, or when the iteration is abandoned, with each error
      of reading, as one line; the rest is yielded. By default they are logged.

    Raises:
        ValueError: a pattern or a kind is not legal.
        JournalError: as `open_journals`.
    """
    patterns = [Specification.parse(name) for name in names]
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"a kind must be one of {', '.join(KINDS)}, got {kind!r}")
    journals = open_journals(directory)
    chosen = [number for number, kind in _ORIGINS.items() if kind in kinds]
    begin = -1 if since_ns is None else since_ns
    end = 2**63 if until_ns is None else until_ns

    @functools.cache
    def is_selected(name: str) -> bool:
        return bool(name) and any(each.matches(name) for each in patterns)

    def stream(
        place: int, journal: StoredJournal, names: dict[int, str]
    ) -> Iterator[tuple[int, int, RecordedMessage]]:
        """Yield the selected messages of a journal, with their keys of order.

        The key is a time that never falls, and among equal times the index of the
        journal.
        """
        latest = 0
        for batch in _sorted(_first_of_each(_accepts(journal, chosen, names))):
            times = journal.wall_times(list(map(_MONO, batch)))
            for wall_ns, fields in zip(times, batch, strict=True):
                latest = max(latest, wall_ns)
                if not begin <= wall_ns < end:
                    continue
                kind, flags, _, size, n, mono, flow, seq, origin, mid, *_ = fields
                sender = names.get(origin, "")
                receiver = "" if kind == _NOTIFY else names.get(flow, "")
                if patterns and not (is_selected(sender) or is_selected(receiver)):
                    continue
                encoded = None
                if flags & _PAYLOAD:
                    if payloads:
                        encoded = journal.payload_at(seq)
                    elif journal.has_payload_at(seq):
                        encoded = b""
                message = RecordedMessage(
                    wall_ns,
                    mono,
                    journal.id,
                    n,
                    _ORIGINS[kind],
                    sender,
                    receiver,
                    origin,
                    mid,
                    size,
                    encoded,
                    bool(flags & _TRUNCATED),
                    bool(flags & _ERROR),
                )
                yield latest, place, message

    def merged() -> Iterator[RecordedMessage]:
        try:
            names = task_names(journals)
            streams = [stream(*pair, names) for pair in enumerate(journals)]
            for _, _, message in heapq.merge(*streams):
                yield message
        finally:
            for journal in journals:
                for problem in journal.problems:
                    on_problem(problem)

    return merged()


def task_names(journals: Iterable[StoredJournal]) -> dict[int, str]:
    """Return the name of each registration in some journals; "" for a process.

    It reads all of them. A name may stand in another journal than the messages of its
    task, and, as the clocks of two machines differ, at a later time.
    """
    names: dict[int, str] = {}
    for journal in journals:
        names.update(journal.meta.registrations)
        for rows in map(functools.partial(_rows, _REGISTERS), journal.segments()):
            for record in map(Record._make, RECORD.iter_unpack(rows)):
                names.setdefault(record.flow, journal.name(record.task))
    return {number: _encodable(name) for number, name in names.items()}


def _encodable(name: str) -> str:
    """Return a name that any file can hold; in a damaged one it may be no UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()


def _accepts(
    journal: StoredJournal, kinds: Iterable[int], names: dict[int, str]
) -> Iterator[list[_Fields]]:
    """Yield the records that accept a message at its origin, in batches.

    Of a living process, tasks may have registered since `task_names` read the journal.
    """
    pattern = _pattern([*kinds, _REGISTER])
    # By `map`, so that no variable keeps a segment: each takes as much as its file.
    for rows in map(functools.partial(_rows, pattern), journal.segments()):
        records = RECORD.iter_unpack(rows)
        while batch := list(itertools.islice(records, _BATCH)):
            accepts = []
            for fields in batch:
                if fields[0] == _REGISTER:
                    register = Record._make(fields)
                    name = _encodable(journal.name(register.task))
                    names.setdefault(register.flow, name)
                elif not fields[_HOP]:
                    accepts.append(fields)
            yield accepts


def _first_of_each(batches: Iterable[list[_Fields]]) -> Iterator[list[_Fields]]:
    """Yield the first of the records that accept one message.

    A command that is sent on has the number of the first. A notification has one for
    each subscriber in this process, and one for all others; one payload joins them.
    """
    older: set[object] = set()
    newer: set[object] = set()
    for batch in batches:
        first = []
        for fields in batch:
            kind, flags, _, _, _, _, flow, seq, origin, mid, *_ = fields
            key: object
            if kind == _NOTIFY and flags & _PAYLOAD:
                key = seq
            elif kind == _RESPOND:
                # Two askers may have given their questions one number.
                key = kind, origin, mid, flow
            else:
                key = kind, origin, mid
            if key in newer or key in older:
                continue
            newer.add(key)
            first.append(fields)
            if len(newer) > _KEYS:
                older, newer = newer, set()
        yield first


def _sorted(batches: Iterable[list[_Fields]]) -> Iterator[list[_Fields]]:
    """Sort the records of a journal by time; the module explains why this is exact."""
    waiting: list[_Fields] = []
    for batch in batches:
        waiting += batch
        waiting.sort(key=_MONO)  # stable: among equal times by number
        yield waiting[:-_THREADS_MAX]
        waiting = waiting[-_THREADS_MAX:]
    yield waiting


def _rows(kinds: re.Pattern[bytes], segment: StoredSegment) -> bytearray:
    """Return the valid slots with records of some kinds.

    The kinds are found in C. To unpack each record would take seven times as long: few
    are origins.
    """
    body, invalid = segment.body, frozenset(segment.invalid)
    rows = bytearray()  # to join a list of slices would take thrice the memory
    for match in kinds.finditer(body[::RECORD_BYTES]):
        slot = match.start()
        if slot not in invalid:
            rows += body[slot * RECORD_BYTES : (slot + 1) * RECORD_BYTES]
    return rows


def _pattern(kinds: Iterable[int]) -> re.Pattern[bytes]:
    """Return a pattern of one byte that matches some kinds; of none, nothing."""
    listed = b"".join(re.escape(bytes((kind,))) for kind in kinds)
    return re.compile(b"[%b]" % listed if listed else b"(?!)")


_REGISTERS: Final = _pattern([_REGISTER])
