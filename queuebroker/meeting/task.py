"""`Task`: a thread that belongs to a broker.

It holds its thread instead of being one, so that `_sync` creates the thread too. The
explorer can then take the thread over.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from operator import itemgetter
from types import FrameType
from typing import Any, Final

from queuebroker import _sync
from queuebroker.arguments import check_callable, deadline_after, known_as, wrong_type
from queuebroker.channel.end import End
from queuebroker.closable import Uncopyable
from queuebroker.meeting.broker import Broker
from queuebroker.meeting.current import as_current
from queuebroker.meeting.queue_broker import QueueBroker

__all__ = ["Task"]


class Task(Uncopyable):
    """A thread in which `current_broker()` is ``broker`` (QB-NAME-9).

    Args:
        broker: a `Broker` or `QueueBroker`; it may be closed meanwhile.
        target: called in the thread with ``args``.
        name: name of the thread, by default the broker's.
        daemon: True if the interpreter may exit while the task runs.
        warn_after: seconds after which `join`, or the exit of the program, logs the
            queue on which the task is blocked; None for never.

    Raises:
        TypeError, ValueError: ``broker`` is not a broker, or is its face for
            coroutines; ``target`` cannot be called, or is a coroutine function, which
            would run nothing; ``warn_after`` is not a number >= 0.
    """

    __slots__ = (
        "_args",
        "_exception",
        "_target",
        "_thread",
        "_warn_after",
        "broker",
    )

    def __init__(
        self,
        broker: Broker | QueueBroker,
        target: Callable[..., object],
        *args: Any,
        name: str | None = None,
        daemon: bool = False,
        warn_after: float | None = 5.0,
    ) -> None:
        _check_broker(broker)
        _check_target(target)
        self.broker: Final = broker
        self._target = target
        self._args = args
        never = deadline_after(warn_after, "warn_after") is None
        self._warn_after = None if never else warn_after
        self._exception: BaseException | None = None
        self._thread = _sync.Thread(
            target=self._run, name=name or broker.name, daemon=daemon
        )

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of {self.broker!r}>"

    @property
    def name(self) -> str:
        """Name of the thread."""
        return self._thread.name

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: it was started before.
        """
        self._thread.start()

    @property
    def exception(self) -> BaseException | None:
        """The exception that ended ``target``; None if it returned, or still runs.

        The frames of its traceback keep no local variables. Otherwise a queue that
        ``target`` had not disconnected would stay connected as long as the task exists.
        """
        return self._exception

    def join(self, timeout: float | None = None, *, check: bool = False) -> None:
        """Wait until the thread has ended, for ``timeout`` seconds at most.

        If the time is up, the call returns, and `is_alive` is true. `exception` holds
        an exception that ended the thread; `threading.excepthook` has printed its
        traceback. If the task has not ended after ``warn_after`` seconds, the log names
        the queue on which the task is blocked.

        check: True to raise the exception that ended the thread.

        Raises:
            RuntimeError: the thread was not started, or is the calling thread.
            TypeError, ValueError: wrong timeout.
        """
        deadline = deadline_after(timeout)
        seconds = None if deadline is None else timeout
        slow_s = self._warn_after
        if slow_s is None or (seconds is not None and seconds <= slow_s):
            self._thread.join(seconds)
        elif not _sync.join(self._thread, slow_s):
            self._warn(f"join() has waited {slow_s} s for")
            self._thread.join(None if seconds is None else seconds - slow_s)
        if check and self._exception is not None:
            raise self._exception

    def is_alive(self) -> bool:
        """Return True if the thread was started and has not ended."""
        return self._thread.is_alive()

    def _run(self) -> None:
        ident = _sync.get_ident()
        try:
            if not self._thread.daemon:
                _running[ident] = self
                _watch_exit()
            with as_current(self.broker):
                self._target(*self._args)
        except BaseException as error:
            _forget_locals(error)
            self._exception = error
            raise  # to `threading.excepthook`
        finally:
            _running.pop(ident, None)
            # As a thread does: the task may exist for long, and a queue among them that
            # nobody disconnected would stay connected.
            del self._target, self._args

    def _warn(self, waiting: str) -> None:
        # Imported here, as in `queuebroker.observer`.
        import logging  # noqa: PLC0415

        where = _waits_for(self._thread.ident)
        logging.getLogger("queuebroker").warning(
            "%s %r, which %s", waiting, self, where
        )


# Tasks that keep the interpreter from exiting, by thread.
_running: Final[dict[int | None, Task]] = {}

# Not empty once the exit of the program is watched; the append of a list is atomic.
_watched: Final[list[bool]] = []


def _watch_exit() -> None:
    """Log, at the exit of the program, the tasks for which it waits."""
    if not _watched:
        _watched.append(True)
        _sync.at_exit_of_main(_join_running)


def _join_running() -> None:
    """Join the tasks that keep the program from ending; log each slow one.

    Runs in the main thread: from Python 3.12 on no thread can be started at exit.
    """
    begun = _sync.monotonic()
    while True:
        slow = [
            (task._warn_after, ident)
            for ident, task in _running.copy().items()
            if task._warn_after is not None
        ]
        if not slow:
            return
        slow_s, ident = min(slow, key=itemgetter(0))
        task = _running.pop(ident, None)
        rest_s = max(0.0, slow_s - (_sync.monotonic() - begun))
        if task is not None and not _sync.join(task._thread, rest_s):
            task._warn(f"the end of the program has waited {slow_s} s for")


def _forget_locals(error: BaseException | None) -> None:
    """Clear the frames of an exception and of its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        step = error.__traceback__
        while step is not None:
            with suppress(RuntimeError):  # it still runs
                step.tb_frame.clear()
            step = step.tb_next
        error = error.__cause__ or error.__context__


def _waits_for(ident: int | None) -> str:
    """Describe the queue or broker on which a thread is blocked, and its origin."""
    frame = None if ident is None else sys._current_frames().get(ident)
    code = ""
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, (End, Broker, QueueBroker)):
            act, found = frame.f_code.co_name, owner
            # The outermost call on it is the user's.
            back = frame.f_back
            while back is not None and back.f_locals.get("self") is found:
                act, back = back.f_code.co_name, back.f_back
            line = "" if back is None else f", called at {_place(back)}"
            return f"waits in {act} of {found!r}{line}{_made_at(found)}"
        code = code or f"is at {_place(frame)}"
        frame = frame.f_back
    return code or "does not run"


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _made_at(made: object) -> str:
    """Describe where an object was created, if -X tracemalloc has recorded it."""
    tracemalloc = sys.modules.get("tracemalloc")
    if tracemalloc is None or not tracemalloc.is_tracing():
        return "; run with -X tracemalloc=25 to see where that was made"
    traceback = tracemalloc.get_object_traceback(made)
    library = os.path.dirname(__file__)
    for step in reversed(traceback or ()):
        if not step.filename.startswith(library):
            return f", made at {step.filename}:{step.lineno}"
    return ""


def _check_broker(broker: object) -> None:
    if isinstance(broker, (Broker, QueueBroker)):
        return
    # By name: an import of the class only for this text would load asyncio.
    coroutines = known_as(type(broker)) == "aio.QueueBroker"
    remedy = ": give its plain one, its .broker" if coroutines else ""
    raise wrong_type("broker", "a Broker or a QueueBroker", broker, remedy)


def _check_target(target: Callable[..., object]) -> None:
    check_callable("target", target)
    called = type(target).__call__
    if inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(called):
        msg = "target is a coroutine function: use asyncio.create_task"
        raise TypeError(msg)
