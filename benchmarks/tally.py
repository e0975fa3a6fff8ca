"""`Tally`: the messages of one receiving process of a `Job`.

A receiver acknowledges messages by bytes in a pipe, the same way for all contestants.
So a sender knows when all messages have arrived, and a lost one is noticed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence, Sized
from itertools import repeat
from pathlib import Path
from threading import Event
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from benchmarks.job import Job

__all__ = ["CREDIT", "DONE", "END", "HERE", "PROBE", "READY", "Tally"]

# Messages of these lengths ask whether the receiver is there, and end the job. Those of
# a job are longer.
PROBE: Final = bytes(8)
END: Final = bytes(9)

# In the pipe: the receiver listens, has a probe, a batch of messages, the end.
READY: Final = b"r"
HERE: Final = b"h"
CREDIT: Final = b"c"
DONE: Final = b"d"

_LIMIT_S: Final = 60.0


class Tally:
    """The messages of one receiver. One thread at a time may call its methods.

    number: of this receiver, from 0.
    done: True after the last message of the job.
    """

    def __init__(self, job: Job, number: int) -> None:
        self.number: Final = number
        self.done = False
        self._job: Final = job
        # What the libraries print must not reach the pipe.
        self._pipe: Final = os.dup(1)
        os.dup2(2, 1)
        self._taken = 0
        self._next_credit = job.batch
        self._delays_ns: list[int] = []
        self._all: Final = Event()
        self._read: Callable[[Any], object] | None = None
        if job.reads:
            import numpy as np  # noqa: PLC0415 # most jobs do not read

            # By words: the loop over single bytes would take longer than the message.
            self._read = lambda payload: np.frombuffer(payload, np.uint64).sum()

    def ready(self) -> None:
        """Tell the near process that it may dial."""
        self._sign(READY)

    def take(self, payload: Sized) -> bool:
        """Count a message, and read its bytes if the job says so.

        payload: any buffer. If the job does not read, only its length matters.

        Returns:
            False if it is not part of the job, and wants no answer.
        """
        if len(payload) <= len(END):
            self._sign_for(payload)
            return False
        if self._read is not None:
            self._read(payload)
        self._taken += 1
        if self._taken == self._next_credit:
            self._next_credit += self._job.batch
            self._sign(CREDIT)
        return True

    def take_value(self, value: Any) -> None:
        """Count a decoded message: its stamp ``t`` is the time of its sending."""
        if value is None:
            self._sign_for(END)
        elif "t" in value:
            self._delays_ns.append(monotonic_ns() - value["t"])
            self.take(range(self._job.size))
        else:
            self._sign_for(PROBE)

    def loop(
        self,
        receive: Callable[[], Any],
        answer: Callable[[Any], object] | None = None,
        *,
        plain: bool = False,
    ) -> None:
        """Receive until the end, for a library that has no callbacks.

        answer: called with each message of the job.
        plain: True if nothing but the receive call may be in the loop.
        """
        take = self.take
        if plain and answer is None:
            take(receive())  # the probe
            others = self._job.batch - 1
            while take(message := receive()):
                for _ in repeat(None, others):
                    message = receive()
                self._taken += others
                if len(message) != self._job.size:
                    raise AssertionError(f"got {len(message)} bytes of {message!r:.40}")
                self._next_credit += self._job.batch
                self._sign(CREDIT)
            return
        while not self.done:
            message = receive()
            if take(message) and answer is not None:
                answer(message)

    def loop_many(self, receive_many: Callable[[], Sequence[bytes]]) -> None:
        """Receive until the end, several messages with each call."""
        self.take(receive_many()[0])  # the probe
        while not self.done:
            messages = receive_many()
            last = messages[-1]
            self._taken += len(messages)
            while self._taken >= self._next_credit:
                self._next_credit += self._job.batch
                self._sign(CREDIT)
            if len(last) == len(END):
                self._sign_for(last)

    def finish(self) -> None:
        """Wait for the end of the job, then until the near process has measured."""
        self._all.wait(_LIMIT_S)
        sys.stdin.read()

    def _sign_for(self, special: Sized) -> None:
        if len(special) == len(PROBE):
            self._sign(HERE)
            return
        if self.done:
            return
        if self._delays_ns:
            report = Path(self._job.folder, f"delays-{self.number}")
            report.write_text(json.dumps(self._delays_ns), encoding="utf-8")
        self.done = True
        self._all.set()
        self._sign(DONE)

    def _sign(self, sign: bytes) -> None:
        os.write(self._pipe, sign)
