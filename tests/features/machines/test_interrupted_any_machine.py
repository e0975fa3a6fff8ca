"""Interrupts of calls with names of any machine, ``ism://*/log``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import attrs
import pytest

import bus as package
from bus import CommandTimeoutError, InDoubtError
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import PATIENT, bindings
from tests.kit.tasks import Reader
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus, BusError, Response, Undelivered
    from tests.strikes import Blow

LOG = "ism://*/log"


def interrupt_everywhere(prepare: Callable[[Bus], Callable[[Blow], None]]) -> None:
    """Interrupt a call on a bus at each of its points, in a thread of its own.

    prepare: registers the tasks of a bus, and returns the case with the call.
    """

    def run() -> None:
        with memory_bus(config=PATIENT) as bus:
            everywhere(prepare(bus), packages=(package,))

    with Threads() as threads:
        threads.start(run).result(LIMIT_S)


@clause("BUS-NAME-8")
def test_an_interrupted_wait_leaves_nothing() -> None:
    def prepare(bus: Bus) -> Callable[[Blow], None]:
        Reader(bus, "log")

        def case(interrupted: Blow) -> None:
            interrupted(lambda: bus.wait_for(LOG, timeout=LIMIT_S))
            assert len(bus._exchange.manager.parked) == 0
            assert not bindings(bus)
            assert bus.call(LOG, 1) == 1

        return case

    interrupt_everywhere(prepare)


@clause("BUS-NAME-8")
def test_an_interrupted_wait_for_a_name_without_a_task_leaves_nothing() -> None:
    def prepare(bus: Bus) -> Callable[[Blow], None]:
        bus.register("other", thread=bus.here())

        def wait() -> None:
            with suppress(CommandTimeoutError):
                bus.wait_for(LOG, timeout=0.001)

        def case(interrupted: Blow) -> None:
            interrupted(wait)
            assert len(bus._exchange.manager.parked) == 0

        return case

    interrupt_everywhere(prepare)


@pytest.mark.deep
@clause("BUS-NAME-8")
@pytest.mark.parametrize("asks", [False, True])
def test_an_interrupt_while_waiting_messages_are_sent_leaves_each_an_outcome(
    *, asks: bool
) -> None:
    """The message that was being sent is in doubt; the next call sends the others."""
    doubts: list[int] = []

    def strikes() -> None:
        reported: list[BusError | None] = []
        with memory_bus(config=PATIENT) as bus:
            sender = bus.register(
                "sender",
                thread=bus.here(),
                on_undelivered=lambda each: reported.append(each.error),
            )
            here, exchange = bus.here(), bus._exchange
            answered = told_error(reported) if asks else None

            def case(interrupted: Blow) -> None:
                reported.clear()
                for number in range(3):
                    sender.command(LOG, number, on_response=answered)
                exchange._acting = True  # as if another thread performed the actions
                log = bus.register("log", thread=here)
                exchange._acting = False

                interrupted(exchange.act)

                exchange.act()
                assert not bindings(bus)
                assert len(exchange.manager.parked) == 0
                assert exchange.find(LOG) is log._entry
                sender.command(LOG, 3)
                got = []
                with suppress(CommandTimeoutError):
                    while True:
                        got.append(log.receive(0).payload)
                here.poll(0)
                assert got == sorted(set(got))
                assert got[-1] == 3
                assert {type(each) for each in reported} <= {InDoubtError}
                assert len(reported) <= 1
                assert len(got) + len(reported) >= 4  # in doubt: delivered or not
                doubts.append(len(reported))
                log.deregister(final=True)
                here.poll(0)

            everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(strikes).result(LIMIT_S)
    assert 0 in doubts
    assert 1 in doubts


@pytest.mark.deep
@clause("BUS-NAME-8")
def test_an_interrupt_loses_no_message_that_was_parked_during_a_bind() -> None:
    """Wherever it comes, the name is bound after the next call."""

    def strikes() -> None:
        reported: list[BusError | None] = []
        with memory_bus(config=PATIENT) as bus:
            sender = bus.register(
                "sender",
                thread=bus.here(),
                on_undelivered=lambda each: reported.append(each.error),
            )
            here, exchange = bus.here(), bus._exchange

            def case(interrupted: Blow) -> None:
                reported.clear()
                sender.command(LOG, 0)
                exchange._acting = True  # as if another thread performed the actions
                log = bus.register("log", thread=here)
                sender.command(LOG, 1)
                sender.command(LOG, 2)
                exchange._acting = False

                interrupted(exchange.act)

                exchange.act()
                assert not bindings(bus)
                assert exchange.manager.parked.waiting() == {}
                sender.command(LOG, 3)
                got = []
                with suppress(CommandTimeoutError):
                    while True:
                        got.append(log.receive(0).payload)
                here.poll(0)
                assert got == sorted(set(got))
                assert len(got) + len(reported) >= 4  # in doubt: delivered or not
                log.deregister(final=True)
                here.poll(0)

            everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(strikes).result(LIMIT_S)


def told_error(reported: list[BusError | None]) -> Callable[[Response], object]:
    """Return a callback that keeps the error of each answer which reports doubt."""

    def on_response(response: Response) -> None:
        if isinstance(response.error, InDoubtError):
            reported.append(response.error)

    return on_response


@clause("BUS-NAME-8", "BUS-MSG-15")
@pytest.mark.parametrize("known", [False, True])
def test_an_interrupted_command_is_sent_once_or_not_at_all(*, known: bool) -> None:
    """If the caller gets no interrupt, the command is accepted, and has an outcome.

    known: True if the name has a task before the command is sent.
    """

    def strikes() -> None:
        undelivered: list[Undelivered] = []
        config = attrs.evolve(PATIENT, resolve_timeout_s=LIMIT_S)
        with memory_bus(config=config) as bus:
            sender = bus.register("sender", on_undelivered=undelivered.append)
            here = bus.here()

            def case(interrupted: Blow) -> None:
                log = bus.register("log", thread=here) if known else None
                returned: list[bool] = []

                def send() -> None:
                    sender.command(LOG, "struck")
                    returned.append(True)

                interrupted(send)

                sender.command(LOG, "last")
                log = log or bus.register("log", thread=here)
                got = []
                with suppress(CommandTimeoutError):
                    while True:
                        got.append(log.receive(0).payload)
                assert got in (["struck", "last"], ["last"])
                assert len(got) == 2 or not returned
                assert len(bus._exchange.manager.parked) == 0
                assert undelivered == []
                log.deregister(final=True)

            everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(strikes).result(LIMIT_S)
