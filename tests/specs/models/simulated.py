"""Histories that are right by construction: callers that take turns on a model.

Each caller is a generator that yields before, between and after the steps of its
operations, so that calls overlap as those of threads do. A list of numbers gives the
turns; an operation that has not ended when the list is used up stays pending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

from specs.models.answers import Answer, Ending
from specs.models.queue import QueuePair
from specs.models.rendezvous import Brokers

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from tests.specs.models.recorded import Call

__all__ = ["BrokerWorld", "QueueWorld", "simulate"]

_ERRORS: dict[Ending, BaseException] = {
    Ending.DISCONNECTED: ConnectionError("disconnected"),
    Ending.TIMED_OUT: TimeoutError("timed out"),
    Ending.BROKER_CLOSED: type("BrokerClosedError", (Exception,), {})("closed"),
    Ending.NAME_IN_USE: type("BrokerNameInUseError", (ValueError,), {})("in use"),
    Ending.PORT_IN_USE: type("PortInUseError", (Exception,), {})("in use"),
}


class World(Protocol):
    """The operations on a model; a step that WAITS is tried again later."""

    def perform(self, call: Call) -> Generator[None, None, Answer]: ...


def simulate(
    world: World, programs: Iterable[Sequence[Call]], turns: Iterable[int]
) -> list[Call]:
    """Run the programs side by side; return the calls in the order of their start.

    A call with ``gives_up`` times out if it is not enabled.
    """
    history: list[Call] = []
    callers = [_caller(world, program, history) for program in programs]
    for turn in turns:
        if not callers:
            break
        place = turn % len(callers)
        if next(callers[place], StopIteration) is StopIteration:
            del callers[place]
    return history


_clock = iter(range(1 << 62)).__next__


def _caller(
    world: World, program: Sequence[Call], history: list[Call]
) -> Generator[None]:
    for call in program:
        place = len(history)
        history.append(attrs.evolve(call, began=_clock()))
        yield
        answer = yield from world.perform(call)
        yield
        done = attrs.evolve(history[place], ended=_clock())
        if answer.kind is Ending.DONE:
            history[place] = attrs.evolve(done, result=answer.value)
        elif answer.kind is not Ending.UNKNOWN_BROKER:
            history[place] = attrs.evolve(done, error=_ERRORS[answer.kind])
        else:
            history[place] = done


class QueueWorld:
    """Callers on the two ends of one queue."""

    def __init__(self, capacity: int) -> None:
        self.pair = QueuePair.open(capacity)

    def perform(self, call: Call) -> Generator[None, None, Answer]:
        args: tuple[Any, ...] = call.args
        match call.name:
            case "send":
                return (yield from self._single(call, *args))
            case "receive":
                return (yield from self._single(call, *args))
            case "send_many":
                return (yield from self._send_many(call, *args))
            case "receive_many":
                return (yield from self._receive_many(call, *args))
            case "disconnected":
                return Answer(Ending.DONE, self.pair.disconnected(*args))
            case _:
                self.pair.disconnect(*args)
                return Answer(Ending.DONE)

    def _single(
        self, call: Call, end: int, *message: bytes
    ) -> Generator[None, None, Answer]:
        waited = False
        while True:
            if message:
                answer = self.pair.send(end, *message, waited=waited)
            else:
                answer = self.pair.receive(end)
            if answer.kind is not Ending.WAITS:
                return answer
            if call.gives_up:
                return Answer(Ending.TIMED_OUT)
            waited = True
            yield

    def _send_many(
        self, call: Call, end: int, messages: Sequence[bytes]
    ) -> Generator[None, None, Answer]:
        for count, message in enumerate(messages):
            answer = yield from self._single(call, end, message)
            if answer.kind is not Ending.DONE:
                return Answer(Ending.DONE, count) if count else answer
            yield
        return Answer(Ending.DONE, len(messages))

    def _receive_many(
        self, call: Call, end: int, limit: int | None
    ) -> Generator[None, None, Answer]:
        answer = yield from self._single(call, end)
        got: list[object] = []
        while answer.kind is Ending.DONE:
            got.append(answer.value)
            if len(got) == limit:
                break
            yield
            answer = self.pair.receive(end)
        return Answer(Ending.DONE, got) if got else answer


class BrokerWorld:
    """Callers that create, use and close the brokers of one manager."""

    def __init__(self) -> None:
        self.brokers = Brokers()
        self.tickets = 0

    def perform(self, call: Call) -> Generator[None, None, Answer]:
        args: tuple[Any, ...] = call.args
        match call.name:
            case "create":
                return self.brokers.create(*args)
            case "close":
                return self.brokers.close(*args)
            case "get":
                found = self.brokers.state.named(*args)
                return Answer(Ending.DONE, found and found.label)
            case name:
                return (yield from self._meet(name, call, args))

    def _meet(
        self, name: str, call: Call, args: tuple[Any, ...]
    ) -> Generator[None, None, Answer]:
        self.tickets += 1
        ticket = self.tickets
        operation = getattr(self.brokers, name)
        answer: Answer = operation(ticket, *args)
        while answer.kind is Ending.WAITS:
            yield
            end = self.brokers.end_of(ticket)
            if end is not None:
                answer = end
            elif call.gives_up:
                self.brokers.withdraw(ticket)
                return Answer(Ending.TIMED_OUT)
        if answer.kind is not Ending.DONE:
            return answer
        # The connection: the same for both calls of a match, and for no other.
        return Answer(Ending.DONE, frozenset({ticket, answer.value}))
