"""`Task`: a thread that belongs to a broker."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from queuebroker import BrokerManager, QueueBroker, Task, current_broker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def broker() -> Iterator[QueueBroker]:
    """Give a broker of a manager of its own."""
    with BrokerManager() as manager:
        yield QueueBroker("b", manager=manager)


def test_it_calls_its_target_once_in_a_thread_of_its_own(broker: QueueBroker) -> None:
    """With the arguments, and with its broker as the current one."""
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
    """By default as its broker."""
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
    """It is bound when it is made, and cannot be given to another."""
    task = Task(broker, lambda: None)

    assert task.broker is broker
    with pytest.raises(AttributeError):
        task.other = broker  # type: ignore[attr-defined]  # the point of the test


def _me() -> threading.Thread:
    return threading.current_thread()


def test_a_target_that_cannot_be_called_is_found_at_once() -> None:
    """Not in the thread, where nobody would see it."""
    with BrokerManager() as manager:
        broker = QueueBroker("b", manager=manager)
        with pytest.raises(TypeError, match=r"^target must be callable, got int$"):
            Task(broker, 3)  # type: ignore[arg-type]  # that is the point


def test_a_manager_is_a_broker_manager() -> None:
    """Anything else is named in the error."""
    with pytest.raises(TypeError, match=r"^manager must be a BrokerManager, got str$"):
        QueueBroker("b", manager="m")  # type: ignore[arg-type]  # that is the point
