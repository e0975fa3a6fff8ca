"""`check_linearizable`: a search for a sequential explanation of a history.

It uses the method of Wing and Gong with the memory of Lowe. Among the operations that
began before any other ended, choose one that the model allows next. If there is none,
backtrack. Never try the same set of done operations with the same state twice.

A model defines the effects of one operation on a state, without threads or time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from queuebroker.testing.history import Call

__all__ = ["Model", "NotLinearizableError", "check_linearizable"]

State = TypeVar("State", bound="Hashable")


class Model(Protocol[State]):
    """A sequential object, with immutable states."""

    def initial(self) -> State:
        """Return the state before the first operation."""

    def step(self, state: State, operation: Call) -> Iterable[State]:
        """Return all states that this operation may lead to, with its outcome.

        Return no state if it cannot happen in this state with this outcome; return
        several if it may have several effects. A pending operation has no outcome: any
        outcome is allowed.
        """


class NotLinearizableError(AssertionError):
    """No order of the operations explains their outcomes.

    explained: the longest beginning with an explanation, in the order that explains it.
    stuck: the operations of which one had to be next, although the model allows none.
    """

    def __init__(
        self, explained: Sequence[Call], stuck: Sequence[Call], state: object
    ) -> None:
        lines = ["not linearizable: after"]
        lines += [f"  {operation}" for operation in explained] or ["  nothing"]
        lines += [f"the state is {state!r}, and none of these can come next:"]
        lines += [f"  {operation}" for operation in stuck]
        super().__init__("\n".join(lines))
        self.explained: list[Call] = list(explained)
        self.stuck: list[Call] = list(stuck)


def check_linearizable(history: Iterable[Call], model: Model[State]) -> list[Call]:
    """Return the operations in an order that explains them all.

    The order respects time: an operation that ended before another began precedes it.
    It contains the pending operations that must have had their effect.

    Raises:
        NotLinearizableError: there is no such order.
    """
    operations = sorted(history, key=lambda operation: operation.began)
    must = sum(1 << n for n, one in enumerate(operations) if not one.pending)
    start = model.initial()
    path = [_Node(operations, model, -1, 0, start)]
    best, best_count = list(path), 0
    seen = {(0, start)}
    while path:
        node = path[-1]
        if node.done & must == must:
            return [operations[one.number] for one in path[1:]]
        for number, state in node.moves:
            done = node.done | 1 << number
            if (done, state) not in seen:
                break
        else:
            path.pop()
            continue
        seen.add((done, state))
        path.append(_Node(operations, model, number, done, state))
        if (count := (done & must).bit_count()) > best_count:
            best, best_count = list(path), count
    last = best[-1]
    raise NotLinearizableError(
        [operations[one.number] for one in best[1:]],
        [operations[number] for number in _candidates(operations, last.done)],
        last.state,
    )


class _Node(Generic[State]):
    """A beginning of an order: the operations done, and the state after them.

    number: the operation done last. moves: the steps not tried from here yet.
    """

    __slots__ = ("done", "moves", "number", "state")

    def __init__(
        self,
        operations: Sequence[Call],
        model: Model[State],
        number: int,
        done: int,
        state: State,
    ) -> None:
        self.number = number
        self.done = done
        self.state = state
        self.moves = (
            (candidate, following)
            for candidate in _candidates(operations, done)
            for following in model.step(state, operations[candidate])
        )


def _candidates(operations: Sequence[Call], done: int) -> list[int]:
    """Return the numbers of the operations that no other remaining one must precede."""
    left = [number for number in range(len(operations)) if not done >> number & 1]
    horizon = min((operations[number].ended for number in left), default=0)
    return [number for number in left if operations[number].began < horizon]
