"""`AcknowledgementTracker`: remote messages that tasks took, until acknowledged.

Any thread notes the messages that its tasks take; the comm thread collects the notes
and acknowledges the messages to their senders (BUS-RELAY-9). A note wakes the comm
thread if that thread would not wake soon by itself. It also does so if the tasks have
taken so much that a sender may wait for the acknowledgement.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bus.kernel.streams.receipts import Taken
    from bus.kernel.tasks.runs import InboundRun
    from bus.model.message import Incoming
    from bus.process.thread_manager import ThreadManager

__all__ = ["AcknowledgementTracker"]

# After this many seconds, a task that reads on has reported its reads, or hangs in a
# callback.
_LOOK_S: Final = 0.005


class AcknowledgementTracker:
    """Taken messages, and runs of messages that are being read.

    Args:
        messages, length: thresholds, in messages and bytes, for acknowledging at once.

    Attributes:
        wakes_soon: True if the comm thread wakes soon anyway, and acknowledges then.
        check_at: the time of the next check of the runs being read, on the monotonic
            clock in seconds; None for never. A task that hangs in a callback does not
            report its latest reads, so the check is due regardless of other work.
    """

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_messages_max",
        "_read_on",
        "_reading",
        "_taken",
        "check_at",
        "wakes_soon",
    )

    def __init__(self, messages: int, length: int) -> None:
        self._messages_max: Final = messages
        self._bytes_max: Final = length
        self._taken: Final[deque[Taken]] = deque()
        # Bytes of the messages in ``_taken``. Two threads that count at once may count
        # wrong until the next `take`; an acknowledgement then comes a little earlier or
        # later.
        self._bytes: int = 0
        # Runs noted since the last `take`; older runs that a task may still be reading.
        self._reading: Final[deque[InboundRun]] = deque()
        self._read_on: list[InboundRun] = []
        self.wakes_soon: bool = False
        self.check_at: float | None = None

    # For any thread.

    def note(self, message: Incoming) -> bool:
        """Note that a task took, or dropped, a remote message; return True if urgent.

        In an exchange the answer to the message will acknowledge it.
        """
        receipt, size, taken = message._receipt, message._size, self._taken
        taken.append((receipt, message._number, 1, size))
        self._bytes = length = self._bytes + size
        # Called for each message: `_is_much` is inlined unless a run is being read.
        if length >= self._bytes_max or len(taken) >= self._messages_max:
            return True
        if self._reading and self._is_much():
            return True
        return not (self.wakes_soon or receipt.peer.acks.in_exchange)

    def note_run(self, run: InboundRun) -> bool:
        """Note that a task reads, or has read, from a run; return True if urgent.

        The run counts its reads itself, so that no message needs a note of its own.
        """
        self._reading.append(run)
        return not self.wakes_soon or run.at - run.reported >= self._messages_max

    def acknowledges_soon(self, host: ThreadManager | None) -> bool:
        """Return True if the host thread or the comm thread soon acknowledges."""
        if host is None or host.main or host.link_wait is None:
            return False
        return self.wakes_soon  # if it hangs in a callback

    @property
    def due(self) -> bool:
        """True if messages were taken whose acknowledgement cannot wait."""
        return bool(self._taken or self._reading) and (
            not self.wakes_soon or self._is_much()
        )

    def _is_much(self) -> bool:
        """Return True if a sender may wait for the acknowledgement."""
        if self._bytes >= self._bytes_max:
            return True
        read = len(self._taken)
        if self._reading:
            # A copy: a deque cannot be iterated while another thread appends to it.
            read += sum([run.at - run.reported for run in self._reading.copy()])
        return read >= self._messages_max

    # For one thread at a time, under `Rounds.hold`.

    def is_first(self, message: Incoming) -> bool:
        """Return True if the oldest note is that of a message."""
        taken = self._taken
        if not taken:
            return False
        first = taken[0]
        return first[0] is message._receipt and first[1] == message._number

    def take_first(self) -> None:
        """Take out the oldest note."""
        self._bytes -= self._taken.popleft()[3]

    def take(self, now: float) -> list[Taken]:
        """Take out all notes, and the messages read from runs by now."""
        self._bytes = 0
        taken = [self._taken.popleft() for _ in range(len(self._taken))]
        begun = [self._reading.popleft() for _ in range(len(self._reading))]
        runs = dict.fromkeys([*self._read_on, *begun])
        if begun:
            self.check_at = now + _LOOK_S
        elif self.check_at is not None and self.check_at <= now:
            self.check_at = None
        self._read_on = []
        for run in runs:
            told, read = run.reported, run.at
            if read > told:
                assert run.receipt is not None  # notifications are not noted here
                size = run.lengths.part(told, read).total
                taken.append((run.receipt, run.number + told, read - told, size))
                run.reported = read
            if run:  # its task may read on, and then hang in a callback
                self._read_on.append(run)
        return taken
