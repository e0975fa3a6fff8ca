"""Suite ``journal``: J1, the cost of a record, and of a message that is not recorded.

The rival `bare` does the least work of any recorder in Python: it puts the same facts,
the time and a number into a tuple, and appends it to a deque. Nothing reaches a disk.
"""

from __future__ import annotations

import collections
import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from time import monotonic_ns, perf_counter

from benchmarks.contest import Contest, Effort, Row
from benchmarks.figure import OURS
from benchmarks.rivals.our_queue import queues
from bus.journal.writer import Journal
from queuebroker import Observer
from queuebroker.observer import Operation, Reason

_RECORDS = 300_000
_CHUNKS = 100
_CHUNK_MESSAGES = 1_000
_MESSAGE = bytes(64)

# Two rounds of one and the same loop differ by this much on a quiet machine.
_NOISE = 1.05


def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
    """Return J1 with recording on and off."""
    records, chunks = effort.amount(_RECORDS), effort.amount(_CHUNKS)
    return [
        Contest(
            [Row("J1", "on", "ns/record", {"bare": 2.3})],
            {
                OURS: lambda: {"value": _journal_ns(records)},
                "bare": lambda: {"value": _deque_ns(records)},
            },
        ),
        Contest(
            [Row("J1", "off", "ns/message", {"bare": _NOISE})],
            {
                OURS: lambda: {"value": _unobserved_beside_journal_ns(chunks)},
                "bare": lambda: {"value": _unobserved_ns(chunks)},
            },
        ),
    ], []


@contextmanager
def _journal() -> Iterator[Journal]:
    """Record into a folder of its own, and check that no record was lost."""
    with (
        tempfile.TemporaryDirectory(prefix="journal-") as folder,
        Journal(folder) as journal,
    ):
        yield journal
        if journal.lost:
            raise AssertionError(f"the journal lost {journal.lost} records")


def _journal_ns(count: int) -> float:
    with _journal() as journal:
        return _observe_ns(journal.observe, count)


def _deque_ns(count: int) -> float:
    append = collections.deque[tuple[object, ...]]().append
    number = itertools.count().__next__

    def observe(
        operation: Operation,
        channel: int,
        direction: int,
        seq: int,
        size: int,
        depth: int,
        waited_ns: int,
        local: str,
        remote: str,
        port: int,
        reason: Reason,
        /,
    ) -> None:
        append(
            (
                operation,
                channel,
                direction,
                seq,
                size,
                depth,
                waited_ns,
                local,
                remote,
                port,
                reason,
                monotonic_ns(),
                number(),
            )
        )

    return _observe_ns(observe, count)


def _observe_ns(observe: Observer, count: int) -> float:
    """Report ``count`` sends to an observer; return the time of each in ns."""
    send, none = Operation.SEND, Reason.NONE
    start = perf_counter()
    for seq in range(1, count + 1):
        observe(send, 7, 1, seq, 64, 3, 0, "near", "far", 5, none)
    return (perf_counter() - start) / count * 1e9


def _unobserved_beside_journal_ns(chunks: int) -> float:
    """Send and receive unobserved while another connection is being recorded."""
    with _journal() as journal, queues(4, observer=journal.observe) as (near, far):
        near.send(_MESSAGE)
        far.receive()
        return _unobserved_ns(chunks)


def _unobserved_ns(chunks: int) -> float:
    """Send and receive in one thread; return the minimum time of a message in ns.

    Thread switches and other programs add more time than the difference to be measured,
    and never subtract any. So the job uses one thread, and the best of many chunks.
    """
    with queues(capacity=4) as (near, far):
        return min(_chunk_ns(near.send, far.receive) for _ in range(chunks))


def _chunk_ns(send: Callable[[bytes], object], receive: Callable[[], bytes]) -> float:
    start = perf_counter()
    for _ in repeat(None, _CHUNK_MESSAGES):
        send(_MESSAGE)
        receive()
    return (perf_counter() - start) / _CHUNK_MESSAGES * 1e9
