"""The current broker of a thread or coroutine."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    Broker,
    BrokerManager,
    NoCurrentBrokerError,
    QueueBroker,
    Task,
    current_broker,
)
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Iterator

Brokers = tuple[QueueBroker, Broker]


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    """Return a broker of either face."""
    with BrokerManager() as manager:
        yield QueueBroker("a", manager=manager), Broker("b", manager=manager)


def nobody() -> bool:
    """Return whether there is no current broker."""
    try:
        current_broker()
    except NoCurrentBrokerError:
        return True
    return False


def test_outside_there_is_none() -> None:
    """The text says how to set one."""
    text = "^no current broker: neither in a Task nor in an as_current"
    with pytest.raises(NoCurrentBrokerError, match=text):
        current_broker()


def test_blocks_nest_and_give_back(brokers: Brokers) -> None:
    """The innermost one counts, even if the same broker is nested."""
    a, b = brokers

    with a.as_current():
        with b.as_current(), a.as_current(), a.as_current():
            assert current_broker() is a
        assert current_broker() is a
        with b.as_current():
            assert current_broker() is b
    assert nobody()


def test_a_block_that_raises_gives_back(brokers: Brokers) -> None:
    """And the exception propagates."""
    a, b = brokers

    with a.as_current():
        with pytest.raises(KeyError), b.as_current():
            raise KeyError
        assert current_broker() is a


def test_every_face_gives_the_same_answer(brokers: Brokers) -> None:
    """The static methods call the function."""
    with brokers[0].as_current():
        assert Broker.get_broker() is brokers[0]
        assert QueueBroker.get_broker() is brokers[0]
        assert brokers[1].get_broker() is brokers[0]


def test_a_new_thread_has_none(brokers: Brokers) -> None:
    """With any current broker in the starting thread."""
    with brokers[0].as_current(), Threads() as threads:
        started = threads.start(nobody)

    assert started.result()


def test_a_thread_that_inherits_the_context_has_none(brokers: Brokers) -> None:
    """As threads do in later Pythons, and `asyncio.to_thread` in all."""
    with brokers[0].as_current(), Threads() as threads:
        started = threads.start(contextvars.copy_context().run, nobody)
        moved = asyncio.run(_to_thread())

    assert started.result()
    assert moved


async def _to_thread() -> bool:
    return await asyncio.to_thread(nobody)


def test_coroutines_of_one_thread_do_not_see_each_other(brokers: Brokers) -> None:
    """Each has the broker of its own block, even after others have run."""

    async def speak(broker: Broker | QueueBroker) -> bool:
        with broker.as_current():
            await asyncio.sleep(0)
            return current_broker() is broker

    async def both() -> tuple[bool, ...]:
        a, b = brokers
        return await asyncio.gather(speak(a), speak(b), _nobody_later())

    assert all(asyncio.run(both()))
    assert nobody()


async def _nobody_later() -> bool:
    await asyncio.sleep(0)
    return nobody()


def test_a_block_wins_over_the_task(brokers: Brokers) -> None:
    """After the block, the Task's broker is current again."""
    a, b = brokers
    seen: list[Broker | QueueBroker] = []

    def work() -> None:
        seen.append(current_broker())
        with b.as_current():
            seen.append(current_broker())
        seen.append(current_broker())

    task = Task(a, work)
    task.start()
    task.join()

    assert seen == [a, b, a]
