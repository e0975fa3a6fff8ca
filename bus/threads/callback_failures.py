"""`CallbackFailures`: logs the exceptions of callbacks without flooding the log.

A callback that fails for each message would log a traceback for each. So the log gets a
few tracebacks per callback, type of exception and period, and then the number of
further failures.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final, TypeAlias

from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from types import TracebackType

__all__ = ["CallbackFailures"]

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
