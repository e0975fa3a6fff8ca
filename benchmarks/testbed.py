"""`Testbed`: two machines for a job, and the interface of a contestant between them.

A contestant is a module with ``NAME``, ``VERSION`` and three functions:

``service(testbed)``: a context on the far machine, entered before the clock starts. It
  runs a server, or makes keys of another kind, if the library needs them.
``near(testbed, job)``: returns the `Near` side, once no message would be lost.
``far(testbed, job, arrivals, over)``: the far side. It passes each message to
  `Arrivals.take`, answers it if the job is "echo", and returns after ``over()``, which
  blocks until the near side has closed.

Both sides start at the same moment, so the near side may dial before the far one
listens.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Final

import attrs

__all__ = ["Arrivals", "Near", "Over", "Testbed", "percentiles_s"]

Over = Callable[[], object]

_PERCENTS: Final = (50, 99)


@attrs.frozen
class Testbed:
    """The addresses of both machines, and the keys of the links between them.

    near, far: the IP addresses.
    folder: a folder of both, with ``near.keys`` and ``far.keys`` if the links are
      encrypted.
    secure: True if they are.
    """

    near: str
    far: str
    folder: Path = attrs.field(converter=Path)
    secure: bool

    def keys(self, machine: str) -> Path:
        """Return the folder of keys of a machine, "near" or "far"."""
        return self.folder / f"{machine}.keys"

    def certificate(self, machine: str) -> str:
        """Return the file with the private key and the certificate of a machine."""
        return str(self.keys(machine) / "machine.pem")

    def authority(self, machine: str) -> str:
        """Return the file with the authority that a machine trusts."""
        return str(self.keys(machine) / "trusted.pem")


@attrs.frozen
class Near:
    """The side that sends, and measures.

    stream: sends that many messages, without an answer.
    trips: sends that many messages, each after the answer to the one before; returns
      the duration of each in nanoseconds.
    """

    stream: Callable[[bytes, int], object]
    trips: Callable[[bytes, int], list[int]]
    close: Callable[[], object]

    @classmethod
    def of_calls(
        cls,
        send: Callable[[bytes], object],
        ask: Callable[[bytes], object],
        close: Callable[[], object],
    ) -> Near:
        """Return the near side of a library whose calls block."""

        def stream(message: bytes, count: int) -> None:
            for _ in repeat(None, count):
                send(message)

        def trips(message: bytes, count: int) -> list[int]:
            taken_ns = []
            for _ in repeat(None, count):
                start = perf_counter_ns()
                ask(message)
                taken_ns.append(perf_counter_ns() - start)
            return taken_ns

        return cls(stream, trips, close)


class Arrivals:
    """The messages that arrive at the far side: the first one, then ``count`` more.

    The times of the first and of the last one are printed. Both sides read the same
    clock.
    """

    def __init__(self, count: int) -> None:
        self.expected: Final = count + 1
        self._taken = 0

    def take(self, _: object) -> None:
        """Count a message."""
        self._taken += 1
        if self._taken in {1, self.expected}:
            print(perf_counter(), flush=True)


def percentiles_s(taken_ns: list[int]) -> list[float]:
    """Return the 50th and the 99th percentile, in seconds."""
    parts = statistics.quantiles(taken_ns, n=100)
    return [parts[percent - 1] / 1e9 for percent in _PERCENTS]
