"""Histories with `send_many` and `receive_many` (QB-BULK-1, QB-BULK-2).

A bulk call is not atomic: operations of other callers may come between its single
operations. So `singles` splits a recorded call into those, and `InOrder` restricts a
model to their order, which the interval that they all share would leave open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

import attrs

from specs.models.answers import changed
from specs.models.histories import IMPOSSIBLE

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from specs.models.answers import Operation

__all__ = ["InOrder", "Part", "Progress", "singles"]

Recorded = TypeVar("Recorded", bound="Operation")
State = TypeVar("State", bound="Hashable")


def singles(history: Sequence[Recorded]) -> list[Recorded]:
    """Return the history with every bulk call split; other operations stay unchanged.

    "send_many" is recorded with (end, messages) and the number sent as its result,
    "receive_many" with (end, limit) and the list as its result. Operations must be
    attrs objects: parts are copies with another name, arguments and outcome, and with
    their `Part` as an additional first argument.
    """
    return [
        single
        for number, operation in enumerate(history)
        for single in _parts(number, operation, history)
    ]


class _Model(Protocol[State]):
    """The interface of a model for a checker."""

    def initial(self) -> State: ...
    def step(self, state: State, operation: Operation, /) -> Iterable[State]: ...


@attrs.frozen
class Part:
    """The call of the history that a single operation belongs to, and its place."""

    call: int
    place: int


@attrs.frozen(cache_hash=True)
class Progress(Generic[State]):
    """The state of the model, and the next part of each call that has begun."""

    state: State
    next: frozenset[Part] = frozenset()


@attrs.frozen
class InOrder(Generic[State]):
    """A model in which the parts of one call happen in their order."""

    model: _Model[State]

    def initial(self) -> Progress[State]:
        """The state before the first operation."""
        return Progress(self.model.initial())

    def step(
        self, state: Progress[State], operation: Operation
    ) -> Iterator[Progress[State]]:
        """Yield the states after the operation; none if it is not its turn."""
        next_ = state.next
        part, *args = operation.args
        if isinstance(part, Part):
            if part.place and part not in next_:
                return
            next_ = (next_ - {part}) | {Part(part.call, part.place + 1)}
            operation = changed(operation, args=tuple(args))
        for after in self.model.step(state.state, operation):
            yield Progress(after, next_)


def _parts(
    call: int, operation: Recorded, history: Sequence[Recorded]
) -> Iterator[Recorded]:
    match operation.name:
        case "send_many":
            steps = _sends(operation)
        case "receive_many":
            steps = _receives(operation, history)
        case _:
            yield operation
            return
    for place, (name, args, result) in enumerate(steps):
        numbered = (Part(call, place), *args)
        yield changed(operation, name=name, args=numbered, result=result)


_Step = tuple[str, tuple[object, ...], object]


def _sends(operation: Operation) -> Iterator[_Step]:
    end, messages = cast("tuple[int, Sequence[bytes]]", operation.args)
    if operation.pending or operation.error is not None:
        # The number sent is unknown, or it raised at its first message.
        count = len(messages) if operation.pending else min(1, len(messages))
    else:
        count = cast("int", operation.result)
        if not min(1, len(messages)) <= count <= len(messages):
            yield IMPOSSIBLE, (end,), None
    for message in messages[:count]:
        yield "send", (end, message), None
    if not operation.pending and operation.error is None and count < len(messages):
        yield "send_fails", (end, messages[count]), None


def _receives(operation: Operation, history: Sequence[Operation]) -> Iterator[_Step]:
    end, limit = cast("tuple[int, int | None]", operation.args)
    if operation.error is not None:
        yield "receive", (end,), None
    elif operation.pending:
        # It may have taken any messages, but not more than were ever sent.
        most = sum(_sent_by(each) for each in history)
        for _ in range(most if limit is None else min(limit, most)):
            yield "receive", (end,), None
    else:
        got = cast("Sequence[bytes]", operation.result)
        if not got or (limit is not None and len(got) > limit):
            yield IMPOSSIBLE, (end,), None
        for message in got:
            yield "receive", (end,), message
        if limit is None or len(got) < limit:
            yield "receive_fails", (end,), None


def _sent_by(operation: Operation) -> int:
    if operation.name == "send_many":
        return len(cast("Sequence[bytes]", operation.args[1]))
    return operation.name in {"send", "send_nowait"}
