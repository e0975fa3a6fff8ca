"""The rules of brokers in the form required by a linearizability checker.

An accept and a connect return together, so neither takes effect at one single point:
`meetings` splits each into its begin, which joins a list or makes a match, and its end,
which returns the outcome. `rendezvous` defines the effects; this module only compares a
record with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import attrs

from specs.models.answers import Answer, Ending, answer_of, changed
from specs.models.rendezvous import (
    Medium,
    Rooms,
    accept,
    close,
    connect,
    create,
    withdraw,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from specs.models.answers import Operation

__all__ = ["BrokerModel", "Met", "meetings"]

Recorded = TypeVar("Recorded", bound="Operation")

_CALLS = frozenset({"accept", "accept_exclusive", "connect"})


def meetings(history: Sequence[Recorded]) -> list[Recorded]:
    """Return the history with every accept and connect split into begin and end.

    Operations must be attrs objects: the parts are copies under another name, with
    their common ticket as an additional first argument.
    """
    parts: list[Recorded] = []
    for ticket, operation in enumerate(history):
        if operation.name not in _CALLS:
            parts.append(operation)
            continue
        args = (ticket, *operation.args)
        for half in ("begin", "end"):
            name = f"{operation.name}_{half}"
            parts.append(changed(operation, name=name, args=args))
    return parts


@attrs.frozen(cache_hash=True)
class Met:
    """The state of a manager, and the connection of each match.

    connections: (the two tickets, the connection), known once one side returned.
    """

    rooms: Rooms = attrs.field(factory=Rooms)
    connections: frozenset[tuple[frozenset[Hashable], Hashable]] = frozenset()


@attrs.frozen
class BrokerModel:
    """The brokers of one manager, over a history that `meetings` split.

    Recorded are "create" (label, name), for a plain Broker "create_plain"; "close"
    (label,); "get" (name,) with the label or None as its result; "accept" or
    "accept_exclusive" (label, port) and "connect" (label, name, port), all three with
    the `Medium` as a last argument unless it is messages, and with the connection as
    their result: a value that is the same at its two ends and nowhere else; None for
    an unknown broker. A label identifies one broker, regardless of its name.
    """

    def initial(self) -> Met:
        """Return the state before the first broker."""
        return Met()

    def step(self, state: Met, operation: Operation) -> list[Met]:
        """Return the states after the operation if it took effect in ``state``.

        Raises:
            ValueError: the model has no operation of that name.
        """
        seen = answer_of(operation)
        if seen is not None and seen.kind is Ending.REFUSED:
            return [state]
        call, _, half = operation.name.rpartition("_")
        if call in _CALLS:
            begins = half == "begin"
            return (
                [_begin(state, operation)] if begins else _end(state, operation, seen)
            )
        answer, rooms = _at_once(state.rooms, operation)
        after = attrs.evolve(state, rooms=rooms)
        if seen is None:
            return [after]
        if seen.kind is Ending.BROKEN:
            return [state, after]
        if operation.name != "get":
            # A constructor returns the object itself: nothing to compare.
            seen = attrs.evolve(seen, value=answer.value)
        return [after] if seen == answer else []


def _at_once(rooms: Rooms, operation: Operation) -> tuple[Answer, Rooms]:
    match operation.name:
        case "get":
            found = rooms.named(cast("str", operation.args[0]))
            return Answer(Ending.DONE, found and found.label), rooms
        case "close":
            return close(rooms, operation.args[0])
        case "create" | "create_plain" as call:
            label, name = cast("tuple[Hashable, str]", operation.args)
            return create(rooms, label, name, queue=call == "create")
        case unknown:
            raise ValueError(f"no operation of the model: {unknown!r}")


def _begin(state: Met, operation: Operation) -> Met:
    ticket, *args = operation.args
    medium = Medium.MESSAGE
    if isinstance(args[-1], Medium):
        medium = args[-1]
        del args[-1]
    if operation.name == "connect_begin":
        source, name, port = cast("tuple[Hashable, str, int]", args)
        answer, rooms = connect(state.rooms, ticket, source, name, port, medium=medium)
    else:
        label, port = cast("tuple[Hashable, int]", args)
        exclusive = operation.name == "accept_exclusive_begin"
        answer, rooms = accept(
            state.rooms, ticket, label, port, medium=medium, exclusive=exclusive
        )
    if answer.kind is not Ending.WAITS:
        rooms = attrs.evolve(rooms, ended=rooms.ended | {(ticket, answer)})
    return attrs.evolve(state, rooms=rooms)


def _end(state: Met, operation: Operation, seen: Answer | None) -> list[Met]:
    ticket = operation.args[0]
    ended = state.rooms.end_of(ticket)
    if ended is None:
        # In a list, or not begun yet: only a waiter in a list can withdraw.
        answer, rooms = withdraw(state.rooms, ticket)
        gives_up = seen is not None and seen.kind in {Ending.TIMED_OUT, Ending.BROKEN}
        left = attrs.evolve(state, rooms=rooms)
        return [left] if gives_up and answer.kind is Ending.DONE else []
    if seen is None or seen.kind is Ending.BROKEN:
        # The caller has no end, regardless of the outcome (QB-RDV-12).
        return [state]
    if ended.kind is Ending.DONE:
        return _returns(state, frozenset({ticket, ended.value}), seen)
    unknown = seen == Answer(Ending.DONE, None) or seen.kind is Ending.UNKNOWN_BROKER
    told = unknown if ended.kind is Ending.UNKNOWN_BROKER else seen.kind is ended.kind
    return [state] if told else []


def _returns(state: Met, pair: frozenset[object], seen: Answer) -> list[Met]:
    """Require that both of a pair, and no other call, return one connection (QB-RDV-5).

    Return the state after that, or no state if the record contradicts it.
    """
    if seen.kind is not Ending.DONE or seen.value is None:
        return []
    known = dict(state.connections)
    if pair in known:
        return [state] if known[pair] == seen.value else []
    if seen.value in known.values():
        return []
    connections = state.connections | {(pair, seen.value)}
    return [attrs.evolve(state, connections=connections)]
