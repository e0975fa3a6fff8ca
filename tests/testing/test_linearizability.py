"""Histories that an order explains, those that none explains, and the report."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuebroker.testing import (
    PENDING,
    Call,
    History,
    NotLinearizableError,
    check_linearizable,
    explore,
)
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queuebroker.testing import Run

Items = tuple[object, ...]


class Fifo:
    """A queue without a bound: ``put(item)``, ``get()``, which is None if empty."""

    def initial(self) -> Items:
        return ()

    def step(self, state: Items, operation: Call) -> Iterable[Items]:
        if operation.name == "put":
            return [(*state, *operation.args)]
        if operation.pending:
            return [state[1:]]
        if not state:
            return [state] if operation.result is None else []
        return [state[1:]] if operation.result == state[0] else []


class Stack:
    """The planted fault: a queue that serves the last first."""

    def __init__(self) -> None:
        self.items: list[object] = []
        self.lock = threading.Lock()

    def put(self, item: object) -> None:
        with self.lock:
            self.items.append(item)

    def get(self) -> object:
        with self.lock:
            return self.items.pop() if self.items else None


class Queue(Stack):
    """The same, but correct."""

    def get(self) -> object:
        with self.lock:
            return self.items.pop(0) if self.items else None


def put(item: object, began: int, ended: float) -> Call:
    return Call("t", "put", (item,), began, ended)


def get(result: object, began: int, ended: float) -> Call:
    return Call("t", "get", (), began, ended, result)


def test_an_order_that_explains_is_returned() -> None:
    first, second = put("a", 1, 6), put("b", 2, 3)
    takes_b, takes_a = get("b", 4, 5), get("a", 7, 8)

    order = check_linearizable([first, second, takes_b, takes_a], Fifo())

    assert order == [second, takes_b, first, takes_a] or order == [
        second,
        first,
        takes_b,
        takes_a,
    ]


def test_no_operations_need_no_explanation() -> None:
    assert check_linearizable([], Fifo()) == []


def test_an_operation_that_ended_earlier_is_ordered_earlier() -> None:
    history = [put("a", 1, 2), put("b", 3, 4), get("b", 5, 6)]

    with pytest.raises(NotLinearizableError):
        check_linearizable(history, Fifo())


def test_overlapping_operations_may_take_either_order() -> None:
    history = [put("a", 1, 4), put("b", 2, 3), get("b", 5, 6)]

    order = check_linearizable(history, Fifo())

    assert next(operation.args or operation.result for operation in order) == ("b",)


def test_a_pending_operation_may_have_had_its_effect() -> None:
    pending = put("a", 1, PENDING)

    assert check_linearizable([pending, get("a", 2, 3)], Fifo())[0] is pending
    assert pending not in check_linearizable([pending, get(None, 2, 3)], Fifo())
    with pytest.raises(NotLinearizableError):
        check_linearizable([get("a", 2, 3), put("a", 4, PENDING)], Fifo())


def test_a_failure_lists_the_explained_and_the_stuck_operations() -> None:
    history = [put("a", 1, 2), put("b", 3, 4), get("b", 5, 6), get("a", 7, 8)]

    with pytest.raises(NotLinearizableError) as caught:
        check_linearizable(history, Fifo())

    assert caught.value.explained == history[:2]
    assert caught.value.stuck == [history[2]]
    assert str(caught.value) == (
        "not linearizable: after\n"
        "  t: put('a') = None\n"
        "  t: put('b') = None\n"
        "the state is ('a', 'b'), and none of these can come next:\n"
        "  t: get() = 'b'"
    )


def test_a_failure_at_the_first_operation_shows_that_nothing_is_explained() -> None:
    with pytest.raises(NotLinearizableError, match="after\n  nothing\nthe state"):
        check_linearizable([get("a", 1, 2)], Fifo())


def test_a_model_may_have_several_outcomes() -> None:
    class Bag(Fifo):
        """A bag that may return any of its items."""

        def step(self, state: Items, operation: Call) -> Iterable[Items]:
            if operation.name == "put":
                return [(*state, *operation.args)]
            rest = list(state)
            if operation.result in rest:
                rest.remove(operation.result)
                return [tuple(rest)]
            return []

    history = [put("a", 1, 2), put("b", 3, 4), get("b", 5, 6), get("a", 7, 8)]

    assert check_linearizable(history, Bag()) == history


@st.composite
def histories(draw: st.DrawFn) -> list[Call]:
    """Draw up to five operations with any intervals and any outcomes."""
    count = draw(st.integers(0, 5))
    numbers = draw(st.permutations(range(1, 2 * count + 1)))
    operations = []
    for index in range(count):
        began, ended = sorted(numbers[2 * index : 2 * index + 2])
        until: float = PENDING if draw(st.integers(0, 5)) == 0 else ended
        item = draw(st.sampled_from("ab"))
        if draw(st.booleans()):
            operations.append(put(item, began, until))
        else:
            operations.append(get(draw(st.sampled_from([item, None])), began, until))
    return operations


def _explained_by_brute_force(history: list[Call]) -> bool:
    """Try every order of every choice of pending operations."""
    must = [one for one in history if not one.pending]
    may = [one for one in history if one.pending]
    for size in range(len(may) + 1):
        for chosen in itertools.combinations(may, size):
            for order in itertools.permutations([*must, *chosen]):
                if _respects_time(order) and _allowed(order):
                    return True
    return False


def _respects_time(order: tuple[Call, ...]) -> bool:
    return all(
        later.ended > earlier.began
        for earlier, later in itertools.combinations(order, 2)
    )


def _allowed(order: tuple[Call, ...]) -> bool:
    states: set[Items] = {()}
    for operation in order:
        states = {after for state in states for after in Fifo().step(state, operation)}
    return bool(states)


@given(histories())
def test_it_agrees_with_trying_everything(history: list[Call]) -> None:
    try:
        order = check_linearizable(history, Fifo())
    except NotLinearizableError:
        assert not _explained_by_brute_force(history)
    else:
        assert _respects_time(tuple(order))
        assert _allowed(tuple(order))
        assert {id(one) for one in history if not one.pending} <= set(map(id, order))


def _recorded(run: Run, queue: Stack) -> History:
    history = History()

    def produce(*items: str) -> None:
        for item in items:
            history.call("put", queue.put, item)

    def consume() -> None:
        for _ in range(2):
            history.call("get", queue.get)

    run.spawn(produce, "a", "b")
    run.spawn(consume)
    run.spawn(consume)
    run.join()
    return history


def test_a_queue_under_the_explorer_is_linearizable() -> None:
    report = explore(
        lambda run: check_linearizable(_recorded(run, Queue()), Fifo()),
        bound=1,
        random=100,
        seed=1,
    )

    assert report.exhausted


def test_a_stack_in_its_place_is_found() -> None:
    with pytest.raises(AssertionError, match="none of these can come next") as caught:
        explore(
            lambda run: check_linearizable(_recorded(run, Stack()), Fifo()),
            bound=1,
            random=100,
            seed=1,
        )

    assert isinstance(caught.value.__cause__, NotLinearizableError)


def test_real_threads_on_a_real_queue_are_linearizable() -> None:
    for _ in range(20):
        queue, history = Queue(), History()

        def work(name: str, queue: Queue = queue, history: History = history) -> None:
            for number in range(5):
                history.call("put", queue.put, f"{name}{number}")
                history.call("get", queue.get)

        with Threads() as threads:
            for name in "abc":
                threads.start(work, name)
        assert len(check_linearizable(history, Fifo())) == 30
