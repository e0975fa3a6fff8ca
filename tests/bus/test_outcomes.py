"""BUS-FLOW-5: each command has one outcome per addressee."""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    NOREPLY,
    AddresseeGoneError,
    Bus,
    BusConfig,
    BusFullError,
    CommandTimeoutError,
    Incoming,
    Response,
    UnknownTaskError,
    UnresolvedError,
)
from bus.api.receiver import Receiver
from bus.kernel.tasks.actions import Answer
from bus.testing import memory_bus
from specs.clauses import clause
from tests.bus.support import NEAR, POLICIES, far
from tests.kit.inspection import info, is_there
from tests.kit.serving import serve, settle
from tests.kit.tasks import Holder, echo, unwanted
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Overflow


@clause("BUS-FLOW-5")
def test_a_late_answer_is_dropped_and_counted(bus: Bus) -> None:
    kept: list[Incoming] = []
    outcomes: list[Response] = []

    def asked(message: Incoming) -> Any:
        kept.append(message)
        return NOREPLY

    bus.register("doer", thread=bus.here(), on_command=asked)
    asker = bus.register("asker", thread=bus.here())
    asker.command("doer", on_response=outcomes.append, timeout=0.05)
    serve(bus, lambda: kept and outcomes, "it is asked, and time is up")
    kept[0].respond("late")
    settle(bus)

    [outcome] = outcomes
    assert isinstance(outcome.error, CommandTimeoutError)
    assert (outcome.error.name, outcome.error.timeout_s) == ("doer", 0.05)
    assert str(outcome.responder) == "ism://bus1@machine/doer"
    assert info(bus, "asker").late == 1


@clause("BUS-FLOW-5")
def test_how_long_an_answer_is_waited_for_is_configured() -> None:
    """For each way to ask; an explicit None means for ever, not the default."""
    reported: list[Response] = []
    with memory_bus(config=BusConfig(command_timeout_s=0.02)) as bus:
        bus.register("silent", thread=bus.thread(), on_command=lambda _: NOREPLY)
        asker = bus.register("asker", thread=bus.here())
        kept = asker.command("silent", on_response=reported.append, timeout=None)
        asker.command("silent", on_response=reported.append)
        for ask in (bus.call, asker.call):
            with pytest.raises(CommandTimeoutError) as caught:
                ask("silent")
            assert caught.value.timeout_s == 0.02
        serve(bus, lambda: reported, "time is up")

        [outcome] = reported
        assert isinstance(outcome.error, CommandTimeoutError)
        assert kept.cancel()


@clause("BUS-FLOW-5")
def test_an_answer_that_is_here_comes_before_the_end_of_time(bus: Bus) -> None:
    outcomes: list[Response] = []
    bus.register("doer", thread=bus.thread(), on_command=lambda _: "in time")
    asker = bus.register("asker", thread=bus.here())
    asker.command("doer", on_response=outcomes.append, timeout=0.05)
    until(lambda: bool(bus.here()._manager.inbox.items), "the answer is posted")
    deadline = asker._receiver.questions.next_deadline()
    assert deadline is not None
    with Threads() as threads:  # time passes, and this thread is not served
        threads.start(_wait_until, deadline)
    settle(bus)

    assert [one.payload for one in outcomes] == ["in time"]
    assert info(bus, "asker").late == 0


def _wait_until(deadline: float) -> None:
    until(lambda: monotonic() > deadline, "time is up")


@clause("BUS-FLOW-5")
def test_a_cancelled_command_has_no_outcome_and_is_not_delivered(bus: Bus) -> None:
    bus.register("doer", thread=bus.here(), on_command=unwanted)
    asker = bus.register("asker", thread=bus.here())
    handle = asker.command("doer", on_response=unwanted)
    nobody = asker.command("nobody", on_response=unwanted, timeout=0)

    assert handle.cancel()
    assert nobody.cancel()
    assert not handle.cancel()
    serve(bus, lambda: not bus.inspect().parked, "the parked one is given up")
    settle(bus)

    assert info(bus, "doer").commands.expired == 1
    assert info(bus, "asker").late == info(bus, "asker").questions == 0


@clause("BUS-FLOW-5")
@pytest.mark.parametrize("final", [True, False])
def test_an_unread_command_gets_an_outcome_after_its_task_deregisters(
    bus: Bus, final: bool
) -> None:
    outcomes: list[Response] = []
    doer = bus.register("doer", thread=bus.here())
    asker = bus.register("asker", thread=bus.here())
    asker.command("doer", 1, on_response=outcomes.append)
    settle(bus)
    doer.deregister(final=final)
    settle(bus)
    if not final:
        assert outcomes == []
        bus.register("doer", thread=bus.here(), on_command=echo)
        settle(bus)

    [outcome] = outcomes
    if final:
        assert isinstance(outcome.error, AddresseeGoneError)
    else:
        assert outcome.payload == 1


@clause("BUS-FLOW-5")
@pytest.mark.parametrize("distance", NEAR)
@pytest.mark.parametrize("policy", POLICIES)
def test_at_each_policy_each_command_has_one_outcome(
    distance: str, policy: Overflow
) -> None:
    config = BusConfig(send_timeout_s=0)
    with memory_bus(config=config) as bus:
        outcomes: dict[int, list[str]] = {}
        refused: list[int] = []
        there = far(bus, distance)
        task = bus.register("task", thread=there, capacity=3, overflow=policy)
        asker = bus.register("asker", thread=bus.here())
        for number in range(8):
            outcomes[number] = []
            try:
                asker.command(
                    "task",
                    number,
                    timeout=60,
                    on_response=lambda one: outcomes[one.reference].append(
                        type(one.error).__name__
                    ),
                    ref=number,
                )
            except BusFullError:
                refused.append(number)
        settle(bus)
        serve(
            bus,
            lambda: policy != "disconnect" or not is_there(bus, "task"),
            "the disconnected subscriber has left",
        )
        if policy == "disconnect":
            with pytest.raises(UnknownTaskError):
                task.on_command(print)
        else:
            task.on_command(lambda _: None)

        def settled() -> bool:
            return all(
                bool(reported) != (n in refused) for n, reported in outcomes.items()
            )

        if policy == "disconnect":
            # Later commands are parked for the next task of that name.
            bus.register("task", thread=bus.here(), on_command=lambda _: None)
        serve(bus, settled, "each has an outcome")
        settle(bus)

        reported = [each[0] if each else "refused" for each in outcomes.values()]
        assert max(map(len, outcomes.values())) == 1
        answered, full, gone = "NoneType", "BusFullError", "AddresseeGoneError"
        assert (
            reported
            == {
                "block": [answered] * 3 + ["refused"] * 5,
                "error": [answered] * 3 + ["refused"] * 5,
                "drop-oldest": [full] * 5 + [answered] * 3,
                "drop-newest": [answered] * 3 + [full] * 5,
                "disconnect": [gone] * 3 + ["refused"] + [answered] * 4,
            }[policy]
        )


@clause("BUS-FLOW-5")
def test_each_command_of_a_caller_reports_its_outcome_to_its_own_callback(
    bus: Bus,
) -> None:
    outcomes: dict[str, str] = {}

    def received(name: str) -> Callable[[Response], None]:
        return lambda one: outcomes.update({name: type(one.error).__name__})

    asker = bus.register("asker", thread=bus.here())
    bus.register("silent", thread=bus.here(), on_command=lambda _: NOREPLY)
    asker.command("silent", on_response=received("silent"), timeout=0.001)
    asker.command("nobody", on_response=received("nobody"), timeout=0.001)

    serve(bus, lambda: len(outcomes) == 2, "both have an outcome")

    assert outcomes == {
        "silent": CommandTimeoutError.__name__,
        "nobody": UnresolvedError.__name__,
    }


@clause("BUS-FLOW-5")
def test_an_answer_that_was_unread_when_its_task_left_is_counted(bus: Bus) -> None:
    here = bus.here()
    bus.register("echo", thread=bus.thread(), on_command=lambda message: 1)
    task = bus.register("asker", thread=here)
    task.command("echo", on_response=unwanted)
    until(lambda: bool(here._manager.inbox.items), "the answer is here")

    task.deregister()

    assert task._receiver.asker.late == 1


@clause("BUS-FLOW-5", "BUS-MOVE-2")
def test_a_question_times_out_in_the_thread_its_task_moved_to(bus: Bus) -> None:
    """The thread in which it was asked no longer serves."""
    bus.register("silent", thread=bus.thread(), on_command=lambda _: NOREPLY)
    task = bus.register("asker", thread=bus.here())
    outcomes: list[Response] = []
    task.command("silent", on_response=outcomes.append, timeout=0.01)

    task.move(bus.thread())

    until(lambda: bool(outcomes), "its time is up")
    assert isinstance(outcomes[0].error, CommandTimeoutError)


@clause("BUS-DEREG-10", "BUS-FLOW-5")
def test_a_caller_learns_that_its_task_left_with_the_answer_unread(
    bus: Bus,
) -> None:
    """The unread answer is dropped with its task."""
    bus.register("echo", thread=bus.thread(), on_command=lambda _: 1)
    with Threads() as threads, Holder.holding(bus) as holder:
        task = bus.register("asker", thread=holder.thread)
        calling = threads.start(partial(task.call, "echo", timeout=None))
        items = holder.thread._manager.inbox.items
        until(lambda: Answer in [type(each) for each in list(items)], "it is answered")

        task.deregister()
        holder.let_go()

        assert isinstance(calling.error(), UnknownTaskError)


@clause("BUS-INIT-7")
def test_a_task_that_may_read_just_as_it_is_to_wait_for_that_is_opened(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its registration ends between the two checks of another thread."""
    receiver = bus.register("task", thread=bus.here())._receiver
    looks = iter([False, True])
    monkeypatch.setattr(Receiver, "is_released", lambda _: next(looks))
    opened: list[bool] = []

    assert receiver.postpone(lambda: opened.append(True))

    assert opened == [True]
