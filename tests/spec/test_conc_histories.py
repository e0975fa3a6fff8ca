"""QB-CONC-7: hundreds of histories of real threads, checked against the models.

The explorer covers schedules systematically; these tests sample them with real threads,
real time, and random programs.
"""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import BrokerManager, QueueBroker
from specs.clauses import clause
from tests.histories import ChannelHistory, MeetingHistory, QueueHistory
from tests.pairs import channel_pair, queue_pair
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.channel.end import End
    from tests.histories import Step
    from tests.support import Running

ROUNDS = 700
LIMIT_S = 20.0

pytestmark = pytest.mark.usefixtures("eager_switching")


def _talk(rng: Random, number: int) -> Step:
    end, message = rng.randrange(2), b"%d" % number
    return rng.choice(
        [
            ("send", end, message),
            ("send", end, message),
            ("receive", end),
            ("receive", end),
            ("send_nowait", end, message),
            ("receive_nowait", end),
            ("disconnected", end),
            ("send_many", end, [message, message + b"'"]),
            ("receive_many", end, rng.choice((None, 2))),
            ("disconnect", end),
        ]
    )


def _stream(rng: Random, number: int) -> Step:
    end = rng.randrange(2)
    return rng.choice(
        [
            ("write", end, b"%02d" % number),
            ("write", end, b"%02d" % number),
            ("read", end, rng.choice((1, 3))),
            ("read", end, 2),
            ("disconnected", end),
            ("disconnect", end),
        ]
    )


def _meet(rng: Random, _: int) -> Step:
    port = rng.randrange(2)
    return rng.choice(
        [
            ("accept", "a", port),
            ("accept", "a", port),
            ("connect", "a", "a", port),
            ("connect", "b", "a", port),
            ("get", "a"),
            ("close", rng.choice("aab")),
        ]
    )


def _script(
    rng: Random, step: Callable[[Random, int], Step], threads: int, length: int
) -> list[list[Step]]:
    return [
        [step(rng, 10 * thread + number) for number in range(length)]
        for thread in range(threads)
    ]


def _start_together(
    threads: Threads, perform: Callable[[list[Step]], None], script: list[list[Step]]
) -> list[Running[None]]:
    """Start all parts of a script at one moment."""
    start = threading.Barrier(len(script))

    def part(steps: list[Step]) -> None:
        start.wait()
        perform(steps)

    return [threads.start(part, steps) for steps in script]


def _until_nobody_moves(
    ends: tuple[End[Any], End[Any]], running: list[Running[None]]
) -> None:
    """Wait until every thread has ended or waits for one of the two ends."""
    buffers = [flow.buffer for flow in ends[0]._connection.flows]

    def settled() -> bool:
        going = sum(not one.done for one in running)
        waiting = sum(len(buffer.room) + len(buffer.arrived) for buffer in buffers)
        return going == waiting

    until(settled, "all have ended or wait")


def _play(
    history: QueueHistory | ChannelHistory,
    ends: tuple[End[Any], End[Any]],
    script: list[list[Step]],
) -> None:
    """Run a script, release its waiters at the end, and check it against the model."""
    with Threads(LIMIT_S) as threads:
        _until_nobody_moves(ends, _start_together(threads, history.perform, script))
        history.perform([("disconnect", 0), ("disconnect", 1)])
    history.check()


@pytest.mark.deep
@clause("QB-CONC-7", "QB-SEND-2", "QB-DISC-14", "QB-FIFO-2", "QB-BULK-1", "QB-BULK-2")
def test_the_history_of_real_threads_on_a_queue_is_linearizable() -> None:
    """Two to four threads, three operations each, capacity 1 or 2, strict or not."""
    rng = Random(1)
    for _ in range(ROUNDS):
        strict = rng.random() < 0.3
        pair = queue_pair(rng.choice((1, 2)), strict=(strict, strict))
        with pair as ends:
            history = QueueHistory(ends, strict=strict)
            script = _script(rng, _talk, rng.choice((2, 3, 4)), 3)
            _play(history, ends, script)


@pytest.mark.deep
@clause("QB-CONC-7", "QB-CHAN-3", "QB-CHAN-4")
def test_the_history_of_real_threads_on_a_channel_is_linearizable() -> None:
    """Two to four threads, three operations each, three bytes of room."""
    rng = Random(2)
    for _ in range(ROUNDS):
        with channel_pair(3) as ends:
            history = ChannelHistory(ends)
            script = _script(rng, _stream, rng.choice((2, 3, 4)), 3)
            _play(history, ends, script)


@pytest.mark.deep
@clause("QB-CONC-7", "QB-RDV-4", "QB-NAME-6", "QB-TIME-4")
def test_the_history_of_real_threads_on_brokers_is_linearizable() -> None:
    """Three or four threads accept, connect, time out and close, two calls each."""
    rng = Random(3)
    for _ in range(ROUNDS):
        manager = BrokerManager()
        brokers = {name: QueueBroker(name, manager=manager) for name in "ab"}
        history = MeetingHistory(brokers, timeout=rng.choice((0.0, 0.0003, 0.001)))
        with Threads(LIMIT_S) as threads:
            script = _script(rng, _meet, rng.choice((3, 4)), 2)
            _start_together(threads, history.perform, script)
        history.check()
