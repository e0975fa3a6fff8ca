"""`Task.call` at the point of its timeout."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from bus import CommandTimeoutError, UnresolvedError
from bus.api import questions
from bus.api.questions import Call, Question, Questions
from bus.testing import memory_bus
from queuebroker import _sync
from specs.clauses import clause
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Incoming
    from bus.kernel.tasks.actions import Answer


@clause("BUS-FLOW-5")
def test_an_answer_that_comes_as_time_is_up_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer closes the question just before the caller is woken.

    The caller used to get the error that its task had left.
    """
    closed, looked = threading.Event(), threading.Event()
    park, on_outcome, cancel = _sync.park, Call.on_outcome, Questions.cancel
    asker = threading.get_ident()

    def park_until_closed(
        lock: Any, ready: Callable[[], bool], deadline: float | None
    ) -> bool:
        if threading.get_ident() == asker and not closed.is_set():
            return not closed.wait(LIMIT_S)  # as if the timeout passed at this point
        return park(lock, ready, deadline)

    def hand_over_later(self: Call, outcome: Answer) -> None:
        closed.set()
        assert looked.wait(LIMIT_S)
        on_outcome(self, outcome)

    def cancel_and_tell(self: Questions, question: Question) -> bool:
        waited = cancel(self, question)
        looked.set()
        return waited

    with memory_bus() as bus:
        bus.register("doubler", on_command=lambda m: 2 * m.payload, thread=bus.thread())
        task = bus.register("asker", thread=bus.thread())
        monkeypatch.setattr(_sync, "park", park_until_closed)
        monkeypatch.setattr(Call, "on_outcome", hand_over_later)
        monkeypatch.setattr(Questions, "cancel", cancel_and_tell)

        assert task.call("doubler", 21, timeout=5) == 42


@clause("BUS-FLOW-5")
@pytest.mark.parametrize("reported", [False, True])
def test_a_call_ends_in_time_though_the_answering_thread_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, *, reported: bool
) -> None:
    """The question is closed, but the caller is not woken: it used to wait for ever."""
    interrupted = threading.Event()

    def strike(self: Call, response: Any) -> None:
        if reported:
            self.outcome = response
        interrupted.set()

    monkeypatch.setattr(questions, "_LATE_S", 0.01)
    with memory_bus() as bus:
        bus.register("doubler", on_command=lambda m: 2 * m.payload, thread=bus.thread())
        task = bus.register("asker", thread=bus.thread())
        monkeypatch.setattr(Call, "on_outcome", strike)
        if reported:
            assert task.call("doubler", 21, timeout=0.05) == 42
        else:
            with pytest.raises(CommandTimeoutError):
                task.call("doubler", 21, timeout=0.05)
        assert interrupted.is_set()


@clause("BUS-FLOW-5")
def test_a_call_ends_though_time_is_up_before_its_task_is_opened() -> None:
    """A slow thread opens the task late; the caller gets its error after that."""
    with memory_bus() as bus:
        host, exchange = bus.here()._manager, bus._exchange
        exchange._acting = True  # another thread acts on decisions
        task = bus.register("early", thread=bus.here())
        assert task._entry.mailbox.held

        def open_it() -> None:
            assert not host.inbox.items
            exchange._acting = False
            exchange.act()

        time_is_up = _sync.monotonic() + 0.01
        host.call_at(time_is_up + 0.01, open_it)
        with pytest.raises(UnresolvedError):
            task.call("nobody", timeout=time_is_up - _sync.monotonic())


@clause("BUS-FLOW-5")
def test_an_answer_that_is_here_ends_a_call_whose_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread of the task was in a callback meanwhile."""
    answers, monotonic, passed_s = threading.Event(), _sync.monotonic, [0.0]
    monkeypatch.setattr(_sync, "monotonic", lambda: monotonic() + passed_s[0])
    with memory_bus() as bus:
        here = bus.here()

        def linger(_: Incoming) -> None:
            answers.set()
            until(lambda: bool(here._manager.inbox.items), "the answer is posted")
            passed_s[0] = 2 * LIMIT_S

        def answer(_: Incoming) -> str:
            assert answers.wait(LIMIT_S)
            return "in time"

        bus.register("doer", thread=bus.thread(), on_command=answer)
        asker = bus.register("asker", thread=here, on_command=linger)
        asker.command("asker")

        assert asker.call("doer", timeout=LIMIT_S) == "in time"


@clause("BUS-FLOW-5", "BUS-MOVE-2")
@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_call_ends_in_time_though_its_task_moves_to_a_busy_thread(
    timeout: float,
) -> None:
    """The task moves before, or after, the call has posted its timeout to it."""
    free = threading.Event()

    def run() -> None:
        with memory_bus() as bus:
            here, busy = bus.here(), bus.thread()
            bus.register("busy", thread=busy, on_command=lambda _: free.wait(LIMIT_S))
            asker = bus.register("asker", thread=here)
            mover = bus.register("mover", thread=here)
            mover.on_command(lambda _: asker.move(busy))
            asker.command("busy")
            asker.command("mover")
            try:
                with pytest.raises(CommandTimeoutError):
                    asker.call("busy", timeout=timeout)
            finally:
                free.set()

    with Threads() as threads:
        calling = threads.start(run)
        try:
            calling.result()
        finally:
            free.set()
