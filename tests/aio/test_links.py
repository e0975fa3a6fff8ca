"""An event loop reads the links of its calls in place of the comm thread."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import bus as bus_package
import queuebroker
from bus import BusError, Role, aio
from bus.kernel.fast_path import FastPath
from queuebroker import _sync
from specs.clauses import clause
from tests.aio.support import echo, run
from tests.kit.buses import PATIENT, socket_bus
from tests.kit.systems import needs_epoll
from tests.process.talk import until_at_rest
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus, Incoming
    from tests.strikes import Blow

_EVERYWHERE_S = 240.0


@pytest.fixture(autouse=True)
def abandoned() -> Iterator[None]:
    """Collect the frames of interrupts and of closed loops, as in `test_ends`."""
    yield
    gc.collect()
    gc.collect()  # one pass ends them, the next frees


@pytest.fixture(scope="module")
def uvloop() -> Any:
    """The module, once it has opened the descriptors that it never closes."""
    uvloop = pytest.importorskip("uvloop", reason="needs uvloop, of the extra test")
    uvloop.new_event_loop().close()
    return uvloop


@pytest.fixture
def near(far: Bus) -> Iterator[Bus]:
    with socket_bus("near", role=Role.SLAVE, config=PATIENT) as near:
        yield near


@pytest.fixture
def far() -> Iterator[Bus]:
    with socket_bus("far", role=Role.MASTER, config=PATIENT) as far:
        yield far


@contextmanager
def loop_of(bus: Bus, name: str = "echo") -> Iterator[asyncio.AbstractEventLoop]:
    """Let a loop in a thread of its own handle commands to a task; yield the loop."""
    begun, loops = threading.Event(), list[asyncio.AbstractEventLoop]()
    stopped = asyncio.Event()

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        await aio.wrap(bus).register(name, echo)
        begun.set()
        await stopped.wait()

    with Threads() as threads:
        serving = threads.start(lambda: asyncio.run(main()))
        assert begun.wait(LIMIT_S)
        try:
            yield loops[0]
        finally:
            loops[0].call_soon_threadsafe(stopped.set)
            serving.result(LIMIT_S)


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The idents of the threads that have received a message on the fast path."""
    receive, idents = FastPath.receive, list[int]()

    def received(fast_path: FastPath, *args: Any, **options: Any) -> bool:
        taken = receive(fast_path, *args, **options)
        if taken:
            idents.append(_sync.get_ident())
        return taken

    monkeypatch.setattr(FastPath, "receive", received)
    return idents


async def calls(bus: Bus, count: int, *to: str) -> None:
    """Call tasks in turn, each that many times; ``echo`` by default."""
    face = aio.wrap(bus)
    for number in range(count):
        for each in to or ("echo",):
            assert await face.call(each, number) == number


@needs_epoll
@clause("BUS-CHAN-7")
async def test_both_loops_read_the_link_themselves(
    near: Bus, far: Bus, readers: list[int]
) -> None:
    with loop_of(far):
        await calls(near, 200)

    # Occasionally a comm thread makes a round, or reads first.
    assert len(readers) > 200
    assert len({*readers}) == 2
    assert _sync.get_ident() in readers


@needs_epoll
@clause("BUS-CHAN-7")
def test_a_loop_of_uvloop_reads_its_link(
    uvloop: Any, near: Bus, far: Bus, readers: list[int]
) -> None:
    with loop_of(far), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(calls(near, 100))

    assert readers.count(_sync.get_ident()) > 50


@clause("BUS-ENT-8")
def test_the_link_of_a_loop_that_answers_stays_of_use_while_the_loop_is_blocked(
    near: Bus, far: Bus
) -> None:
    far.register("plain", on_command=lambda message: message.payload)
    released = threading.Event()
    with loop_of(far) as loop:
        for number in range(20):
            assert near.call("echo", number) == number
        loop.call_soon_threadsafe(released.wait, LIMIT_S)

        assert near.call("plain", 2) == 2

        released.set()
        assert near.call("echo", 3) == 3


@clause("BUS-ENT-8")
async def test_the_link_of_a_loop_that_calls_stays_of_use_while_the_loop_is_blocked(
    near: Bus, far: Bus
) -> None:
    """The comm thread takes it over, and the loop takes it again."""
    asker = near.register("asker", thread=near.thread())
    with loop_of(far), Threads() as threads:
        for _ in range(3):
            await calls(near, 20)  # the loop reads the link by then
            asking = threads.start(lambda: asker.call("echo", -1, timeout=LIMIT_S))
            assert asking.result(LIMIT_S) == -1  # blocks the loop


@clause("BUS-MSG-15")
async def test_coroutines_and_a_thread_call_over_one_link(near: Bus, far: Bus) -> None:
    asker = near.register("asker", thread=near.thread())
    with loop_of(far), Threads() as threads:
        asking = threads.start(
            lambda: [asker.call("echo", number) for number in range(100)]
        )
        await calls(near, 100)
        assert await asyncio.to_thread(asking.result, LIMIT_S) == [*range(100)]


def test_two_loops_call_over_one_link(near: Bus, far: Bus) -> None:
    with loop_of(far), Threads() as threads:
        other = threads.start(run, calls(near, 100))
        run(calls(near, 100))
        other.result(LIMIT_S)


async def test_one_loop_calls_over_two_links(near: Bus, far: Bus) -> None:
    with (
        socket_bus("third", role=Role.SLAVE, config=PATIENT) as third,
        loop_of(far),
        loop_of(third, "third"),
    ):
        await calls(near, 50, "echo", "third")


def test_a_closed_loop_leaves_its_link_to_the_comm_thread(near: Bus, far: Bus) -> None:
    """Without an end of its tasks: the loop is closed with them."""
    asker = near.register("asker", thread=near.thread())
    with loop_of(far):
        loop = asyncio.new_event_loop()
        for number in range(20):
            loop.run_until_complete(aio.wrap(near).call("echo", number))
        loop.close()

        assert asker.call("echo", 2) == 2
        near.close()


@clause("BUS-DEREG-12")
async def test_a_process_leaves_while_a_loop_reads_its_link(
    near: Bus, far: Bus
) -> None:
    face = aio.wrap(far)
    with loop_of(near, "leaving"):
        await calls(far, 20, "leaving")
    near.close()

    with pytest.raises(BusError):
        await face.call("leaving", 2, timeout=0.01)
    with socket_bus("near", role=Role.SLAVE, config=PATIENT) as again:
        again.register("again", on_command=lambda message: message.payload)
        assert await face.call("again", 3) == 3


@pytest.mark.deep
# Of a coroutine that is interrupted where it would begin.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@clause("QB-ERR-9")
@pytest.mark.parametrize("side", ["asks", "answers"])
def test_an_interrupt_in_a_loop_leaves_a_working_bus(
    near: Bus, far: Bus, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every point: a command is handled once at most, and the next is answered."""
    main = list[int]()  # the thread that stands for the main one
    monkeypatch.setattr(_sync, "may_be_interrupted", lambda: _sync.get_ident() in main)
    points, handled = list[int](), list[Any]()

    async def once(message: Incoming) -> Any:
        handled.append(message.payload)
        return message.payload

    def asks() -> None:
        with loop_of(far), asyncio.Runner() as runner:
            loop, face = runner.get_loop(), aio.wrap(near)

            async def ask(number: int) -> Any:
                async with asyncio.timeout(LIMIT_S):
                    return await face.call("echo", number)

            def case(interrupted: Blow) -> None:
                number = len(points) + 1
                loop.run_until_complete(ask(-number))
                interrupted(lambda: loop.run_until_complete(ask(number)))
                assert loop.run_until_complete(ask(-number)) == -number
                points.append(number)

            everywhere(case, packages=(bus_package, queuebroker))

    def answers() -> None:
        asker = near.register("asker", thread=near.thread())
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            # Without a log, whose records would hold the frames of the interrupts.
            loop.set_exception_handler(lambda *_: None)
            # Room for the callers of the commands that an interrupt loses.
            loop.set_default_executor(ThreadPoolExecutor(100))
            loop.run_until_complete(aio.wrap(far).register("once", once))

            def call(number: int) -> None:
                with suppress(BusError):  # of an interrupted handler
                    asker.call("once", number, timeout=LIMIT_S)

            def ask(number: int) -> None:
                loop.run_until_complete(asyncio.to_thread(call, number))

            def case(interrupted: Blow) -> None:
                number = len(points) + 1
                handled.clear()
                ask(-number)
                interrupted(lambda: ask(number))
                ask(-number - 1)
                assert handled in (
                    [-number, -number - 1],
                    [-number, number, -number - 1],
                )
                points.append(number)

            everywhere(case, packages=(bus_package, queuebroker))

    def apart() -> None:
        main.append(_sync.get_ident())
        asks() if side == "asks" else answers()

    # Not in this thread, for the reason given in `tests.sockets.test_interrupts`.
    with Threads() as each:
        each.start(apart).result(_EVERYWHERE_S)
    for one in (near, far):
        until_at_rest(one)
    assert len(points) > 50
