"""The rules of a connection in the form required by a linearizability checker.

A checker calls `initial()` for a state and `step(state, operation)` for every state in
which a recorded operation may leave it: none if it cannot have the recorded outcome
there. States are values. `queue` and `channel` define the effect of an operation; this
module only compares a record with it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import attrs

from specs.models.answers import Answer, Ending, answer_of
from specs.models.channel import Bytes, open_channel, read, write
from specs.models.connection import Connection, Status, disconnect, status
from specs.models.queue import Messages, open_queue, receive, send

Unread = TypeVar("Unread", tuple[bytes, ...], bytes)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from specs.models.answers import Operation

    _Rule = Callable[
        [Connection[Unread], Operation, bool],
        Iterable[tuple[Answer, Connection[Unread]]],
    ]
    _MessageRule = Callable[
        [Messages, Operation, bool], Iterator[tuple[Answer, Messages]]
    ]

__all__ = ["IMPOSSIBLE", "Known", "PairModel", "channel_model", "queue_model"]

# Name of an operation that cannot have happened: the replacement for a bulk call with a
# result that no bulk call may return.
IMPOSSIBLE = "impossible"


@attrs.frozen(cache_hash=True)
class Known(Generic[Unread]):
    """The knowledge of a checker at one point of a history.

    hung_up: for each end the time at which the first disconnect of it that took effect
      returned, infinite if none did yet. A send called before that may have been
      waiting when the peer disconnected.
    """

    connection: Connection[Unread]
    hung_up: tuple[float, float] = (math.inf, math.inf)


@attrs.frozen
class PairModel(Generic[Unread]):
    """One connection; made by `queue_model` and `channel_model`.

    start: the connection before the first operation.
    rules: by name of operation, all its outcomes as (answer, connection after it); the
      last argument is True if it may have waited while the peer disconnected.
    disconnected_error: the implementation's exception class for a disconnected end.

    On top of ``rules``, all recorded with the number of the end, 0 or 1, as the first
    argument: "disconnect" and "close", and with their results "disconnected",
    "closed", "remote_disconnected" and "pending".
    """

    start: Connection[Unread]
    rules: Mapping[str, _Rule[Unread]]
    disconnected_error: type[BaseException] = ConnectionError

    def initial(self) -> Known[Unread]:
        """The state before the first operation."""
        return Known(self.start)

    def step(self, state: Known[Unread], operation: Operation) -> list[Known[Unread]]:
        """Return the states after the operation if it took effect in ``state``.

        Raises:
            ValueError: the model has no operation of that name.
        """
        seen = answer_of(operation, self.disconnected_error)
        if seen is not None and seen.kind is Ending.REFUSED:
            return [state]
        ends = [
            after
            for answer, after in self._ends(state, operation)
            if _agree(seen, answer)
        ]
        if seen is not None and seen.kind is Ending.BROKEN:
            ends.append(state)
        return list(dict.fromkeys(ends))

    def _ends(
        self, state: Known[Unread], operation: Operation
    ) -> Iterator[tuple[Answer, Known[Unread]]]:
        end = cast("int", operation.args[0])
        if operation.name in {"disconnect", "close"}:
            yield Answer(Ending.DONE), _hang_up(state, end, operation)
        elif operation.name in _QUESTIONS:
            value = _QUESTIONS[operation.name](state.connection, end)
            yield Answer(Ending.DONE, value), state
        elif operation.name in self.rules:
            late = _may_have_waited(state, 1 - end, operation)
            rule = self.rules[operation.name]
            for answer, after in rule(state.connection, operation, late):
                yield answer, attrs.evolve(state, connection=after)
        else:
            raise ValueError(f"no operation of the model: {operation.name!r}")


def queue_model(
    capacity: int,
    *,
    strict_half: bool = False,
    disconnected_error: type[BaseException] = ConnectionError,
) -> PairModel[tuple[bytes, ...]]:
    """Return the model of a connection for messages.

    Recorded are "send" (end, message) and "receive" (end,) with the message as its
    result, both also under their names with "_nowait". `specs.models.bulk` adds the
    observations that end a bulk call.
    """
    start = open_queue(capacity, strict_half=strict_half)
    rules = {
        "send": _send,
        "send_nowait": _send,
        "send_fails": _fails(_send),
        "receive": _receive,
        "receive_nowait": _receive,
        "receive_fails": _fails(_receive),
        IMPOSSIBLE: lambda _queue, _operation, _late: iter(()),
    }
    return PairModel(start, rules, disconnected_error)


def channel_model(
    capacity: int,
    *,
    strict_half: bool = False,
    disconnected_error: type[BaseException] = ConnectionError,
) -> PairModel[bytes]:
    """Return the model of a connection for bytes.

    Recorded are "write" (end, data) with the number of bytes accepted as its result,
    and "read" (end, length) with the bytes themselves.
    """
    start = open_channel(capacity, strict_half=strict_half)
    return PairModel(start, {"write": _write, "read": _read}, disconnected_error)


def _send(
    queue: Messages, operation: Operation, late: bool
) -> Iterator[tuple[Answer, Messages]]:
    end, message = cast("tuple[int, bytes]", operation.args)
    yield send(queue, end, message)
    if late:
        yield send(queue, end, message, waited=True)


def _receive(
    queue: Messages, operation: Operation, _late: bool
) -> Iterator[tuple[Answer, Messages]]:
    (end,) = cast("tuple[int]", operation.args)
    yield receive(queue, end)


def _fails(rule: _MessageRule) -> _MessageRule:
    """Return the observation that the operation could not succeed: DONE if so."""

    def look(
        queue: Messages, operation: Operation, late: bool
    ) -> Iterator[tuple[Answer, Messages]]:
        for answer, _ in rule(queue, operation, late):
            if answer.kind is not Ending.DONE:
                yield Answer(Ending.DONE), queue

    return look


def _write(
    channel: Bytes, operation: Operation, late: bool
) -> Iterator[tuple[Answer, Bytes]]:
    end, data = cast("tuple[int, bytes]", operation.args)
    # A write may accept fewer bytes than fit, but at least one.
    for most in range(1, max(len(data), 1) + 1):
        yield write(channel, end, data, most=most)
    if late:
        yield write(channel, end, data, waited=True)


def _read(
    channel: Bytes, operation: Operation, _late: bool
) -> Iterator[tuple[Answer, Bytes]]:
    end, length = cast("tuple[int, int]", operation.args)
    for most in range(1, max(min(length, channel.capacity), 1) + 1):
        yield read(channel, end, length, most=most)


def _disconnected(connection: Connection[Any], end: int) -> bool:
    return status(connection, end) is Status.DISCONNECTED


_QUESTIONS: Mapping[str, Callable[[Connection[Any], int], object]] = {
    "disconnected": _disconnected,
    "closed": _disconnected,
    "remote_disconnected": lambda connection, end: connection.closed[1 - end],
    "pending": lambda connection, end: len(connection.inbound[end]),
}


def _agree(seen: Answer | None, answer: Answer) -> bool:
    """Return True if the record is consistent with that outcome."""
    if answer.kind is Ending.WAITS:
        # Not enabled: the only way out is a timeout, which changes nothing.
        return seen is not None and seen.kind is Ending.TIMED_OUT
    if seen is None or seen.kind is Ending.BROKEN:
        return True
    return seen == answer


def _hang_up(state: Known[Unread], end: int, operation: Operation) -> Known[Unread]:
    hung_up = list(state.hung_up)
    hung_up[end] = min(hung_up[end], operation.ended)
    return Known(disconnect(state.connection, end), (hung_up[0], hung_up[1]))


def _may_have_waited(state: Known[Unread], peer: int, operation: Operation) -> bool:
    """Return True if a send may have waited before the peer's disconnect returned.

    The history never shows that it had begun to wait, only sometimes that it had not.
    """
    return operation.began < state.hung_up[peer]
