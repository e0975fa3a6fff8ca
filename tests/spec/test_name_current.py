"""QB-NAME-9 to 11: the broker of the running thread."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading

import pytest

from queuebroker import (
    Broker,
    BrokerManager,
    NoCurrentBrokerError,
    QueueBroker,
    Task,
    current_broker,
)
from specs.clauses import clause
from tests.support import Threads


@clause("QB-NAME-9")
def test_each_task_sees_its_own_broker(manager: BrokerManager) -> None:
    """50 Tasks run at once on distinct brokers; both queries return the right one."""
    brokers = [QueueBroker(f"b{number}", manager=manager) for number in range(50)]
    all_here = threading.Barrier(50)
    seen: dict[str, object] = {}

    def work(name: str) -> None:
        all_here.wait(30)
        found = current_broker()
        assert Broker.get_broker() is QueueBroker.get_broker() is found
        seen[name] = found

    tasks = [Task(broker, work, broker.name) for broker in brokers]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()

    assert seen == {broker.name: broker for broker in brokers}


@clause("QB-NAME-9")
@pytest.mark.parametrize("face", [Broker, QueueBroker])
def test_a_task_keeps_its_broker_after_the_broker_and_its_manager_close(
    face: type[Broker | QueueBroker],
) -> None:
    """The broker was closed, its name reused, and its manager closed."""
    manager = BrokerManager()
    broker = face("b", manager=manager)
    seen: list[object] = []
    task = Task(broker, lambda: seen.append(Broker.get_broker()))
    broker.close()
    face("b", manager=manager)
    manager.close()

    task.start()
    task.join()

    assert seen == [broker]


@clause("QB-NAME-10")
def test_a_plain_thread_has_no_current_broker(manager: BrokerManager) -> None:
    """Tested in the main thread, a new thread, and a thread after a Task."""
    broker = QueueBroker("b", manager=manager)
    Task(broker, lambda: None).start()

    with Threads() as threads:
        asked = threads.start(Broker.get_broker)
        assert isinstance(asked.error(), NoCurrentBrokerError)

    for ask in (Broker.get_broker, QueueBroker.get_broker, current_broker):
        with pytest.raises(NoCurrentBrokerError):
            ask()


@clause("QB-NAME-11")
def test_as_current_nests_wins_over_the_task_and_is_undone(
    manager: BrokerManager,
) -> None:
    """The block also ends if its body raises, and the exception propagates."""
    a, b = (QueueBroker(name, manager=manager) for name in "ab")
    seen: list[object] = []

    def work() -> None:
        with b.as_current():
            with contextlib.suppress(KeyError), a.as_current():
                seen.append(current_broker())
                raise KeyError
            seen.append(current_broker())
        seen.append(current_broker())

    task = Task(a, work)
    task.start()
    task.join()

    assert seen == [a, b, a]


@clause("QB-NAME-11")
def test_as_current_is_for_this_thread_and_coroutine_only(
    manager: BrokerManager,
) -> None:
    """A thread started in the block has none, even if it inherits the context."""
    a, b = (QueueBroker(name, manager=manager) for name in "ab")

    async def alone(broker: QueueBroker) -> bool:
        with broker.as_current():
            await asyncio.sleep(0)
            return current_broker() is broker

    async def both() -> bool:
        return all(await asyncio.gather(alone(a), alone(b)))

    with a.as_current(), Threads() as threads:
        plain = threads.start(current_broker)
        inheriting = threads.start(contextvars.copy_context().run, current_broker)
        empty = threads.start(contextvars.Context().run, current_broker)
        assert asyncio.run(both())
        assert current_broker() is a
        for child in (plain, inheriting, empty):
            assert isinstance(child.error(), NoCurrentBrokerError)
