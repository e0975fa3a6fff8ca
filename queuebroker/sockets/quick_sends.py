"""`QuickSends`: recognises messages that follow each other quickly.

A system call takes ten times as long as a short message. So the sender gathers such
messages, and writes many at once: `LinkWriter`, and the nodes of `bus.pattern`. The
first ones are written one by one: a thread that sends a few messages in a row depends
on no other thread. If the sender stops, a driver writes the rest.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

__all__ = ["GATHERED_S", "FlushSoon", "QuickSends"]

# Messages follow each other quickly if at most this time passes between two, in
# seconds. After more than `_IN_A_ROW_MIN` of these, the next ones share writes. A pause
# halves their number, which counts up to `_IN_A_ROW_MAX`.
_QUICK_S: Final = 5e-5
_IN_A_ROW_MIN: Final = 8
_IN_A_ROW_MAX: Final = 64
# A message is gathered for about this long at most, in seconds.
GATHERED_S: Final = 1e-3


class FlushSoon(Protocol):
    """Has another thread call a function."""

    def __call__(self, flush: Callable[[], object], delay_s: float = 0.0, /) -> object:
        """Call ``flush`` in ``delay_s`` seconds, for any thread."""


class QuickSends:
    """The messages of one sender that follow each other quickly.

    Args:
        lock: guards all of this; its holder calls the methods.

    Attributes:
        in_a_row: how quickly messages have followed each other so far.
    """

    __slots__ = ("_due", "_groups", "_lock", "_sent_at", "in_a_row")

    def __init__(self, lock: _thread.RLock) -> None:
        self._lock: Final = lock
        self.in_a_row: int = 0
        self._sent_at: float = 0.0
        self._groups: int = 0  # how many groups of messages were begun
        # The one that is to call `_review`, if a call is due. A sender that has lost
        # one thread may have another by now.
        self._due: FlushSoon | None = None

    def may_share(self, *, goes_on: bool) -> bool:
        """Note that a message is sent; return True if it may share a write with others.

        goes_on: True if messages before it are gathered.
        """
        now = _sync.monotonic()
        is_quick, self._sent_at = now - self._sent_at < _QUICK_S, now
        if goes_on:
            self.in_a_row = _IN_A_ROW_MAX
            return True
        if not is_quick:
            self.in_a_row //= 2  # not 0: a stream may stop for a moment
            return False
        if self.in_a_row < _IN_A_ROW_MAX:
            self.in_a_row += 1
        return self.in_a_row > _IN_A_ROW_MIN

    def begin_group(self, flush_soon: FlushSoon, flush: Callable[[], object]) -> None:
        """Note that the sender is about to gather the first message of a group.

        flush: writes the gathered messages; called by another thread, without the lock.
        """
        self._groups += 1
        if self._due != flush_soon:
            # Before the message is gathered: an interrupt in between must not leave a
            # message that no thread writes.
            flush_soon(partial(self._review, self._groups, flush_soon, flush))
            self._due = flush_soon

    def _review(
        self, groups: int, flush_soon: FlushSoon, flush: Callable[[], object]
    ) -> None:
        """Write the gathered messages, unless the sender goes on and does that itself.

        groups: how many there were at the last check. Two threads that alternate for
          each write would take longer than the write.
        """
        with self._lock:
            self._due = None
            if self._groups != groups:
                again = partial(self._review, self._groups, flush_soon, flush)
                with suppress(MemoryError):
                    flush_soon(again, GATHERED_S)
                    self._due = flush_soon
                    return
        flush()
