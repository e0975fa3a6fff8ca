"""Whether a history can be explained one operation at a time: `check_linearizable`.

The method of Wing and Gong with the memory of Lowe: choose, among the operations that
began before any other ended, one that the model allows next; go back where none is;
never try the same set of done operations with the same state twice.

A model says what one operation may do to a state. It knows of no threads and no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from queuebroker.testing.history import Call

__all__ = ["Model", "NotLinearizableError", "check_linearizable"]

State = TypeVar("State", bound="Hashable")


class Model(Protocol[State]):
    """A sequential object, as states that never change."""

    def initial(self) -> State:
        """The state before the first operation."""

    def step(self, state: State, operation: Call) -> Iterable[State]:
        """All states this operation, with the outcome it had, may lead to.

        None if it cannot happen in this state, or not with this outcome; several if
        more than one thing may happen. A pending operation has no outcome: any will do.
        """


class NotLinearizableError(AssertionError):
    """No order of the operations explains what came of them.

    explained: the longest beginning that can be explained, in an order that does.
    stuck: the operations of which one had to come next, and none could.
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

    The order respects time: an operation that ended before another began comes first.
    Pending operations are in it if they must have had their effect.

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
    """A beginning of an order: the operations done, and the state they have led to.

    number: the operation done last. moves: what has not been tried from here.
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
    """Number the operations that may come next: none of the others came before."""
    left = [number for number in range(len(operations)) if not done >> number & 1]
    horizon = min((operations[number].ended for number in left), default=0)
    return [number for number in left if operations[number].began < horizon]
