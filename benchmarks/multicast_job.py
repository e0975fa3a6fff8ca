"""`MulticastJob`: one sender and some receivers, and the messages between them."""

from __future__ import annotations

import json
from typing import Final, Literal

import attrs

__all__ = ["CREDIT", "HERE", "PROBE", "Kind", "MulticastJob"]

# A message of this length only asks whether the receiver is there.
PROBE: Final = bytes(8)
# In the pipe of a receiver: a probe has arrived, and a batch of messages.
HERE: Final = b"h"
CREDIT: Final = b"c"

# notify: from one process to all. command: one way to a single receiver. echo: to a
# single receiver and back. camera: as notify, at a fixed rate, with a stamp in each.
# bus: from one node of a bus to all others. slow: the same without acknowledgements,
# to receivers that take their time.
Kind = Literal["notify", "command", "echo", "camera", "bus", "slow"]

_OUTSTANDING_BYTES: Final = 8 << 20
_OUTSTANDING_MIN: Final = 4  # messages
_CREDITS_IN_A_WINDOW: Final = 16
_ECHO_SIZES: Final = tuple(64 << shift for shift in range(0, 20, 2))
_ECHO_FULL_BYTES: Final = 1 << 16  # larger messages are echoed less often
_ECHOES_MIN: Final = 10


@attrs.frozen
class MulticastJob:
    """One job, as all its processes know it.

    count: the number of messages; for "echo" that of each small size.
    size: the length of each message in bytes, at least 64; for "echo" the largest one.
    receivers: the number of receiving processes; 1 for "command" and "echo".
    reads: True if each receiver reads all bytes of each message.
    window_max: the greatest `window` of messages of any length; a power of two.
    """

    kind: Kind
    count: int
    size: int
    receivers: int = 1
    reads: bool = False
    window_max: int = 1024

    @property
    def text(self) -> str:
        """The job as one argument of a program; see `of_text`."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def of_text(cls, text: str) -> MulticastJob:
        """Return the job of `text`."""
        return cls(**json.loads(text))

    @property
    def window(self) -> int:
        """How many messages the sender is ahead of the slowest receiver, at most.

        A power of two, since some libraries want that of their buffers.
        """
        room = max(_OUTSTANDING_MIN, _OUTSTANDING_BYTES // self.size)
        return min(self.window_max, room)

    @property
    def batch(self) -> int:
        """The number of messages that a receiver acknowledges together."""
        if self.kind == "slow":
            return 1
        return max(1, self.window // _CREDITS_IN_A_WINDOW)

    @property
    def echoes(self) -> list[tuple[int, int]]:
        """The sizes of an "echo" in bytes, and the number of round trips of each."""
        return [
            (
                size,
                max(
                    _ECHOES_MIN, min(self.count, self.count * _ECHO_FULL_BYTES // size)
                ),
            )
            for size in _ECHO_SIZES
            if size <= self.size
        ]

    @property
    def total(self) -> int:
        """The number of messages that each receiver gets."""
        if self.kind == "echo":
            return sum(trips for _, trips in self.echoes)
        return self.count
