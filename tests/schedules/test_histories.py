"""QB-CONC-7: the history of any schedule is explained one operation at a time.

The programs are random: small ones whose schedules can all be tried, and larger ones.
Each schedule's history is checked against the model. A step is (operation, end,
arguments).
"""

from __future__ import annotations

from operator import attrgetter
from random import Random
from typing import TYPE_CHECKING

import pytest

from queuebroker import BrokerManager, QueueBroker
from specs.clauses import clause
from tests.histories import ChannelHistory, MeetingHistory, QueueHistory
from tests.pairs import channel_pair, queue_pair
from tests.schedules.scenario import Scenario, of_module, scenario
from tests.schedules.survey import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run
    from tests.histories import Step

Script = list[list["Step"]]

TALK = ("send", "send", "receive", "receive", "disconnect", "disconnected")
NOWAIT = ("send_nowait", "receive_nowait", "send", "receive", "pending")
BULK = ("send_many", "receive_many", "send", "receive", "disconnect")
MEET = ("accept", "accept", "connect", "connect", "close", "get")
STREAM = ("write", "read", "write", "read", "disconnect", "disconnected")


def _scripts(
    names: tuple[str, ...], count: int, threads: int, length: int
) -> dict[str, tuple[Script]]:
    """Return that many random programs, the same ones in every run."""
    rng = Random(f"{names} {threads} {length}")
    return {
        f"{number}": (
            [
                [
                    _step(rng, rng.choice(names), 10 * thread + step)
                    for step in range(length)
                ]
                for thread in range(threads)
            ],
        )
        for number in range(1, count + 1)
    }


def _step(rng: Random, name: str, number: int) -> Step:
    end = rng.randrange(2)
    label = "ab"[end]
    data = b"%02d" % number
    steps: dict[str, Step] = {
        "send": (name, end, data),
        "send_nowait": (name, end, data),
        "send_many": (name, end, [data, data + b"'"]),
        "receive_many": (name, end, rng.choice((None, 1, 2))),
        "write": (name, end, data),
        "read": (name, end, rng.choice((1, 2))),
        "accept": (name, "a", 1 + end),
        "connect": (name, label, "a", 1 + rng.randrange(2)),
        "close": (name, label),
        "get": (name, label),
    }
    return steps.get(name, (name, end))


def _spawn(run: Run, perform: Callable[[list[Step]], None], script: Script) -> None:
    """Spawn a thread for each part, named after its steps, as stories show it."""
    for part in script:
        reported = ", ".join(f"{name} {at}" for name, at, *_ in part)
        run.spawn(perform, part, name=reported)


def _talk(run: Run, script: Script, *, capacity: int, strict: bool = False) -> None:
    """Disconnect both ends once no thread can continue."""
    with queue_pair(capacity, strict=(strict, strict)) as ends:
        history = QueueHistory(ends, strict=strict)
        _spawn(run, history.perform, script)
        run.settle()
        history.perform([("disconnect", 0), ("disconnect", 1)])
        run.join()
        history.check()


TWO: dict[str, tuple[Script]] = {
    "send send, receive receive": (
        [
            [("send", 0, b"1"), ("send", 0, b"2")],
            [("receive", 1), ("receive", 1)],
        ],
    ),
    "send disconnect, receive receive": (
        [
            [("send", 0, b"1"), ("disconnect", 0)],
            [("receive", 1), ("receive", 1)],
        ],
    ),
    "send send, disconnect the peer": (
        [
            [("send", 0, b"1"), ("send", 0, b"2")],
            [("disconnect", 1), ("disconnected", 0)],
        ],
    ),
    "send receive, send receive": (
        [
            [("send", 0, b"1"), ("receive", 0)],
            [("send", 1, b"2"), ("receive", 1)],
        ],
    ),
    "send send, send disconnect": (
        [
            [("send", 0, b"1"), ("send", 0, b"2")],
            [("send", 1, b"3"), ("disconnect", 1)],
        ],
    ),
    "receive send, send disconnect": (
        [
            [("receive", 0), ("send", 0, b"1")],
            [("send", 1, b"2"), ("disconnect", 1)],
        ],
    ),
}


@scenario(variants=TWO)
@clause("QB-CONC-7", "QB-SEND-2", "QB-DISC-14", "QB-FIFO-2")
def two_threads_talk(run: Run, script: Script) -> None:
    """Two threads, two operations each, capacity 1: linearizable in every schedule."""
    _talk(run, script, capacity=1)


@scenario(quick=1, variants=_scripts(TALK, count=5, threads=3, length=2))
@clause("QB-CONC-7", "QB-SEND-2", "QB-DISC-14", "QB-FIFO-2")
def three_threads_talk(run: Run, script: Script) -> None:
    """Three threads, two operations each, capacity 1: linearizable."""
    _talk(run, script, capacity=1)


@scenario(quick=0, variants=_scripts(TALK, count=3, threads=4, length=3))
@clause("QB-CONC-7", "QB-DISC-14", "QB-FIFO-2")
def four_threads_talk(run: Run, script: Script) -> None:
    """Four threads, three operations each, capacity 2, strict: linearizable."""
    _talk(run, script, capacity=2, strict=True)


@scenario(quick=1, variants=_scripts(NOWAIT, count=4, threads=3, length=2))
@clause("QB-CONC-7", "QB-TIME-8", "QB-TIME-5")
def nobody_is_told_of_a_moment_that_never_was(run: Run, script: Script) -> None:
    """Polled or waited for: no two results show a queue full and empty at once."""
    _talk(run, script, capacity=1)


@scenario(quick=1, variants=_scripts(BULK, count=4, threads=3, length=2))
@clause("QB-BULK-1", "QB-BULK-2", "QB-CONC-7")
def bulk_calls_are_single_calls_in_order(run: Run, script: Script) -> None:
    """send_many and receive_many equal one caller's single calls."""
    _talk(run, script, capacity=2)


@scenario(quick=1, variants=_scripts(STREAM, count=4, threads=3, length=2))
@clause("QB-CHAN-3", "QB-CHAN-4", "QB-CHAN-5", "QB-CONC-7")
def three_threads_stream(run: Run, script: Script) -> None:
    """Three threads write to and read from a channel of three bytes: linearizable."""
    with channel_pair(3) as ends:
        history = ChannelHistory(ends)
        _spawn(run, history.perform, script)
        run.settle()
        history.perform([("disconnect", 0), ("disconnect", 1)])
        run.join()
        history.check()


def _meet(run: Run, script: Script) -> None:
    manager = BrokerManager()
    brokers = {
        name: QueueBroker(name, manager=manager, capacity=1) for name in ("a", "b")
    }
    history = MeetingHistory(brokers, timeout=1.0)
    _spawn(run, history.perform, script)
    run.join()
    history.check()


@scenario(quick=1, variants=_scripts(MEET, count=4, threads=3, length=1))
@clause("QB-CONC-7", "QB-RDV-4", "QB-NAME-2", "QB-NAME-6", "QB-TIME-4")
def three_threads_meet(run: Run, script: Script) -> None:
    """Accept, connect, close and look-up, one each, all with one deadline."""
    _meet(run, script)


@scenario(quick=1, variants=_scripts(MEET, count=4, threads=3, length=2))
@clause("QB-CONC-7", "QB-RDV-4", "QB-NAME-2", "QB-NAME-6", "QB-TIME-4")
def three_threads_meet_twice(run: Run, script: Script) -> None:
    """Accept, connect, close and look-up, two each, all with one deadline."""
    _meet(run, script)


@pytest.mark.parametrize("scenario", of_module(__name__), ids=attrgetter("name"))
def test_quick(scenario: Scenario) -> None:
    """The clauses hold in every schedule with one preemption, and in random ones."""
    check(scenario)
