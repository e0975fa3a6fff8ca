"""`QuickSends`: recognises messages that follow each other quickly.

A system call takes ten times as long as a short message, so the sender keeps such
messages and writes many at once: `LinkWriter`, and the nodes of `bus.pattern`. The
first ones are written one by one: a thread that sends a few messages in a row waits for
no other thread, and nor does its peer. If the sender stops, a driver writes the rest.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

__all__ = ["FlushSoon", "QuickSends"]

# Messages follow each other quickly if at most this time passes between two, in
# seconds. After so many of these, the next ones share writes.
_QUICK_S: Final = 5e-5
_IN_A_ROW_MIN: Final = 8
_IN_A_ROW_MAX: Final = 64
# A message is kept for about this long at most, in seconds.
_KEPT_S: Final = 1e-3


class FlushSoon(Protocol):
    """Has another thread call a function."""

    def __call__(self, flush: Callable[[], object], delay_s: float = 0.0, /) -> object:
        """Call ``flush`` in ``delay_s`` seconds, for any thread."""


class QuickSends:
    """The messages of one sender that follow each other quickly.

    Args:
        lock: that of the sender, who holds it for each method.

    Attributes:
        in_a_row: how many messages were sent quickly one after the other.
    """

    __slots__ = ("_groups", "_is_due", "_lock", "_sent_at", "in_a_row")

    def __init__(self, lock: _thread.RLock) -> None:
        self._lock: Final = lock
        self.in_a_row: int = 0
        self._sent_at: float = 0.0
        self._groups: int = 0  # how many groups of messages were begun
        self._is_due: bool = False  # True while another thread is to call `_review`

    def may_share(self, *, ends_group: bool) -> bool:
        """Note that a message is sent; return True if it may share a write with others.

        ends_group: True if as many messages as may share a write were kept before it.
        """
        now = _sync.monotonic()
        is_quick, self._sent_at = now - self._sent_at < _QUICK_S, now
        if ends_group:
            self.in_a_row = _IN_A_ROW_MAX
            return True
        if not is_quick:
            self.in_a_row //= 2  # not 0: a stream may stop for a moment
            return False
        if self.in_a_row < _IN_A_ROW_MAX:
            self.in_a_row += 1
        return self.in_a_row > _IN_A_ROW_MIN

    def begin_group(self, flush_soon: FlushSoon, flush: Callable[[], object]) -> None:
        """Note that the sender is about to keep the first message of a group.

        flush: writes the kept messages; called in another thread, without the lock.
        """
        self._groups += 1
        if not self._is_due:
            # Before the message is kept: an interrupt in between must not leave a
            # message that no thread writes.
            flush_soon(partial(self._review, self._groups, flush_soon, flush))
            self._is_due = True

    def _review(
        self, groups: int, flush_soon: FlushSoon, flush: Callable[[], object]
    ) -> None:
        """Write the kept messages, unless the sender goes on and does that itself.

        groups: how many there were at the last review. Two threads that alternate for
          each write would take longer than the write.
        """
        with self._lock:
            if self._groups != groups:
                again = partial(self._review, self._groups, flush_soon, flush)
                flush_soon(again, _KEPT_S)
                return
            # Before the flush: a message that is kept after it finds no review due.
            self._is_due = False
        flush()
