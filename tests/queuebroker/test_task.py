"""`Task`: a thread that belongs to a broker."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    Broker,
    BrokerManager,
    DisconnectedQueueError,
    MessageQueue,
    QueueBroker,
    Task,
    aio,
    current_broker,
)
from specs.clauses import clause
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def broker() -> Iterator[QueueBroker]:
    """Return a broker of a new manager."""
    with BrokerManager() as manager:
        yield QueueBroker("b", manager=manager)


def test_it_calls_its_target_once_in_a_thread_of_its_own(broker: QueueBroker) -> None:
    """The arguments are passed, and its broker is the current one."""
    calls: list[tuple[object, int, object]] = []

    def work(*args: object) -> None:
        calls.append((args, threading.get_ident(), current_broker()))

    task = Task(broker, work, 1, "two")
    assert calls == []
    task.start()
    task.join()

    [(args, ident, current)] = calls
    assert (args, current) == ((1, "two"), broker)
    assert ident != threading.get_ident()


@pytest.mark.parametrize(("given", "name"), [(None, "b"), ("worker", "worker")])
def test_its_thread_is_named(broker: QueueBroker, given: str | None, name: str) -> None:
    """The default is its broker's name."""
    names: list[str] = []
    task = Task(broker, lambda: names.append(_me().name), name=given)

    task.start()
    task.join()

    assert (task.name, names) == (name, [name])
    assert repr(task) == f"<Task {name!r} of {broker!r}>"


@pytest.mark.parametrize("daemon", [False, True])
def test_daemon_is_that_of_the_thread(broker: QueueBroker, daemon: bool) -> None:
    """Off by default: the interpreter waits for its work."""
    flags: list[bool] = []

    def work() -> None:
        flags.append(_me().daemon)

    tasks = [Task(broker, work, daemon=daemon)] + [Task(broker, work)] * (not daemon)
    for task in tasks:
        task.start()
        task.join()

    assert set(flags) == {daemon}


def test_is_alive_from_start_to_end(broker: QueueBroker) -> None:
    """And join with a limit returns before the end."""
    go = threading.Event()
    task = Task(broker, go.wait)

    assert not task.is_alive()
    task.start()
    task.join(0.001)
    assert task.is_alive()
    go.set()
    task.join()

    assert not task.is_alive()


def test_it_starts_once_only(broker: QueueBroker) -> None:
    """As a thread does."""
    task = Task(broker, lambda: None)
    task.start()
    task.join()

    with pytest.raises(RuntimeError):
        task.start()


def test_its_broker_stays_its_broker(broker: QueueBroker) -> None:
    """It is bound at creation, and cannot be changed."""
    task = Task(broker, lambda: None)

    assert task.broker is broker
    with pytest.raises(AttributeError):
        task.other = broker  # type: ignore[attr-defined]  # under test


def _me() -> threading.Thread:
    return threading.current_thread()


def test_a_target_that_cannot_be_called_is_found_at_once() -> None:
    """Not in the thread, where no one would see the error."""
    with BrokerManager() as manager:
        broker = QueueBroker("b", manager=manager)
        with pytest.raises(TypeError, match=r"^target must be callable, got int$"):
            Task(broker, 3)  # type: ignore[arg-type]  # under test


async def _serve() -> None:
    """Never runs: a call creates a coroutine, which is never awaited."""


class _Server:
    """An object whose `__call__` is a coroutine function."""

    async def __call__(self) -> None:
        """Never runs either."""


@pytest.mark.parametrize("target", [_serve, functools.partial(_serve), _Server()])
def test_a_coroutine_function_is_refused(
    broker: QueueBroker, target: Callable[[], object]
) -> None:
    """The thread would end at once without running any of it."""
    text = r"^target is a coroutine function: use asyncio\.create_task$"
    with pytest.raises(TypeError, match=text):
        Task(broker, target)


@pytest.mark.parametrize(("given", "kind"), [(None, "NoneType"), ("b", "str")])
def test_its_broker_is_a_broker(given: object, kind: str) -> None:
    """The error names the type passed; a broker's name is rejected."""
    text = f"^broker must be a Broker or a QueueBroker, got {kind}$"
    with pytest.raises(TypeError, match=text):
        Task(given, print)  # type: ignore[arg-type]  # under test


def test_a_broker_for_coroutines_is_refused_and_its_plain_one_taken(
    broker: QueueBroker,
) -> None:
    """Both are called QueueBroker, so the error says which one was passed."""
    face = aio.wrap(broker)

    text = (
        r"^broker must be a Broker or a QueueBroker, got aio\.QueueBroker:"
        r" give its plain one, its .broker$"
    )
    with pytest.raises(TypeError, match=text):
        Task(face, print)  # type: ignore[arg-type]  # under test
    assert Task(face.broker, print).broker is broker


def test_a_broker_for_bytes_will_do() -> None:
    """So does one for messages."""
    with BrokerManager() as manager:
        broker = Broker("b", manager=manager)

        assert Task(broker, print).broker is broker


@pytest.mark.parametrize(
    ("timeout", "error", "text"),
    [
        ("1", TypeError, r"^timeout must be a number or None, got str$"),
        (-1, ValueError, r"^timeout must be >= 0, got -1$"),
        (math.nan, ValueError, r"^timeout must be >= 0, got nan$"),
    ],
)
def test_join_refuses_a_wrong_timeout(
    broker: QueueBroker, timeout: float, error: type[Exception], text: str
) -> None:
    """As every call that waits does, even after the thread has ended."""
    task = Task(broker, lambda: None)
    task.start()
    task.join()

    with pytest.raises(error, match=text):
        task.join(timeout)


@pytest.mark.parametrize("timeout", [math.inf, 1e300])
def test_join_takes_a_timeout_that_means_for_ever(
    broker: QueueBroker, timeout: float
) -> None:
    """A thread itself would raise an OverflowError."""
    task = Task(broker, lambda: None)
    task.start()

    task.join(timeout)

    assert not task.is_alive()


def test_join_tells_nothing_of_an_exception(
    broker: QueueBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes to `threading.excepthook`, which writes a traceback to stderr."""
    reported: list[type[BaseException]] = []
    monkeypatch.setattr(
        threading, "excepthook", lambda args: reported.append(args.exc_type)
    )
    task = Task(broker, {}.__getitem__, "missing")
    task.start()

    task.join()

    assert reported == [KeyError]


def test_a_manager_is_a_broker_manager() -> None:
    """The error names the type of any other object."""
    with pytest.raises(TypeError, match=r"^manager must be a BrokerManager, got str$"):
        QueueBroker("b", manager="m")  # type: ignore[arg-type]  # under test


# The exception that ends a task.


@clause("QB-NAME-9")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_exception_that_ends_it_is_kept_and_raised_on_request(
    broker: QueueBroker,
) -> None:
    """`threading.excepthook` still gets it; a plain `join` raises nothing."""

    def work() -> None:
        raise ZeroDivisionError("broken")

    with _hooked() as reported:
        task = Task(broker, work)
        task.start()
        task.join()

        assert isinstance(task.exception, ZeroDivisionError)
        assert reported == [task.exception]
        for _ in range(2):
            with pytest.raises(ZeroDivisionError, match=r"^broken$"):
                task.join(check=True)


def test_a_task_that_returned_has_no_exception(broker: QueueBroker) -> None:
    """And join(check=True) returns, even if it timed out first."""
    go = threading.Event()
    task = Task(broker, go.wait)
    task.start()
    task.join(0.001, check=True)
    assert task.is_alive()
    go.set()

    task.join(check=True)

    assert task.exception is None


@clause("QB-NAME-9", "QB-PY-7")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_kept_exception_keeps_no_queue(broker: QueueBroker) -> None:
    """The end of a failed task is collected, and its peer is released."""

    def work() -> None:
        end = broker.accept(1)
        end.send(b"one")
        try:
            raise KeyError(end.local_name)
        except KeyError as error:
            raise ZeroDivisionError from error

    with _hooked():
        task = Task(broker, work)
        task.start()
        peer = broker.connect("b", 1, required=True)
        task.join()

    assert isinstance(task.exception, ZeroDivisionError)
    assert list(peer) == [b"one"]


@clause("QB-NAME-9", "QB-PY-7")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("fails", [False, True])
def test_a_task_that_has_ended_keeps_no_queue_that_it_was_given(
    broker: QueueBroker, fails: bool
) -> None:
    ends: list[MessageQueue] = []

    def work(end: MessageQueue) -> None:
        end.send(b"one")
        if fails:
            raise ZeroDivisionError

    with Threads() as threads:
        accepting = threads.start(broker.accept, 1)
        ends.append(broker.connect("b", 1, required=True))
    with _hooked():
        task = Task(broker, work, ends.pop())
        task.start()
        task.join()

    peer = accepting.result()
    assert peer.receive(timeout=LIMIT_S) == b"one"
    with pytest.raises(DisconnectedQueueError):
        peer.receive(timeout=LIMIT_S)


@contextmanager
def _hooked() -> Iterator[list[BaseException | None]]:
    """Collect the exceptions that `threading.excepthook` gets within the block."""
    reported: list[BaseException | None] = []
    before = threading.excepthook
    threading.excepthook = lambda args: reported.append(args.exc_value)
    try:
        yield reported
    finally:
        threading.excepthook = before


# A task that does not end.


@clause("QB-NAME-9")
def test_a_join_that_waits_long_names_the_queue(
    broker: QueueBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It logs the call and the line once, and keeps waiting."""

    def work() -> None:
        with broker.accept(1) as end:
            end.receive()

    task = Task(broker, work, warn_after=0.05)
    task.start()
    with broker.connect("b", 1, required=True) as peer, Threads() as threads:
        joining = threads.start(task.join)
        until(lambda: bool(caplog.records), "nobody is warned")
        peer.send(b"go on")
        joining.result()

    [record] = caplog.records
    assert (record.name, record.levelname) == ("queuebroker", "WARNING")
    text = record.getMessage()
    assert text.startswith(f"join() has waited 0.05 s for {task!r}, which waits in")
    assert "receive of <MessageQueue 'b' to 'b' port 1 connected" in text
    assert __file__ in text


FORGETFUL = """
import sys, threading, tracemalloc
if "traced" in sys.argv:
    tracemalloc.start(25)
from queuebroker import *

b, a = QueueBroker("b"), QueueBroker("a")
def serve():
    for message in b.accept(1):
        pass
task = Task(b, serve, warn_after=0.1)
task.start()
queue = a.connect("b", 1, required=True)
def end():
    while not told:
        pass
    queue.disconnect()
import logging
told = []
class Handler(logging.StreamHandler):
    def emit(self, record):
        super().emit(record)
        told.append(record)
logging.getLogger("queuebroker").addHandler(Handler())
threading.Thread(target=end, daemon=True).start()
"""


@pytest.mark.deep
@clause("QB-NAME-9")
@pytest.mark.parametrize("traced", [False, True])
def test_a_program_that_cannot_end_logs_its_blocking_queue(traced: bool) -> None:
    """With the line that created the queue, if the interpreter keeps it."""
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, *["traced"] * traced],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0
    text = done.stderr
    assert text.startswith("the end of the program has waited 0.1 s for <Task 'b'")
    assert "<MessageQueue 'b' to 'a' port 1 connected" in text
    assert ("made at <string>:" in text) is traced
    assert ("-X tracemalloc" in text) is not traced


@pytest.mark.parametrize(("given", "error"), [("5", TypeError), (-1, ValueError)])
def test_warn_after_is_a_timeout(
    broker: QueueBroker, given: float, error: type[Exception]
) -> None:
    """The error names it."""
    with pytest.raises(error, match=r"^warn_after must be"):
        Task(broker, print, warn_after=given)
