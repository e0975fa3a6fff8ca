"""The logs of failures; none of them lets a repeated failure flood the log.

`CallbackFailures` logs the exceptions of callbacks. A callback that fails for each
message would log a traceback for each. So the log gets a few tracebacks per callback,
type of exception and period, and then the number of further failures.

`InternalErrors` lets a thread of the bus continue after an error of its code. Such an
error, most often a lack of memory, ends one step of the thread: the read, the message
or the request that was served. The thread, its tasks and its links outlive it.

`PeerLog` reports the misbehaviour of other processes. A peer may misbehave as often as
it likes, under any name. So the number of lines in each period is limited, and each
report is one line of limited length. Errors in this process are always logged.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from queuebroker import _sync
from queuebroker.waiting.parking import pause, taken_lock

if TYPE_CHECKING:
    import _thread
    from types import TracebackType

__all__ = ["CallbackFailures", "InternalErrors", "PeerLog"]

# The names of the callback and of the exception, and the location of the callback.
_Key: TypeAlias = tuple[str, str, str]

_log: Final = logging.getLogger("bus")

TRACEBACKS_MAX: Final = 10  # per callback, type of exception and period
PERIOD_S: Final = 60.0
KINDS_MAX: Final = 256  # without a name, one callback may have many keys


class _Kind:
    """The failures of one callback with one type of exception.

    since: the start of the period, on the monotonic clock in seconds.
    logged: the number of tracebacks logged in the period.
    suppressed: the number of failures without a traceback.
    """

    __slots__ = ("logged", "since", "suppressed")

    def __init__(self, since: float) -> None:
        self.since = since
        self.logged = 0
        self.suppressed = 0


class CallbackFailures:
    """The failed callbacks of one process on a bus; any thread may call the methods.

    Lock: ``_lock`` guards the kinds. It is released before logging, since a log handler
    may call the bus.
    """

    __slots__ = ("_kinds", "_lock")

    def __init__(self) -> None:
        self._lock: Final[_thread.LockType] = _sync.Lock()
        # By callback, exception and line; oldest first.
        self._kinds: Final[dict[_Key, _Kind]] = {}

    def log(self, callback: str, where: str) -> None:
        """Log the exception that is being handled, or count it.

        callback: the name of the callback for the log.
        where: the task or the thread that called it.
        """
        kind, _, trace = sys.exc_info()
        assert kind is not None
        key = callback, kind.__qualname__, _line_called(trace)
        dropped: list[tuple[_Key, int]] = []
        now = _sync.monotonic()
        with self._lock:
            seen = self._kinds.get(key)
            if seen is None or now - seen.since >= PERIOD_S:
                if seen is not None:
                    dropped.append((key, seen.suppressed))
                    del self._kinds[key]
                if len(self._kinds) >= KINDS_MAX:
                    oldest = next(iter(self._kinds))
                    dropped.append((oldest, self._kinds.pop(oldest).suppressed))
                seen = self._kinds[key] = _Kind(now)
            last = seen.logged == TRACEBACKS_MAX - 1
            told = seen.logged < TRACEBACKS_MAX
            if told:
                seen.logged += 1
            else:
                seen.suppressed += 1
        _log_counts(dropped)
        if told:
            more = f"; more within {PERIOD_S:g} s are only counted" if last else ""
            _log.exception("%s of %s raised%s", callback, where, more)

    def flush(self) -> None:
        """Log the number of failures without a traceback so far."""
        with self._lock:
            counts = [(key, kind.suppressed) for key, kind in self._kinds.items()]
            self._kinds.clear()
        _log_counts(counts)


def _line_called(trace: TracebackType | None) -> str:
    """Return the location of the called function; empty for a function in C.

    The name alone is ambiguous, above all for lambdas.
    """
    called = None if trace is None else trace.tb_next
    if called is None:
        return ""
    code = called.tb_frame.f_code
    return f"{code.co_filename}:{code.co_firstlineno}"


def _log_counts(counts: list[tuple[_Key, int]]) -> None:
    for (callback, kind, _), suppressed in counts:
        if suppressed:
            _log.error("%s raised %s %d more times", callback, kind, suppressed)


# The pause after an error, in seconds: doubled for each further one without a success.
_PAUSE_S: Final = 0.001
_PAUSE_S_MAX: Final = 0.5


class InternalErrors:
    """The internal errors of one thread, named ``where``; for that thread alone."""

    __slots__ = ("_count", "_parker", "_pause_s", "_where")

    def __init__(self, where: str) -> None:
        self._where: Final = where
        self._parker: Final = taken_lock()  # made while there is memory
        self._pause_s: float = _PAUSE_S
        self._count: int = 0

    def on_error(self, error: Exception) -> None:
        """Log an error and pause; the caller holds no lock.

        The log gets one line at powers of two: an error may repeat as long as its cause
        lasts. Without the pause it would occupy a whole processor.
        """
        self.note(error)
        seconds = self._pause_s
        self._pause_s = min(2 * seconds, _PAUSE_S_MAX)
        pause(seconds, self._parker)

    def note(self, error: Exception) -> None:
        """Count and log an error that needs no pause."""
        self._count += 1
        if not self._count & (self._count - 1):
            with suppress(Exception):  # the log may need memory, too
                _log.error(
                    "internal error %d in %s, which continues: %s: %s",
                    *(self._count, self._where, type(error).__name__, error),
                    exc_info=error,
                )

    def on_success(self) -> None:
        """Note a step without an error."""
        self._pause_s = _PAUSE_S


_LINES_MAX: Final = 20  # in each period
_PERIOD_S: Final = 60.0
_CHARACTERS_MAX: Final = 400


class PeerLog:
    """Reports of one process: noted during decisions, logged elsewhere.

    The deciding thread holds a lock, and a log handler may do anything. It may even
    wait for a result that needs that lock.
    """

    __slots__ = ("_left_out", "_logged", "_noted", "_since")

    def __init__(self) -> None:
        # Each text, with True if it is always logged.
        self._noted: Final[deque[tuple[str, bool]]] = deque()
        self._since: float | None = None
        self._logged: int = 0
        self._left_out: int = 0

    def note(self, text: str) -> None:
        """Note misbehaviour of a peer; logged by the next `write`."""
        self._noted.append((text, False))

    def report(self, text: str) -> None:
        """Note an error in this process; logged by the next `write`."""
        self._noted.append((text, True))

    def write(self, now: float) -> None:
        """Log the notes, or the number left out; ``now`` is in seconds."""
        while self._noted:
            text, always = self._noted.popleft()
            text = (text if text.isprintable() else ascii(text))[:_CHARACTERS_MAX]
            if always:
                _log.error("%s", text)
                continue
            if self._since is None or now - self._since >= _PERIOD_S:
                if self._left_out:
                    _log.warning("%d more such warnings suppressed", self._left_out)
                self._since, self._logged, self._left_out = now, 0, 0
            if self._logged >= _LINES_MAX:
                self._left_out += 1
                continue
            self._logged += 1
            _log.warning("%s", text)
