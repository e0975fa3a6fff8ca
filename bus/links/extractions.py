"""`Extractions`: what tasks have taken of what came over links, until that is told.

Any thread notes what its tasks take; the comm thread takes the notes in and tells the
senders (BUS-RELAY-9). It is woken for that only if it does not wake soon anyway, or if
it is so much that a sender may wait for it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bus.core.command_run import CommandRun
    from bus.core.receipts import Taken
    from bus.message import Incoming

__all__ = ["Extractions"]

# After so long a task that reads on has told what it reads, or hangs in a callback.
_LOOK_S: Final = 0.005


class Extractions:
    """Messages that were taken, and runs of them that are being read.

    Args:
        messages, length: as much, in messages or in bytes, is not to wait.

    Attributes:
        awaited: whether the comm thread wakes soon anyway, and tells what is here.
        look_at: when it is to look at what is being read once more, whatever else there
            is to do, on the monotonic clock in seconds: a task that hangs in a callback
            tells nothing of what it has read just before. None for never.
    """

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_messages_max",
        "_read_on",
        "_reading",
        "_taken",
        "awaited",
        "look_at",
    )

    def __init__(self, messages: int, length: int) -> None:
        self._messages_max: Final = messages
        self._bytes_max: Final = length
        self._taken: Final[deque[Taken]] = deque()
        # Of those in ``_taken``. Two threads that count at once may count too little;
        # then it is acknowledged a little later.
        self._bytes: int = 0
        # Of what a task reads; after that, what it may be reading still.
        self._reading: Final[deque[CommandRun]] = deque()
        self._read_on: list[CommandRun] = []
        self.awaited: bool = False
        self.look_at: float | None = None

    # For any thread.

    def note(self, message: Incoming) -> None:
        """Note that a task took, or dropped, a message that came over a link."""
        taken = (message._receipt, message._number, 1, message._size)
        self._taken.append(taken)
        self._bytes += message._size

    def note_run(self, run: CommandRun) -> bool:
        """Note that a task reads, or has read, of a run; whether that is not to wait.

        The run counts itself how much that is, so that it need not be told for each
        message.
        """
        self._reading.append(run)
        return not self.awaited or run.at - run.told >= self._messages_max

    @property
    def due(self) -> bool:
        """Whether anything was taken, and so much that it is not to wait."""
        return self.is_due(watched=False)

    def is_due(self, *, watched: bool) -> bool:
        """As `due`.

        watched: whether the answer to the last message taken will acknowledge it.
        """
        if not (self._taken or self._reading):
            return False
        if not (self.awaited or watched) or self._bytes >= self._bytes_max:
            return True
        read = len(self._taken)
        if self._reading:
            read += sum([run.at - run.told for run in self._reading.copy()])
        return read >= self._messages_max

    # For one thread at a time, under `Bypass.hold`.

    def take_lone(self) -> list[Taken]:
        """Take out what was taken, if that is one message and no run is being read."""
        if len(self._taken) != 1 or self._reading or self._read_on:
            return []
        self._bytes = 0
        return [self._taken.popleft()]

    def take(self, now: float) -> list[Taken]:
        """Take out what was taken since, and what was read of runs by now."""
        self._bytes = 0
        taken = [self._taken.popleft() for _ in range(len(self._taken))]
        begun = [self._reading.popleft() for _ in range(len(self._reading))]
        runs = dict.fromkeys([*self._read_on, *begun])
        if begun:
            self.look_at = now + _LOOK_S
        elif self.look_at is not None and self.look_at <= now:
            self.look_at = None
        self._read_on = []
        for run in runs:
            told, read = run.told, run.at
            if read > told:
                size = run.lengths.part(told, read).total
                taken.append((run.receipt, run.number + told, read - told, size))
                run.told = read
            if run:  # it may hang in a callback, and have gone on before that
                self._read_on.append(run)
        return taken
