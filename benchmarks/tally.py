"""`Tally`: the messages of one receiver of the suite ``multicast``.

A receiver acknowledges messages by bytes in a pipe, the same way for all contestants.
So no library loses a message because its sender is too fast, and a message that is lost
nevertheless is noticed.
"""

from __future__ import annotations

import os
import sys
from struct import unpack_from
from threading import Event
from time import monotonic_ns, process_time
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.multicast_job import CREDIT, HERE, PROBE

if TYPE_CHECKING:
    from collections.abc import Sized

    from benchmarks.multicast_job import MulticastJob

__all__ = ["Tally"]

_LIMIT_S: Final = 60.0
_SLOW_NS: Final = 100_000  # how long a slow receiver works on each message


class Tally:
    """The messages of one receiver. One thread at a time may call `take`.

    number: of this receiver, from 0.
    descriptor: the pipe for acknowledgements.
    done: True if all messages of the job have arrived.
    """

    def __init__(self, job: MulticastJob, number: int, descriptor: int) -> None:
        self.number: Final = number
        self.done = False
        self._job: Final = job
        self._pipe: Final = descriptor
        self._total: Final = job.total
        self._stamped: Final = job.kind == "camera"
        self._taken = 0
        self._next_credit = min(job.batch, self._total)
        self._began_s = 0.0
        self._delays_ns: list[int] = []
        self._all: Final = Event()

    def take(self, payload: Sized) -> bool:
        """Count a message, and read its bytes if the job says so.

        payload: any buffer. If the job does not read, only its length matters.

        Returns:
            False if it is a probe, which counts for nothing.
        """
        if len(payload) == len(PROBE):
            os.write(self._pipe, HERE)
            return False
        if not self._taken:
            self._began_s = process_time()
        if self._stamped:
            [stamp] = unpack_from("<q", payload)  # type: ignore[arg-type]
            self._delays_ns.append(monotonic_ns() - stamp)
        if self._job.reads:
            # By words: the loop over single bytes would take longer than the message.
            np.frombuffer(payload, np.uint64).sum()  # type: ignore[call-overload]
        if self._job.kind == "slow":
            until = monotonic_ns() + _SLOW_NS
            while monotonic_ns() < until:
                pass
        self._taken += 1
        if self._taken == self._next_credit:
            self._acknowledge()
        return True

    def finish(self) -> None:
        """Wait for all messages; print the report; wait until the sender is done.

        The report is the processor time since the first message, in seconds, and the
        delay of each stamped message in nanoseconds.
        """
        self._all.wait(_LIMIT_S)
        used_s = process_time() - self._began_s
        print(used_s, *self._delays_ns, flush=True)
        sys.stdin.read()

    def _acknowledge(self) -> None:
        self._next_credit = min(self._taken + self._job.batch, self._total)
        if self._taken == self._total:
            self.done = True
            self._all.set()
        os.write(self._pipe, CREDIT)
