"""Every small program, in every interleaving, on both models of a connection.

All programs of three threads with one or two operations each, at capacity 1, where the
threads are interchangeable: multisets of three out of 6 + 6 * 6 sequences.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from specs.models.answers import Answer, Ending
from specs.models.channel import open_channel, read, write
from specs.models.connection import disconnect, status
from specs.models.queue import open_queue, receive, send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from specs.models.connection import Connection

    Action = tuple[str, int]
    Program = tuple[tuple[Action, ...], ...]
    Rule = Callable[
        [Connection[Any], Action, bytes, bool], tuple[Answer, Connection[Any]]
    ]

pytestmark = pytest.mark.deep

ACTIONS = tuple(itertools.product(("send", "receive", "disconnect"), (0, 1)))
THREADS = range(3)
PROGRAMS = 13_244

# One byte, so that it is a message and also fills a channel of capacity 1.
MESSAGES = {
    place: bytes([number])
    for number, place in enumerate(itertools.product(THREADS, range(2)))
}


def programs() -> Iterator[Program]:
    sequences = [*itertools.product(ACTIONS), *itertools.product(ACTIONS, repeat=2)]
    return itertools.combinations_with_replacement(sequences, len(THREADS))


def message_rule(
    queue: Connection[Any], action: Action, message: bytes, waited: bool
) -> tuple[Answer, Connection[Any]]:
    what, end = action
    if what == "send":
        return send(queue, end, message, waited=waited)
    if what == "receive":
        return receive(queue, end)
    return Answer(Ending.DONE), disconnect(queue, end)


def byte_rule(
    channel: Connection[Any], action: Action, byte: bytes, waited: bool
) -> tuple[Answer, Connection[Any]]:
    what, end = action
    if what == "send":
        return write(channel, end, byte, waited=waited)
    if what == "receive":
        return read(channel, end, 1)
    return Answer(Ending.DONE), disconnect(channel, end)


class Exploration:
    """Walks through every interleaving of a program and checks every step."""

    def __init__(self, start: Connection[Any], rule: Rule) -> None:
        self.start = start
        self.rule = rule
        # The same few steps occur in every program.
        self.known: dict[object, tuple[Answer, Connection[Any]]] = {}

    def walk(self, program: Program) -> None:
        # Connection, next operation of each thread, True if it waited, and the messages
        # accepted and received on each side, in order.
        first = (self.start, (0, 0, 0), (False,) * 3, (b"", b""), (b"", b""))
        seen, left = {first}, [first]
        while left:
            place = left.pop()
            following = list(self.steps(program, *place))
            if not following:
                self.check_end(program, place[1])
            for each in following:
                if each not in seen:
                    seen.add(each)
                    left.append(each)

    def steps(
        self,
        program: Program,
        connection: Connection[Any],
        next_: tuple[int, ...],
        waited: tuple[bool, ...],
        accepted: tuple[bytes, bytes],
        received: tuple[bytes, bytes],
    ) -> Iterator[tuple[Any, ...]]:
        for thread in THREADS:
            if next_[thread] == len(program[thread]):
                continue
            action = what, end = program[thread][next_[thread]]
            message = MESSAGES[thread, next_[thread]]
            answer, after = self.do(connection, action, message, waited[thread])
            if answer.kind is Ending.WAITS:
                if not waited[thread]:
                    now = put(waited, thread, True)
                    yield connection, next_, now, accepted, received
                continue
            in_, out = accepted, received
            if len(after.inbound[1 - end]) > len(connection.inbound[1 - end]):
                in_ = put(accepted, 1 - end, accepted[1 - end] + message)
            if what == "receive" and answer.kind is Ending.DONE:
                assert isinstance(answer.value, bytes)
                out = put(received, end, received[end] + answer.value)
            self.check(connection, after, in_, out)
            done = put(next_, thread, next_[thread] + 1)
            yield after, done, put(waited, thread, False), in_, out

    def do(
        self, connection: Connection[Any], action: Action, message: bytes, waited: bool
    ) -> tuple[Answer, Connection[Any]]:
        key = connection, action, message, waited
        if key not in self.known:
            self.known[key] = self.rule(connection, action, message, waited)
        return self.known[key]

    def check(
        self,
        before: Connection[Any],
        after: Connection[Any],
        accepted: tuple[bytes, bytes],
        received: tuple[bytes, bytes],
    ) -> None:
        for end in (0, 1):
            assert status(after, end) >= status(before, end)
            # In order, without duplicates or invented messages.
            assert accepted[end].startswith(received[end])
            if not after.closed[end]:
                assert accepted[end] == received[end] + joined(after.inbound[end])

    def check_end(self, program: Program, next_: tuple[int, ...]) -> None:
        if any(sequence[0][0] == "disconnect" for sequence in program):
            ended = all(next_[each] == len(program[each]) for each in THREADS)
            assert ended, f"blocked for ever: {program} at {next_}"


def put(values: tuple[Any, ...], place: int, value: object) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


def joined(unread: tuple[bytes, ...] | bytes) -> bytes:
    return unread if isinstance(unread, bytes) else b"".join(unread)


@pytest.mark.parametrize(
    ("start", "rule"),
    [
        pytest.param(open_queue(1), message_rule, id="messages"),
        pytest.param(open_channel(1), byte_rule, id="bytes"),
    ],
)
def test_every_program_of_three_threads(
    start: Connection[Any], rule: Rule, record_property: Callable[[str, int], None]
) -> None:
    exploration = Exploration(start, rule)
    walked = 0

    for program in programs():
        exploration.walk(program)
        walked += 1

    record_property("programs", walked)
    print(f"{walked} programs walked, {len(exploration.known)} different steps")
    assert walked == PROGRAMS
