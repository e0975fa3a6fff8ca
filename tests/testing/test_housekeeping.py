"""Garbage, processors: the process is restored, and runs are the same every time."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from typing import TYPE_CHECKING

import pytest

import queuebroker
from queuebroker.testing import explore
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from queuebroker.testing import Run


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.self = self


def test_the_collector_never_starts_by_itself_in_a_run() -> None:
    def program(_run: Run) -> None:
        assert not gc.isenabled()
        knots = [weakref.ref(Knot()) for _ in range(3 * gc.get_threshold()[0])]
        assert all(knot() is not None for knot in knots)

    frozen = gc.get_freeze_count()

    explore(program, bound=0, random=0)

    assert gc.isenabled()
    assert gc.get_freeze_count() <= frozen


def test_a_program_may_collect_for_itself() -> None:
    def program(_run: Run) -> None:
        knot = weakref.ref(Knot())
        gc.collect()
        assert knot() is None

    explore(program, seed=1, random=5)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_finalizer_in_a_run_takes_simulated_locks() -> None:
    """An end that is collected disconnects, so that its peer does not block forever."""

    def program(run: Run) -> None:
        server = queuebroker.QueueBroker("server")
        accepting = run.spawn(server.accept, 1)
        client = queuebroker.QueueBroker("client").connect("server", 1)
        run.join()
        assert client is not None
        receiving = run.spawn(client.receive)
        del client
        run.settle()
        knot = Knot()
        knot.end = accepting.result  # type: ignore[attr-defined] # a cycle
        accepting._result = None  # type: ignore[assignment] # no other reference
        del knot
        gc.collect()
        run.join()
        assert isinstance(receiving.error, queuebroker.DisconnectedError)

    explore(program, bound=1, random=20, seed=1)


def test_garbage_of_earlier_runs_does_not_pile_up() -> None:
    alive: list[weakref.ref[Knot]] = []

    def program(_run: Run) -> None:
        alive.append(weakref.ref(Knot()))

    explore(program, limit=0, random=2_000, seed=1)

    assert all(knot() is None for knot in alive)


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="no choice of processors here"
)
def test_tasks_share_one_processor_and_other_threads_keep_theirs() -> None:
    before = os.sched_getaffinity(0)
    tasks: list[int] = []
    others: list[set[int]] = []
    entered = threading.Event()
    leave = threading.Lock()
    leave.acquire()

    def look() -> None:
        entered.wait(LIMIT_S)
        others.append(os.sched_getaffinity(0))
        leave.release()

    def program(_run: Run) -> None:
        tasks.append(len(os.sched_getaffinity(0)))
        entered.set()
        leave.acquire(timeout=LIMIT_S)  # a real wait: it was made outside of the run

    with Threads() as threads:
        threads.start(look)
        explore(program, bound=0, random=0)

    assert tasks == [1]
    assert others == [before]
    assert os.sched_getaffinity(0) == before
