"""`Bus.listen`: an iterator that may be closed, dropped and collected at any time."""

from __future__ import annotations

import gc
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from bus import Bus
from bus.api.receiver import Receiver
from bus.features.subscriptions.local_subscriptions import LocalSubscriptions
from bus.kernel.tasks.process_manager import ProcessManager
from bus.process.account import Account
from bus.process.inbox import Inbox
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.collector import collecting
from tests.kit.serving import serve, settle
from tests.kit.tasks import Holder
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

# A thread that waits for itself fails soon, so that no test here takes long.
LIMIT_S = 10.0


class Reader:
    """An object in a reference cycle that holds an iterator: needs the collector."""

    def __init__(self, bus: Bus) -> None:
        self.itself = self
        self.news = bus.listen("news")


def _register(bus: Bus) -> None:
    bus.register("one", thread=bus.here())


def _send(bus: Bus) -> None:
    bus.register("one", thread=bus.thread())
    bus.command("one", "m")


STRIKES: dict[str, tuple[type[Any], str, Callable[[Bus], None]]] = {
    "a task registers": (ProcessManager, "register", _register),
    "a task leaves": (
        *(ProcessManager, "leave"),
        lambda bus: bus.register("one", thread=bus.here()).deregister(),
    ),
    "a task subscribes": (
        *(LocalSubscriptions, "subscribe"),
        lambda bus: bus.subscribe("news", print).cancel(),
    ),
    "a request is posted": (
        *(Inbox, "append_locked"),
        lambda bus: bus.here().call_soon(print),
    ),
    "a command is admitted": (Account, "admit_locked", _send),
}


@clause("BUS-DEREG-14")
@pytest.mark.parametrize("name", STRIKES)
def test_an_iterator_collected_under_a_lock_waits_for_nothing(name: str) -> None:
    """The collector used to close a generator here, which took the same lock."""
    owner, method, act = STRIKES[name]

    def strikes() -> None:
        with memory_bus() as bus:
            victims: list[object] = [Reader(bus)]
            with collecting(owner, method, victims):
                act(bus)
            settle(bus)
            assert not [task for task in bus.tasks() if task.subscriptions]

    gc.collect()
    with Threads(LIMIT_S) as threads:
        threads.start(strikes).result(LIMIT_S)


@clause("BUS-DEREG-14")
@pytest.mark.parametrize(
    "call",
    [
        lambda bus: bus.listen("other", timeout=0),
        lambda bus: bus.register("other", thread=bus.here()),
        lambda bus: bus.call("nobody", timeout=0),
        lambda bus: bus.tasks(),
    ],
    ids=["listen", "register", "call", "tasks"],
)
def test_the_next_call_deregisters_the_task_of_a_dropped_iterator(
    bus: Bus, call: Callable[[Bus], object]
) -> None:
    news = bus.listen("news")
    [private] = bus._exchange.manager.table
    del news
    assert private.host is not None

    try:
        call(bus)
    except Exception:  # noqa: BLE001 # only the operations before it matter
        assert private.host is None

    assert private.host is None


@clause("BUS-DEREG-14")
def test_the_thread_that_serves_deregisters_the_task_of_a_dropped_iterator(
    bus: Bus,
) -> None:
    """At the next notification, so that unread ones do not pile up."""
    notifier = bus.register("news", thread=bus.thread())
    news = bus.listen("news")
    [private] = [each for each in bus._exchange.manager.table if each.name != "news"]
    del news

    notifier.notify("unread by anybody")

    def left() -> bool:
        return private.host is None

    serve(bus, left, "its task has left")


@clause("BUS-DEREG-14")
@pytest.mark.parametrize(
    "passing",
    [
        lambda bus: bus.listen("news").close(),
        lambda bus: bus.register("task", thread=bus.here()).deregister(),
    ],
    ids=["an iterator", "a task"],
)
def test_leaving_in_its_own_thread_is_done_at_once(
    bus: Bus, passing: Callable[[Bus], object]
) -> None:
    """No request waits for a thread that may never serve again."""
    passing(bus)

    assert not bus.here()._manager.pending()
    assert list(bus._exchange.manager.table) == []


@clause("BUS-DEREG-12")
@pytest.mark.parametrize("ends", ["the bus is closed", "its thread is stopped"])
def test_an_iteration_ends_with_the_bus_after_the_unread_ones(ends: str) -> None:
    bus = Bus("bus1")
    notifier = bus.register("news", thread=bus.thread())
    received: list[Any] = []

    def listener() -> None:
        here = bus.here("listener")
        for message in bus.listen("news"):
            received.append(message.payload)
            if message.payload == "first":
                notifier.notify("unread")
                if ends == "its thread is stopped":
                    here.stop(drain=60)
                else:
                    bus.close(drain=60)

    with Threads() as threads:
        remote_subscriptions = threads.start(listener)
        until(lambda: len(bus.tasks()) == 2, "it listens")
        notifier.notify("first")
        remote_subscriptions.result()

    assert received == ["first", "unread"]
    bus.close()


@clause("BUS-DEREG-12")
def test_an_iteration_that_waits_ends_when_another_thread_closes_the_bus() -> None:
    """It used to raise `UnknownTaskError` in the listening thread."""
    bus = Bus("bus1")
    waiting: list[object] = []

    def listener() -> list[Any]:
        news = bus.listen("news")
        bus.here().call_soon(lambda: waiting.append(news))
        return [message.payload for message in news]

    with Threads() as threads:
        remote_subscriptions = threads.start(listener)
        until(lambda: bool(waiting), "it waits")
        bus.close()

        assert remote_subscriptions.result() == []


@clause("BUS-DEREG-12")
def test_an_iteration_serves_its_stopped_thread_itself() -> None:
    """The closing thread waits for a callback elsewhere, so it serves none."""
    bus = Bus("bus1")
    with Holder.holding(bus) as holder, Threads() as threads:
        news = bus.listen("holder")
        holder.task.notify("unread")
        here = bus.here()
        closing = threads.start(bus.close, 60.0)
        until(lambda: here.stopped, "it is told to stop")

        assert [message.payload for message in news] == ["unread"]

        holder.let_go()
        closing.result()


@clause("BUS-MSG-11")
def test_to_go_on_iterating_within_a_callback_is_refused(bus: Bus) -> None:
    """It used to wait for itself; the iterator goes on afterwards."""
    here = bus.here()
    news = bus.listen("news")
    errors: list[BaseException] = []

    def within(_: object) -> None:
        try:
            next(news)
        except RuntimeError as error:
            errors.append(error)

    bus.register("within", thread=here, on_command=within)
    bus.command("within")
    serve(bus, lambda: errors, "it was tried")
    bus.register("news", thread=here).notify("heard")

    assert "iterate over notifications" in str(errors[0])
    assert next(news).payload == "heard"


@clause("BUS-MSG-11")
def test_to_iterate_in_another_thread_is_refused(bus: Bus) -> None:
    news = bus.listen("news")

    with Threads() as threads:
        error = threads.start(next, news).error()
    bus.register("news", thread=bus.here()).notify("heard")

    assert isinstance(error, RuntimeError)
    assert next(news).payload == "heard"


@clause("BUS-MSG-5")
def test_a_closed_iterator_has_ended(bus: Bus) -> None:
    notifier = bus.register("news", thread=bus.here())
    news: Any = bus.listen("news")
    notifier.notify("unread")
    bus.here().poll()

    news.close()
    news.close()  # does nothing

    assert list(news) == []
    assert iter(news) is news


@clause("BUS-ENT-17", "BUS-DEREG-14")
def test_an_interrupt_as_a_dropped_iterator_is_seen_to_loses_no_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The task used to be taken off the list before it was deregistered."""
    leave = Receiver.leave

    def strike(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with memory_bus() as bus:
        dropped = bus.listen("news")
        assert len(bus.tasks()) == 1
        del dropped
        gc.collect()
        monkeypatch.setattr(Receiver, "leave", strike)
        with pytest.raises(KeyboardInterrupt):
            bus.tasks()
        monkeypatch.setattr(Receiver, "leave", leave)
        assert not bus.tasks()


class _Emptied(deque[Any]):
    """Another thread takes the last item right after this one has checked."""

    def __bool__(self) -> bool:
        seen = len(self) > 0
        self.clear()
        return seen

    def remove(self, item: Any) -> None:
        self.clear()
        super().remove(item)


@clause("BUS-DEREG-14")
def test_two_threads_see_to_the_same_dropped_iterator() -> None:
    with memory_bus() as bus:
        task = bus.register("one", thread=bus.here())
        bus._orphans.waiting = _Emptied([task.deregister])
        assert not bus.tasks()
