"""An interrupt of the thread that serves tasks loses and doubles no message."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import bus as package
from bus import CommandTimeoutError, Incoming, RemoteError
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import PATIENT
from tests.kit.inspection import info
from tests.kit.serving import serve, settle
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from bus import Overflow, Task
    from tests.strikes import Blow

SENT = [(name, number) for number in range(3) for name in "ab"]


@clause("BUS-ROUTE-3", "BUS-MSG-15", "BUS-INIT-7")
def test_the_next_poll_handles_the_items_that_an_interrupted_one_has_left() -> None:
    """At most one message is missing: its callback was about to be called."""

    def run(threads: Threads) -> None:
        with memory_bus(config=PATIENT) as bus:
            here = bus.here()
            got: list[tuple[str, int]] = []
            called: list[None] = []
            tasks: list[Task] = []

            def on_command(message: Incoming) -> None:
                got.append(message.payload)

            def arrive() -> None:
                for name, number in SENT:
                    sender.command(name, (name, number))
                here.call_soon(lambda: called.append(None))
                tasks.append(bus.register("c", thread=here, on_command=on_command))
                sender.command("c", ("c", 0))

            sender = bus.register("sender", thread=bus.thread())
            for name in "ab":
                bus.register(name, thread=here, on_command=on_command)

            def case(interrupted: Blow) -> None:
                got.clear()
                called.clear()
                threads.start(arrive).result(LIMIT_S)

                interrupted(lambda: here.poll(0))

                settle(bus)
                missing = {*SENT, ("c", 0)} - {*got}
                assert len(got) + len(missing) == len(SENT) + 1
                assert len(missing) <= 1
                for name in "ab":
                    numbers = [number for to, number in got if to == name]
                    assert numbers == sorted(numbers)
                assert called == [None]
                tasks.pop().deregister()

            everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(run, threads).result(4 * LIMIT_S)


@clause("BUS-DEREG-12")
@pytest.mark.parametrize("overflow", ["error", "drop-oldest"])
def test_a_command_that_an_interrupted_receive_has_taken_is_received_next(
    overflow: Overflow,
) -> None:
    """Once, wherever the interrupt comes; the account has counted it once, too."""

    def run(threads: Threads) -> None:
        with memory_bus(config=PATIENT) as bus:
            sender = bus.register("sender", thread=bus.thread())
            task = bus.register("a", thread=bus.here(), overflow=overflow)

            def case(interrupted: Blow) -> None:
                got = list[int]()

                def receive() -> None:
                    got.append(task.receive(0).payload)

                send = threads.start(lambda: [sender.command("a", n) for n in range(2)])
                send.result(LIMIT_S)

                interrupted(receive)

                with suppress(CommandTimeoutError):
                    while True:
                        receive()
                assert got == [0, 1]
                counters = info(bus, "a").commands
                assert counters.accepted == counters.delivered

            everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(run, threads).result(4 * LIMIT_S)


@clause("BUS-FLOW-5", "BUS-MSG-13")
def test_a_command_that_no_receive_returns_any_more_is_answered() -> None:
    """Its receive was interrupted, and then the task got a command callback."""

    def run(threads: Threads) -> None:
        with memory_bus(config=PATIENT) as bus:
            bus.register("sender", thread=bus.thread())

            def case(interrupted: Blow) -> None:
                got = list[Incoming]()
                task = bus.register("a", thread=bus.here())
                calling = threads.start(bus.call, "a", 1)
                until(lambda: info(bus, "a").commands.unread > 0, "it is there")

                interrupted(lambda: got.append(task.receive(0)))

                for message in got:
                    message.respond(2)
                task.on_command(lambda _: 3)
                serve(bus, lambda: calling.done, "it is answered")
                with suppress(RemoteError):  # "interrupted by KeyboardInterrupt"
                    assert calling.result(LIMIT_S) in {2, 3}
                task.deregister()
                settle(bus)

            everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(run, threads).result(4 * LIMIT_S)


@clause("BUS-MSG-15")
def test_a_message_sent_after_an_interrupted_poll_overtakes_no_earlier_one() -> None:
    def run(threads: Threads) -> None:
        with memory_bus(config=PATIENT) as bus:
            here, got = bus.here(), list[Any]()
            sender = bus.register("sender", thread=here)
            bus.register("a", thread=here, on_command=lambda m: got.append(m.payload))

            def case(interrupted: Blow) -> None:
                got.clear()
                send = threads.start(lambda: [sender.command("a", n) for n in range(3)])
                send.result(LIMIT_S)

                interrupted(lambda: here.poll(0))

                sender.command("a", 3)
                settle(bus)
                assert got == sorted({*got})
                assert len(got) >= 3
                assert got[-1] == 3

            everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(run, threads).result(4 * LIMIT_S)
