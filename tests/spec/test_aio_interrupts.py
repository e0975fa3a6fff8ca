"""QB-PY-11 with QB-ERR-9: an interrupt at every point while a coroutine waits.

Interrupted are the coroutine, the thread that wakes it, and the callbacks of the loop.
The test drives the coroutines by hand, without tasks: how asyncio handles an interrupt
is not tested here.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import queuebroker
import tests
from queuebroker import BrokerManager, DisconnectedQueueError, aio
from queuebroker.aio import waiting
from queuebroker.first import Selection
from queuebroker.meeting.meet import abandon
from queuebroker.waiting.parking import Wait
from specs.clauses import clause
from tests.kit.stepped_loop import SteppedLoop, stepped_loop
from tests.meetings import nobody_waits
from tests.pairs import look_away, queue_pair
from tests.strikes import Blow, everywhere
from tests.support import taken
from tests.traffic import fits

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from queuebroker import MessageQueue

    Call = Callable[[aio.MessageQueue], Coroutine[Any, Any, Any]]

# An interrupt between the call of a coroutine and its await, as in all of asyncio.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")

# No caller got the end, so none can have disconnected it (QB-RDV-12).
warns_of_the_end = pytest.mark.filterwarnings("ignore:unclosed <MessageQueue")

KINDS = {"fast": None, "locked": look_away}
both_kinds = pytest.mark.parametrize("kind", KINDS)


@contextmanager
def running(loop: SteppedLoop) -> Iterator[None]:
    """Make a loop the running one."""
    asyncio._set_running_loop(loop._as_loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(None)


def driven(
    loop: SteppedLoop,
    call: Callable[[], Coroutine[Any, Any, Any]],
    act: Callable[[], object],
) -> Any:
    """Start a call, trigger the event that it waits for, and drive it to its end."""
    with running(loop):
        coroutine = call()
        try:
            coroutine.send(None)
            act()
            while True:
                loop_runs(loop)
                coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        finally:
            coroutine.close()


CALLS: dict[str, Call] = {
    "receive": lambda face: face.receive(timeout=9),
    "receive_many": lambda face: face.receive_many(),
    "receive_any": lambda face: aio.receive_any([face]),
}


@pytest.mark.deep
@clause("QB-PY-11", "QB-ERR-9")
@both_kinds
@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_anywhere_in_a_receive_leaves_no_waiter_asleep(
    kind: str, name: str
) -> None:
    """The next waiter gets the message; the message after it is received."""

    def case(interrupted: Blow) -> None:
        with (
            queue_pair(2, observer=KINDS[kind]) as (left, right),
            stepped_loop() as loop,
        ):
            face = aio.wrap(left)
            others: list[asyncio.Task[bytes]] = []

            def call() -> Coroutine[Any, Any, Any]:
                return CALLS[name](face)

            def act() -> None:
                others.append(loop.start(face.receive()))
                loop_runs(loop)
                right.send(b"x")

            interrupted(lambda: driven(loop, call, act))

            assert not taken(left._connection.lock)
            loop.run()
            for other in others:
                assert left.pending == 0 or other.done()
                right.send(b"y")
                loop.run()
                assert other.done()
            assert_sound(left, right)

    everywhere(case)


def loop_runs(loop: SteppedLoop) -> None:
    """Run a loop while a driven coroutine is suspended."""
    asyncio._set_running_loop(None)
    loop.run()
    asyncio._set_running_loop(loop._as_loop)


@pytest.mark.deep
@clause("QB-PY-11", "QB-ERR-9")
@both_kinds
def test_an_interrupt_anywhere_in_a_send_costs_no_place(kind: str) -> None:
    """Exactly as many messages fit as before."""

    def case(interrupted: Blow) -> None:
        with (
            queue_pair(1, observer=KINDS[kind]) as (left, right),
            stepped_loop() as loop,
        ):
            face = aio.wrap(left)
            left.send(b"full")

            interrupted(
                lambda: driven(
                    loop, lambda: face.send(b"x", timeout=9), right.receive_nowait
                )
            )

            assert_sound(left, right)

    everywhere(case)


@pytest.mark.deep
@clause("QB-PY-11", "QB-RDV-11", "QB-RDV-12")
@warns_of_the_end
@pytest.mark.parametrize("accepts", [True, False])
def test_an_interrupt_anywhere_in_a_meeting_leaves_no_ghost(accepts: bool) -> None:
    """No caller stays listed, and no end has a silent peer."""

    def case(interrupted: Blow) -> None:
        with BrokerManager() as manager, stepped_loop() as loop:
            server = aio.QueueBroker("server", manager=manager)
            client = aio.QueueBroker("client", manager=manager)
            got: list[aio.MessageQueue] = []
            theirs: list[asyncio.Task[aio.MessageQueue]] = []

            def accept() -> Coroutine[Any, Any, aio.MessageQueue]:
                return server.accept(1, timeout=9)

            def connect() -> Coroutine[Any, Any, aio.MessageQueue]:
                return client.connect("server", 1, required=True, timeout=9)

            call, opposite = (accept, connect) if accepts else (connect, accept)

            def act() -> None:
                theirs.append(loop.start(opposite()))
                loop_runs(loop)

            interrupted(lambda: got.append(driven(loop, call, act)))
            loop.run()

            assert not taken(manager.lock)
            for task in theirs:
                if not task.done():
                    assert not got
                    task.cancel()
                    loop.run()
                    continue
                with suppress(KeyboardInterrupt), task.result() as end:
                    if got:
                        got[0].send_nowait(b"x")
                        assert end.receive_nowait() == b"x"
                    else:
                        with pytest.raises(DisconnectedQueueError):
                            end.receive_nowait()
            for end in got:
                end.close()
            nobody_waits(server.broker, client.broker)

    everywhere(case)


@clause("QB-PY-11", "QB-ERR-9")
@both_kinds
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("late", [False, True])
def test_an_interrupt_in_a_cancelled_calls_withdrawal_leaves_no_waiter_listed(
    kind: str, name: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after its removal from the list; the next waiter continues."""
    for owner in (Wait, Selection):
        monkeypatch.setattr(owner, "withdraw", _interrupted_once(owner.withdraw, late))
    with queue_pair(2, observer=KINDS[kind]) as (left, right), stepped_loop() as loop:
        face = aio.wrap(left)
        with running(loop):
            coroutine = CALLS[name](face)
            coroutine.send(None)
        other = loop.start(face.receive())
        loop.run()
        right.send(b"x")  # wakes the coroutine about to be cancelled

        with pytest.raises(KeyboardInterrupt):
            coroutine.throw(asyncio.CancelledError())

        assert loop.run_until(other) == b"x"
        assert_sound(left, right)


@clause("QB-PY-11", "QB-RDV-11")
@pytest.mark.parametrize("late", [False, True])
def test_an_interrupt_in_a_cancelled_accepts_withdrawal_leaves_no_ghost(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after its withdrawal."""
    monkeypatch.setattr(waiting, "abandon", _interrupted_once(abandon, late))
    with BrokerManager() as manager, stepped_loop() as loop:
        broker = aio.QueueBroker("b", manager=manager)
        with running(loop):
            coroutine: Coroutine[Any, Any, Any] = broker.accept(1, timeout=9)
            coroutine.send(None)

        with pytest.raises(KeyboardInterrupt):
            coroutine.throw(asyncio.CancelledError())

        nobody_waits(broker.broker)


@clause("QB-PY-11", "QB-ERR-9")
def test_an_interrupt_anywhere_in_a_wait_undoes_its_registration() -> None:
    """In the wait, in the undo, and at the entry of a function that leads to it."""

    def case(interrupted: Blow) -> None:
        listed: list[str] = []

        async def wait() -> None:
            listed.append("who waits")
            raise asyncio.CancelledError

        def undo(_: BaseException) -> None:
            listed.clear()

        coroutine = waiting.undone_if_interrupted(wait, undo)
        with suppress(asyncio.CancelledError):
            interrupted(lambda: coroutine.send(None))

        assert listed == []

    everywhere(case, packages=(queuebroker, tests))


def _interrupted_once(act: Callable[..., Any], late: bool) -> Callable[..., Any]:
    """Return a function whose first call is interrupted before or after it acts."""
    blows = [KeyboardInterrupt]

    def interrupted(*args: Any) -> Any:
        blow = blows.pop() if blows else None
        if blow is not None and not late:
            raise blow
        done = act(*args)
        if blow is not None:
            raise blow
        return done

    return interrupted


def assert_sound(left: MessageQueue, right: MessageQueue) -> None:
    """Check that no caller is listed, and that both directions have full capacity."""
    assert not taken(left._connection.lock)
    for sender, receiver in ((left, right), (right, left)):
        buffer = receiver._connection.flows[receiver._side].buffer
        assert (len(buffer.arrived), len(buffer.room)) == (0, 0)
        room = sender.capacity - receiver.pending
        assert fits(sender) == room
        assert len(receiver.receive_many()) == sender.capacity
