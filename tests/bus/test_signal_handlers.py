"""BUS-ENT-18: a signal handler that calls a bus succeeds or is refused; it never hangs.

The handler runs at every point of a call that its own thread is executing
(`tests.handlers`).
"""

from __future__ import annotations

import logging
import signal
import threading
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, Final

import pytest

import bus as library
import queuebroker
from bus import Bus, BusConfig, Task, UnknownTaskError
from bus.testing import memory_bus
from queuebroker._net import Sleeper
from specs.clauses import clause
from tests.bus.support import There
from tests.handlers import Interruption, everywhere_handled
from tests.kit.buses import socket_bus
from tests.kit.serving import serve, settle
from tests.kit.systems import needs_unix_sockets
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Callable

    Act = Callable[[Bus, Task], object]

PACKAGES = (library, queuebroker)

# The interrupted calls: each sends at most one command, "call", to "sink".
CALLS: dict[str, Act] = {
    "command": lambda _, task: task.command("sink", "call"),
    "bytes": lambda _, task: task.command("sink", b"call"),
    "notify": lambda _, task: task.notify("call"),
    "subscribe": lambda _, task: task.subscribe("sink", print).cancel(),
    "register": lambda bus, _: bus.register("new", thread=bus.here()).deregister(),
    "poll": lambda bus, _: bus.here().poll(0),
}

# The acts of the handler: each sends at most one command, "handler", to "sink".
_ROUNDS_MAX: Final = 20

HANDLERS: dict[str, Act] = {
    "command": lambda _, task: task.command("sink", "handler"),
    "bytes": lambda _, task: task.command("sink", b"handler"),
    "with answer": lambda _, task: task.command("sink", "handler", on_response=print),
    "notify": lambda _, task: task.notify("handler"),
    "subscribe": lambda _, task: task.subscribe("sink", print).cancel(),
    "register": lambda bus, _: bus.register("newer", thread=bus.here()).deregister(),
    "look": lambda bus, _: bus.tasks(),
}


def strike_when(ready: Callable[[], bool], ident: int) -> None:
    """Send a signal to a thread once `ready` holds."""
    until(ready, "the main thread waits")
    signal.pthread_kill(ident, signal.SIGUSR1)


def text_of(payload: Any) -> str:
    """Return the sent text, from str or from bytes."""
    return payload.decode() if isinstance(payload, bytes) else str(payload)


@pytest.mark.deep
@clause("BUS-ENT-18")
@pytest.mark.parametrize(
    ("distance", "call", "handler"),
    [
        *(("other thread", call, handler) for call in CALLS for handler in HANDLERS),
        *(
            (distance, call, handler)
            for distance in ("same thread", "other process")
            for call in ("command", "bytes", "poll")
            for handler in ("command", "bytes")
        ),
    ],
)
def test_a_handler_takes_effect_or_is_refused_at_every_point(
    distance: str, call: str, handler: str
) -> None:
    """It used to hang within `Inbox.offer`, whose lock the interrupted command held."""
    refused: list[RuntimeError] = []
    got: list[str] = []

    with memory_bus() as bus, There(bus, distance) as there:
        there.register("sink", on_command=lambda m: got.append(text_of(m.payload)))
        task = bus.register("me", thread=bus.here())
        task.call("sink", "first")

        def case(interrupted: Interruption) -> None:
            got.clear()
            refused.clear()
            ran: list[bool] = []

            def handle() -> None:
                try:
                    HANDLERS[handler](bus, task)
                except RuntimeError as error:
                    refused.append(error)
                else:
                    ran.append(True)

            interrupted(lambda: CALLS[call](bus, task), handle)

            # Earlier commands have been read when this call is answered.
            task.call("sink", "last")
            settle(bus)
            expected = ["last"]
            expected += ["call"] * (call in {"command", "bytes"})
            sends = handler in {"command", "bytes", "with answer"}
            expected += ["handler"] * (sends and bool(ran))
            assert sorted(got) == sorted(expected)

        everywhere_handled(case, packages=PACKAGES)
        assert all("SimpleQueue" in str(error) for error in refused)


@pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"),
    reason="needs pthread_kill, which Windows lacks",
)
@clause("BUS-ENT-18")
def test_a_handler_closes_a_bus_while_the_main_thread_waits() -> None:
    with memory_bus() as bus:
        here = bus.here()
        before = signal.signal(signal.SIGUSR1, lambda *_: bus.close())
        main = threading.get_ident()
        host = here._manager
        helper = threading.Thread(
            target=lambda: strike_when(lambda: host.inbox.arrived.asleep, main)
        )
        try:
            helper.start()
            here.run()
        finally:
            helper.join(LIMIT_S)
            signal.signal(signal.SIGUSR1, before)
        with pytest.raises(UnknownTaskError):
            bus.command("sink")


@needs_unix_sockets
@clause("BUS-ENT-18")
@pytest.mark.parametrize("handler", HANDLERS)
def test_a_handler_takes_effect_while_the_main_thread_sleeps_at_a_link(
    handler: str,
) -> None:
    """It used to be refused there, but not if the thread slept at its inbox."""
    asleep = {Sleeper.sleep.__code__, Sleeper.spin.__code__}
    taken: list[bool] = []
    got: list[str] = []

    with socket_bus("near") as bus, There(bus, "by sockets") as there:
        there.register("sink", on_command=lambda m: got.append(text_of(m.payload)))
        task = bus.register("me", thread=bus.here())

        def handle() -> None:
            sleeps = any(each.f_code in asleep for each, _ in walk_stack(None))
            try:
                HANDLERS[handler](bus, task)
            except RuntimeError:
                assert not sleeps
            else:
                taken.append(sleeps)

        def case(interrupted: Interruption) -> None:
            for _ in range(3):
                task.call("sink", "first")  # the thread waits at the link from now on
            got.clear()
            taken.clear()

            interrupted(lambda: task.call("sink", "call"), handle)

            task.call("sink", "last")
            sends = handler in {"command", "bytes", "with answer"} and any(taken)
            assert sorted(got) == sorted(["call", "last"] + ["handler"] * sends)
            slept.extend(taken)

        slept: list[bool] = []
        # On a busy machine, each answer may arrive before this thread sleeps.
        for _ in range(_ROUNDS_MAX):
            if not any(slept):
                everywhere_handled(case, packages=(queuebroker._net,))
        assert any(slept)


@clause("BUS-ENT-18")
def test_a_handler_that_interrupts_a_callback_uses_the_bus_as_that_does() -> None:
    got: list[object] = []
    with memory_bus() as bus:
        bus.register("sink", on_command=lambda m: got.append(m.payload))
        me = bus.register("me", thread=bus.here())
        before = signal.signal(signal.SIGUSR1, lambda *_: me.command("sink", "h"))
        try:
            bus.register(
                "interrupted",
                thread=bus.here(),
                on_command=lambda _: signal.raise_signal(signal.SIGUSR1),
            )
            me.command("interrupted")
            serve(bus, lambda: got == ["h"], "the handler's command is there")
        finally:
            signal.signal(signal.SIGUSR1, before)


class _Told(logging.Handler):
    """A log handler that sends each message as a command."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task = task

    def emit(self, record: logging.LogRecord) -> None:
        self._task.command("sink", record.getMessage())


class _Own:
    """A type that only its encoder makes sendable."""


@clause("BUS-ENT-18")
def test_code_that_the_bus_calls_is_no_handler() -> None:
    """An encoder and a log handler may use the bus in the main thread."""
    got: list[Any] = []

    def encode(_: _Own) -> str:
        task.command("sink", "encoder")
        return "own"

    def fail(_: object) -> None:
        raise ValueError

    with memory_bus(config=BusConfig(encoders={_Own: encode})) as bus:
        bus.register("sink", on_command=lambda m: got.append(m.payload))
        task = bus.register("me", thread=bus.here())
        bus.register("failing", thread=bus.here(), on_command=fail)
        reported = _Told(task)
        logging.getLogger("bus").addHandler(reported)
        try:
            task.command("sink", _Own())
            task.command("failing")
            serve(bus, lambda: len(got) == 3, "three commands are there")
        finally:
            logging.getLogger("bus").removeHandler(reported)
    assert got[:2] == ["encoder", "own"]
