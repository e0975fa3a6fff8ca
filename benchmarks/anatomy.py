"""The calls that one message costs: ``python -m benchmarks.anatomy``.

A channel in pure Python spends its time in calls, so this module counts calls: how
often each function is entered for one message that is sent and received in one thread.
It also prints the total time, measured without counting, and the time of an empty call
on this machine. Times by function would be mostly the profiler's own.
"""

from __future__ import annotations

import collections
import statistics
import sys
from itertools import repeat
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks import ours
from benchmarks.machine import machine_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

__all__ = ["calls_of", "main", "nanoseconds"]

_MESSAGE = bytes(64)
_TIMED = 20_000
_COUNTED = 100
_ROUNDS = 7


def main() -> None:
    """Print the time of a message, and its calls."""
    with ours.queues(1024) as (near, far):
        send, receive = near.send, far.receive

        def message() -> None:
            send(_MESSAGE)
            receive()

        message()
        empty_ns = nanoseconds(_empty)
        whole_ns = nanoseconds(message) - empty_ns
        calls = calls_of(message)
    print(machine_line())
    print()
    print(f"{whole_ns:6.0f} ns a message, sent and received in one thread")
    print(f"{empty_ns:6.0f} ns an empty call")
    print()
    for name, count in calls.most_common():
        print(f"{count:6.2f}  {name}")
    print(f"{calls.total():6.2f}  calls a message")


def nanoseconds(work: Callable[[], None]) -> float:
    """Return the median time of one call over some rounds."""
    rounds = []
    for _ in range(_ROUNDS):
        start = perf_counter()
        for _ in repeat(None, _TIMED):
            work()
        rounds.append((perf_counter() - start) / _TIMED * 1e9)
    return statistics.median(rounds)


def calls_of(work: Callable[[], None]) -> collections.Counter[str]:
    """Count the calls, of Python functions and of C ones, that ``work()`` makes.

    ``work`` itself is left out.
    """
    counts: collections.Counter[str] = collections.Counter()

    def count(frame: FrameType, event: str, called: object) -> None:
        if event == "call" and frame.f_code is not work.__code__:
            counts[_python_name(frame.f_code)] += 1
        elif event == "c_call" and called is not sys.setprofile:
            counts[getattr(called, "__qualname__", repr(called)) + " (C)"] += 1

    for _ in range(_COUNTED):
        sys.setprofile(count)
        work()
        sys.setprofile(None)
    return collections.Counter(
        {name: count / _COUNTED for name, count in counts.items()}
    )


def _python_name(code: CodeType) -> str:
    file = code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f"{file.removesuffix('.py')}.{code.co_qualname}"


def _empty() -> None:
    """Do nothing: only the call remains."""


if __name__ == "__main__":
    main()
