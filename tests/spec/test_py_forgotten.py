"""QB-PY-7: an end without references disconnects."""

from __future__ import annotations

import gc
import warnings
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    Broker,
    BrokerManager,
    DisconnectedError,
    DisconnectedQueueError,
    QueueBroker,
)
from specs.clauses import clause
from tests.meetings import meet
from tests.pairs import loose_queue_pair
from tests.processes import run
from tests.strikes import Blow, everywhere
from tests.support import Threads, taken, until
from tests.traffic import fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queuebroker import MessageQueue


@clause("QB-PY-7")
@pytest.mark.parametrize("kind", ["queue", "channel"])
@pytest.mark.parametrize("forgotten", [0, 1])
def test_an_end_that_is_forgotten_warns_and_hangs_up(kind: str, forgotten: int) -> None:
    """A ResourceWarning shows it; its peer drains, then raises, without a cause."""
    with ExitStack() as stack:
        if kind == "queue":
            ends: list[Any] = list(stack.enter_context(_loose(QueueBroker)))
            ends[forgotten].send(b"x")
        else:
            ends = list(stack.enter_context(_loose(Broker)))
            ends[forgotten].write(b"x")
        peer = ends[1 - forgotten]
        stack.callback(peer.disconnect)
        names = f"{ends[forgotten].local_name!r} to {peer.local_name!r} port 1"

        with pytest.warns(ResourceWarning, match=f"^unclosed <.* {names} ") as caught:
            _forget(ends)

        assert len(caught) == 1
        assert peer.remote_disconnected
        read = peer.receive if kind == "queue" else lambda: peer.read_exactly(1)
        assert read() == b"x"
        with pytest.raises(DisconnectedError) as ended:
            read()
        assert (ended.value.side, ended.value.__cause__) == ("remote", None)


@clause("QB-PY-7")
def test_an_end_forgotten_by_another_thread_wakes_its_maker() -> None:
    """Without the interpreter lock its maker frees it, and sleeps at that time."""
    left, right = loose_queue_pair()
    held = [right]
    del right

    def forget() -> None:
        until(lambda: len(left._connection.flows[0].buffer.arrived) > 0, "it sleeps")
        held.clear()

    with (
        warnings.catch_warnings(action="ignore", category=ResourceWarning),
        Threads() as threads,
    ):
        forgetting = threads.start(forget)
        with pytest.raises(DisconnectedQueueError):
            left.receive()
        forgetting.result()


@clause("QB-PY-7")
def test_an_end_in_a_cycle_of_garbage_hangs_up_when_it_is_collected() -> None:
    """Its peer, which waits, is released."""

    class Holder:
        end: Any
        me: Any

    with _loose(QueueBroker) as (left, right), right, Threads() as threads:
        waiter = threads.start(right.receive)
        full = threads.start(fill, right)
        until(lambda: bool(_parked(right)), "nobody waits")
        holder = Holder()
        holder.end, holder.me = left, holder
        del left

        cycle = [holder]
        del holder
        with pytest.warns(ResourceWarning, match="unclosed <MessageQueue 'b' to 'a'"):
            _forget(cycle)

        assert isinstance(waiter.error(), DisconnectedQueueError)
        assert isinstance(full.error(), DisconnectedQueueError)


@clause("QB-PY-7")
@pytest.mark.parametrize("who", ["remote", "local", "both", "abnormal"])
def test_an_end_that_is_disconnected_is_forgotten_silently(who: str) -> None:
    """It causes no warning, whichever side disconnected."""
    with _loose(QueueBroker) as ends:
        error = OSError("gone") if who == "abnormal" else None
        for end, closes in zip(ends, ("local", "remote"), strict=True):
            if who in (closes, "both", "abnormal"):
                end.disconnect(error)
        survivor = ends[1]
        del ends, end
        gc.collect()  # a warning would be an error

        survivor.disconnect()


@clause("QB-PY-7", "QB-CONC-9", "QB-ERR-9")
def test_a_finalizer_that_is_interrupted_lets_go_of_the_lock() -> None:
    """Its exception is lost; if the lock stayed taken, the peer would block."""

    def case(interrupted: Blow) -> None:
        left, right = loose_queue_pair()
        interrupted(lambda: left._connection.finalize(0))

        assert not taken(left._connection.lock)
        right.disconnect()
        left.disconnect()

    everywhere(case)


@pytest.mark.deep
@clause("QB-PY-7")
@pytest.mark.parametrize("locked", ["", "1"])
@pytest.mark.parametrize(
    ("holder", "warns"),
    [
        pytest.param("keep = right", True, id="while the library is whole"),
        # Objects deleted after the modules were emptied, with the program's own last.
        pytest.param("sys.excepthook = lambda *_: right", False, id="after it"),
    ],
)
def test_an_end_that_is_open_at_the_end_of_the_program_is_no_error(
    holder: str, warns: bool, locked: str
) -> None:
    """The warning appears as long as possible; later there is no one to warn."""
    code = f"""
        import os, sys, warnings
        warnings.simplefilter("always")
        os.environ["QUEUEBROKER_LOCKED"] = {locked!r}
        from queuebroker import BrokerManager, QueueBroker
        from tests.meetings import meet

        manager = BrokerManager()
        b, a = (QueueBroker(name, manager=manager) for name in "ba")
        left, right = meet(b, a)
        left.send(b"read")
        right.receive()
        {holder}
    """

    status, _, complaints = run(code)

    assert status == 0
    assert "Traceback" not in complaints
    assert ("unclosed <MessageQueue" in complaints) is warns


def _forget(things: list[Any]) -> None:
    things.clear()
    gc.collect()


@contextmanager
def _loose(face: type[Broker | QueueBroker]) -> Iterator[tuple[Any, Any]]:
    """Return two ends that no other code holds or disconnects."""
    with BrokerManager() as manager:
        b: Any = face("b", manager=manager)
        a: Any = face("a", manager=manager)
        box = [meet(b, a)]
        yield box.pop()


def _parked(end: MessageQueue) -> bool:
    flows = end._connection.flows
    return bool(flows[1 - end._side].buffer.room) and bool(
        flows[end._side].buffer.arrived
    )
