"""Pairs of concurrent events at one process and its peer.

A thread sends, a thread receives, the link is lost, the process closes, and the sending
thread is interrupted. Each message has one outcome, no message is delivered twice, and
the accounts of both processes balance.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from bus import Bus, BusError, Task
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.buses import ENDLESS, ENDLESS_S, processes
from tests.kit.comm_threads import comm_of
from tests.kit.inspection import unbalanced
from tests.process.processes import gone_short

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Incoming
    from queuebroker.testing import Run

_LIMIT, _RANDOM = 40, 30  # schedules


class Pair:
    """Two processes that have exchanged messages; the events strike ``near``.

    asked: the questions that the two answering tasks received, in order.
    outcomes: by question: the answer of the call, or its error.
    """

    def __init__(self, run: Run, near: Bus, far: Bus) -> None:
        self.run, self.near, self.far = run, near, far
        self.asked: list[int] = []
        self.outcomes: dict[int, object] = {}
        self.main: int | None = None  # the interruptible thread
        far.register("far", on_command=self._answer, thread=far.thread())
        near.register("near", on_command=self._answer, thread=near.thread())
        near.wait_for("far", timeout=None)
        far.wait_for("near", timeout=None)

    def _answer(self, message: Incoming) -> Any:
        self.asked.append(message.payload)
        return message.payload

    def _call(self, bus: Bus, to: str, first: int) -> None:
        with suppress(BusError, RuntimeError):  # the process closes
            asker = bus.register(f"asker{first}", thread=bus.here())
            for number in range(first, first + 3):
                self._ask(asker, to, number)

    def _ask(self, asker: Task, to: str, number: int) -> None:
        try:
            asker.command(to, -number)
            self.outcomes[number] = asker.call(to, number, timeout=None)
        except (BusError, RuntimeError) as error:
            self.outcomes[number] = error

    def is_main(self) -> bool:
        """Return True if the calling thread can be interrupted."""
        return _sync.get_ident() == self.main

    # Events.

    def send(self) -> None:
        self.run.spawn(self._call, self.near, "far", 10)

    def send_too(self) -> None:
        self.run.spawn(self._call, self.near, "far", 20)

    def receive(self) -> None:
        self.run.spawn(self._call, self.far, "near", 30)

    def lose(self) -> None:
        def lose() -> None:
            comm = comm_of(self.near)
            for peer in list(comm.remote.topology.peers.values()):
                if (link := peer.session.link) is not None:
                    comm._fast_path_driver.abort_link(link)

        self.run.spawn(lose)

    def send_as_link_is_lost(self) -> None:
        self.send()
        self.lose()

    def close(self) -> None:
        self.run.spawn(self.near.close)

    def interrupt(self) -> None:
        """Send; the sending thread is interrupted, and sends on."""
        interrupted = self.run.spawn(self._interrupted)
        self.run.spawn(self.run.interrupt, interrupted, KeyboardInterrupt)

    def _interrupted(self) -> None:
        self.main = _sync.get_ident()
        with suppress(KeyboardInterrupt, BusError, RuntimeError):
            asker = self.near.register("interrupted", thread=self.near.here())
            for number in range(40, 43):
                with suppress(KeyboardInterrupt):
                    self._ask(asker, "far", number)


_PAIRS = [
    (Pair.send, Pair.send_too),
    (Pair.send, Pair.receive),
    (Pair.send, Pair.lose),
    (Pair.send, Pair.close),
    (Pair.receive, Pair.lose),
    (Pair.receive, Pair.close),
    (Pair.send_as_link_is_lost, Pair.close),
    (Pair.interrupt, Pair.send),
    (Pair.interrupt, Pair.receive),
    (Pair.interrupt, Pair.lose),
    (Pair.interrupt, Pair.close),
]


def _name(what: object) -> str:
    return getattr(what, "__name__", str(what))


@pytest.mark.deep
@clause("BUS-CHAN-7", "BUS-FLOW-7", "BUS-MSG-15")
@pytest.mark.parametrize(("one", "other"), _PAIRS, ids=_name)
def test_each_message_has_one_outcome_whatever_happens_beside_it(
    one: Callable[[Pair], None],
    other: Callable[[Pair], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def program(run: Run) -> None:
        with processes("far near", ENDLESS) as [far, near]:
            pair = Pair(run, near, far)
            monkeypatch.setattr(_sync, "may_be_interrupted", pair.is_main)
            one(pair)
            other(pair)
            run.join()
            # A deadline that passed early is a preemption; then calls may fail.
            late = _sync.monotonic() >= ENDLESS_S
            _check(pair, may_fail=late or other is Pair.close)

    def find() -> None:
        explore(
            program, bound=1, limit=schedules(_LIMIT), random=schedules(_RANDOM), seed=1
        )

    assert gone_short(find)


def _check(pair: Pair, *, may_fail: bool) -> None:
    asked = pair.asked
    assert len(set(asked)) == len(asked)  # no message was delivered twice
    for number, outcome in pair.outcomes.items():
        if outcome != number or -number not in asked:
            assert may_fail, outcome
        else:  # delivered in the order of sending
            assert asked.index(-number) < asked.index(number)
    for bus in (pair.near, pair.far):
        assert unbalanced(bus.inspect()) == []
