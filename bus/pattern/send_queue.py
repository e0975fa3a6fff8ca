"""`SendQueue`: the frames that wait for one peer, and their exclusive flush."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from bus.pattern.message_run import MessageRun

__all__ = ["SendQueue"]

F = TypeVar("F")


class SendQueue(Generic[F]):
    """A bounded queue of frames for one peer, flushed by one thread at a time.

    Args:
        messages_max, bytes_max: the bounds. One frame always fits.
        write: called by `flush` to take some frames and pass them on, without waiting.
          It returns False if the peer takes no more for now.
        in_hand: returns how many messages ``write`` has taken and not yet passed on.

    Attributes:
        blocked: True if the peer takes no more, until `unblock`.

    Locks: `put` is for the holder of the node's lock, `take` for ``write``. ``_flush``
    is only tried, and never while the node's lock is held. The counters have one
    writer. They are compared with those of the oldest frame, so an interrupt leaves no
    message counted that is not here. No flush is lost: a thread appends its frame
    before it tries ``_flush``; the holder checks for frames after its release, also
    after an exception.
    """

    __slots__ = (
        "_bytes_in",
        "_bytes_max",
        "_flush",
        "_frames",
        "_in_hand",
        "_is_stopped",
        "_messages_in",
        "_messages_max",
        "_unblocked",
        "_write",
        "blocked",
    )

    def __init__(
        self,
        messages_max: int,
        bytes_max: int,
        write: Callable[[], bool],
        in_hand: Callable[[], int] = int,
    ) -> None:
        self._messages_max: Final = messages_max
        self._bytes_max: Final = bytes_max
        self._write: Final = write
        self._in_hand: Callable[[], int] = in_hand
        self._is_stopped: bool = False
        # Each with the number of its messages, and with both counters as before it.
        self._frames: Final[deque[tuple[F, int, int, int]]] = deque()
        self.blocked: bool = False
        self._unblocked: bool = False  # `unblock` was called since the last write began
        self._messages_in: int = 0
        self._bytes_in: int = 0
        self._flush: Final[_thread.LockType] = _sync.Lock()

    def __bool__(self) -> bool:
        """Return True if a frame waits, also one without a message."""
        return bool(self._frames)

    def __len__(self) -> int:
        """Return the number of messages that wait, or that no write has completed."""
        return self._waiting()[0] + self._in_hand()

    @property
    def size(self) -> int:
        """The length of the messages that wait, in bytes."""
        return self._waiting()[1]

    @property
    def messages_put(self) -> int:
        """The number of messages that were appended so far."""
        return self._messages_in

    @property
    def is_idle(self) -> bool:
        """True if no frame waits, and none is in the hands of ``write``."""
        # In this order: the holder takes a frame, and later releases the lock.
        return not (self._frames or self._flush.locked())

    def _waiting(self) -> tuple[int, int]:
        try:
            _, _, messages, size = self._frames[0]
        except IndexError:
            return 0, 0
        return self._messages_in - messages, self._bytes_in - size

    def has_room(self, size: int, count: int = 1) -> bool:
        """Return True if `put` may append messages of ``size`` bytes together."""
        queued, queued_bytes = self._waiting()
        return (count == 1 and not queued) or (
            queued + count <= self._messages_max
            and queued_bytes + size <= self._bytes_max
        )

    def put(self, run: MessageRun, encode: Callable[[MessageRun], F]) -> int:
        """Append messages, as many as there is room for; return how many.

        encode: returns the frame of some messages.
        """
        count, size = len(run.bodies), run.size
        if self.has_room(size, count):
            frame = encode(run)
            item = frame, count, self._messages_in, self._bytes_in
            # No call comes between these, and so no interrupt and no signal handler.
            self._messages_in += count
            self._bytes_in += size
            self._frames.append(item)
            return count
        if count > 1:
            for at in range(count):
                if not self.put(run.part(at, at + 1), encode):
                    return at
        return 0

    def put_control(self, frame: F) -> None:
        """Append a frame without a message; for any thread."""
        self._frames.append((frame, 0, self._messages_in, self._bytes_in))

    def take(self) -> F | None:
        """Remove and return the oldest frame; None if there is none."""
        try:
            return self._frames.popleft()[0]
        except IndexError:
            return None

    def take_counted(self) -> tuple[F, int] | None:
        """Remove the oldest frame; return it with the number of its messages.

        None if there is none.
        """
        try:
            return self._frames.popleft()[:2]
        except IndexError:
            return None

    def discard(self) -> int:
        """Remove all frames; return how many messages were among them.

        At the end of a connection: a thread that writes meanwhile takes others. Its
        write may complete, so that the messages in its hand are left until `stop`. Then
        the next call counts them.
        """
        count = 0
        if self._is_stopped:
            count = self._in_hand()
            self._in_hand = int
        while True:
            try:
                count += self._frames.popleft()[1]
            except IndexError:
                return count

    def flush(self) -> None:
        """Write frames until none is left or the peer takes no more."""
        try:
            self._write_all()
        except BaseException:
            self._write_all()  # other threads have left their frames to this one
            raise

    def unblock(self) -> None:
        """Write the rest that the peer did not take, and the frames behind it."""
        self._unblocked = True
        self.blocked = False
        try:
            if self._write_once():
                self._write_all()
        except BaseException:
            self._write_all()
            raise

    def stop(self, close: Callable[[], object]) -> None:
        """Call ``close`` while no thread writes, and let none write afterwards.

        Not within ``write``.
        """
        self._flush.acquire()  # for good
        self._is_stopped = True
        close()

    def _write_all(self) -> None:
        while self._frames and not self.blocked:
            if not self._write_once():
                return  # the holder checks again

    def _write_once(self) -> bool:
        """Write; return False if another thread does."""
        taken: list[bool] = []
        try:
            # One call into C: no interrupt can come between taking the lock and noting
            # that it is taken. It would stay taken, and `stop` would wait forever.
            taken.extend(map(self._flush.acquire, (False,)))
            if True not in taken:
                return False
            self._unblocked = False
            self.blocked = not self._write()
            # In this order, and `unblock` in the opposite one: if both run at once, one
            # of them sees the other. So no peer with room stays blocked.
            if self._unblocked:
                self.blocked = False
        finally:
            if True in taken:
                self._flush.release()
        return True
