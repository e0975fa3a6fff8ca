"""`Task.call` at the point of its timeout."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import bus as package
from bus import (
    NOREPLY,
    CommandTimeoutError,
    RemoteError,
    UnknownTaskError,
    UnresolvedError,
)
from bus.kernel.tasks.actions import Answer
from bus.testing import memory_bus
from queuebroker import _sync
from specs.clauses import clause
from tests.kit.buses import PATIENT, processes
from tests.kit.serving import serve, settle
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Incoming
    from tests.strikes import Blow


@clause("BUS-FLOW-5", "BUS-MSG-11")
def test_an_interrupted_thread_hands_the_answer_of_another_callers_call_over() -> None:
    """Wherever the interrupt comes, the caller gets the answer without its timeout.

    Without a timeout the caller used to wait for ever.
    """

    def run(threads: Threads) -> None:
        with memory_bus(config=PATIENT) as bus:
            here = bus.here()
            bus.register("echo", thread=bus.thread(), on_command=lambda m: m.payload)
            asker = bus.register("asker", thread=here, on_command=lambda _: None)

            def case(interrupted: Blow) -> None:
                asker.command("asker")  # the answer queues up behind this command
                answer = threads.start(lambda: asker.call("echo", 1, timeout=None))
                until(lambda: bool(here._manager.inbox.items), "the answer is here")

                # The first poll handles the command, the second one the answer.
                interrupted(lambda: (here.poll(0), here.poll(0)))

                settle(bus)
                assert answer.result(LIMIT_S) == 1

            everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(run, threads).result(4 * LIMIT_S)


@clause("BUS-FLOW-5", "BUS-MSG-11")
def test_an_interrupted_thread_hands_over_the_answers_that_it_reads_from_a_link() -> (
    None
):
    """The thread waits at the link, and so does the actions of the whole process."""
    waiting: list[Incoming] = []

    def keep(message: Incoming) -> object:
        waiting.append(message)
        return NOREPLY

    with processes(2) as (near, far), Threads() as threads:
        far.register("far", thread=far.thread(), on_command=keep)
        asker = near.register("asker", thread=near.thread())
        exchange = near._exchange

        def case(interrupted: Blow) -> None:
            outcome = threads.start(lambda: asker.call("far", timeout=None))
            until(lambda: bool(waiting), "the far task has the question")
            answer = Answer(asker._entry, waiting.pop()._id, None, "answer")

            interrupted(lambda: exchange.decide(lambda: [answer]))

            exchange.decide(lambda: [answer])  # if it came before the decision
            assert outcome.result(LIMIT_S) == "answer"

        everywhere(case, packages=(package,))


@clause("BUS-FLOW-5", "BUS-MSG-13")
@pytest.mark.parametrize("asks", ["another thread", "another process"])
def test_a_caller_gets_the_interrupt_of_the_callback_that_it_waits_for(
    asks: str,
) -> None:
    """Wherever the interrupt comes from the delivery to the end of the answer.

    Without a timeout the caller used to wait for ever.
    """

    def run(threads: Threads) -> None:
        with processes(2) as (near, far):
            here = near.here()
            near.register("echo", thread=here, on_command=lambda m: m.payload)
            asking = near if asks == "another thread" else far
            asker = asking.register("asker", thread=asking.thread())
            first = threads.start(lambda: asker.call("echo", 0))
            serve(near, lambda: first.done, "the tasks know each other")

            def case(interrupted: Blow) -> None:
                answer = threads.start(lambda: asker.call("echo", 1, timeout=None))
                until(lambda: bool(here._manager.inbox.items), "the question is here")

                interrupted(lambda: here.poll(0))

                serve(near, lambda: answer.done, "the caller has an answer")
                error = answer.error(LIMIT_S)
                if error is None:
                    assert answer.result(LIMIT_S) == 1
                else:
                    assert isinstance(error, RemoteError)
                    assert "interrupted by KeyboardInterrupt" in str(error)

            everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(run, threads).result(4 * LIMIT_S)


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


@clause("BUS-FLOW-5")
def test_a_call_that_begins_as_its_task_deregisters_ends() -> None:
    """Its question is opened between two steps of the end of the task."""
    begun, go = threading.Event(), threading.Event()

    def held_numbers() -> Iterator[int]:
        begun.set()
        assert go.wait(LIMIT_S)
        yield 1

    class Open(dict[int, Any]):
        def values(self) -> Any:
            found = list(super().values())
            go.set()
            until(lambda: bool(self) or calling.done, "the question is open")
            return found

    with memory_bus() as bus, Threads() as threads:
        bus.register("doer", thread=bus.thread(), on_command=lambda _: NOREPLY)
        asker = bus.register("asker", thread=bus.thread())
        questions = asker._sender.asker.questions
        questions.numbers = held_numbers()  # type: ignore[misc, assignment]
        questions.open = Open()
        calling = threads.start(lambda: asker.call("doer", timeout=None))
        assert begun.wait(LIMIT_S)

        asker.deregister()

        assert isinstance(calling.error(LIMIT_S), UnknownTaskError)


@clause("BUS-FLOW-5")
def test_an_answer_to_a_call_that_is_over_just_now_is_late() -> None:
    """The thread that ends the calling one closes the question at the same time."""

    class Open(dict[int, Any]):
        def get(self, number: int, _: object = None) -> Any:
            return self.pop(number, None)

    with memory_bus() as bus:
        host = bus.here()._manager
        sender = bus.register("asker", thread=bus.here())._sender
        questions = sender.asker.questions
        call, _, _, _ = sender.new_call("nobody", 1, None, None, None)
        number = questions.ask(call)
        assert number is not None
        questions.open = Open(questions.open)

        answer = Answer(sender._entry, number, None, "late")

        assert not questions.try_deliver_directly(answer, host)
        assert call.outcome is None


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
