"""`Receivers`: the receiving processes of a job, and how far each of them is."""

from __future__ import annotations

import os
import select
import subprocess
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

import attrs

from benchmarks.multicast_job import CREDIT, HERE, PROBE
from benchmarks.program import command, start_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from benchmarks.multicast_job import MulticastJob

__all__ = ["Receivers", "StalledError"]

_START_S: Final = 30.0
_END_S: Final = 5.0
_PROBE_AGAIN_S: Final = 0.005
_PIPE_BYTES: Final = 4096


class StalledError(Exception):
    """A receiver acknowledges nothing more: a message is lost."""


@attrs.define
class _Receiver:
    process: subprocess.Popen[str]
    pipe: int
    is_here: bool = False
    taken: int = 0


class Receivers:
    """The receivers of one job, which end with the block.

    module, arguments: the program of each; it gets the number of the receiver and the
      descriptor of its pipe as two further arguments.
    stall_s: after this many seconds without an acknowledgement a message is lost.
    """

    def __init__(
        self, job: MulticastJob, module: str, *arguments: str, stall_s: float = 3.0
    ) -> None:
        self._job: Final = job
        self._program: Final = (module, *arguments)
        self.stall_s: Final = stall_s
        self._stack: Final = ExitStack()
        self._all: list[_Receiver] = []

    def __enter__(self) -> Self:
        try:
            for number in range(self._job.receivers):
                self._start(number)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self._all:  # so that they end at the same time
            assert each.process.stdin is not None
            each.process.stdin.close()
        self._stack.close()

    @property
    def delivered(self) -> int:
        """The number of messages that all receivers have acknowledged."""
        return min(each.taken for each in self._all)

    def reach(self, send: Callable[[bytes], object]) -> None:
        """Send probes until each receiver has got one.

        Raises:
            RuntimeError: a receiver ended, or got none in time.
        """
        deadline = monotonic() + _START_S
        while not all(each.is_here for each in self._all):
            if monotonic() > deadline:
                raise RuntimeError(f"no probe arrived within {_START_S:g} s")
            if any(each.process.poll() is not None for each in self._all):
                raise RuntimeError("a receiver ended before its first message")
            send(PROBE)
            absent = [each.pipe for each in self._all if not each.is_here]
            select.select(absent, [], [], _PROBE_AGAIN_S)
            for each in self._all:
                self._read(each)

    def wait_until_quiet(self, seconds: float) -> None:
        """Wait until no receiver has acknowledged a message for some time."""
        pipes = [each.pipe for each in self._all]
        while select.select(pipes, [], [], seconds)[0]:
            for each in self._all:
                self._read(each)

    def room_after(self, sent: int) -> int:
        """Return how many messages may be sent in all, at least ``sent + 1``.

        Raises:
            StalledError: there is no room, and a receiver acknowledges nothing more.
        """
        self.wait_for(sent + 1 - self._job.window)
        return self.delivered + self._job.window

    def wait_for(self, count: int) -> None:
        """Wait until all receivers have acknowledged that many messages.

        Raises:
            StalledError: a receiver acknowledges nothing more.
        """
        for each in self._all:
            while each.taken < count:
                if self._read(each):
                    continue
                if not select.select([each.pipe], [], [], self.stall_s)[0]:
                    for other in self._all:  # for `delivered`
                        self._read(other)
                    raise StalledError(f"no acknowledgement for {self.stall_s:g} s")

    def reports(self) -> list[list[float]]:
        """Return the report of each receiver; see `Tally.finish`."""
        lines = []
        for each in self._all:
            assert each.process.stdout is not None
            lines.append(each.process.stdout.readline())
        return [[float(number) for number in line.split()] for line in lines]

    def _start(self, number: int) -> None:
        reading, writing = os.pipe()
        self._stack.callback(os.close, reading)
        os.set_blocking(reading, False)
        try:
            program = command(*self._program, number, writing)
            process = start_program(program, pass_fds=[writing])
        finally:
            os.close(writing)
        self._stack.callback(_end, process)
        self._all.append(_Receiver(process, reading))

    def _read(self, receiver: _Receiver) -> bool:
        """Read the acknowledgements of a receiver that are there; False if none is.

        Raises:
            RuntimeError: the receiver has ended.
        """
        try:
            signs = os.read(receiver.pipe, _PIPE_BYTES)
        except BlockingIOError:
            return False
        if not signs:
            raise RuntimeError("a receiver ended before the job")
        receiver.is_here |= HERE in signs
        taken = receiver.taken + signs.count(CREDIT) * self._job.batch
        receiver.taken = min(taken, self._job.total)
        return True


def _end(process: subprocess.Popen[str]) -> None:
    with process:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
