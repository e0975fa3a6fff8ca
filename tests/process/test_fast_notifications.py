"""Lone notifications between processes: they pass by the comm threads, in order."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import bus as bus_package
import queuebroker
from bus import Role
from bus.kernel import fast_path
from bus.kernel.fast_path import FastPath
from bus.model.message import Kind
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.buses import ENDLESS, processes, socket_bus
from tests.kit.comm_threads import comm_of, held
from tests.kit.inspection import all_acknowledged, info, unbalanced
from tests.strikes import everywhere
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Incoming
    from queuebroker.testing import Run
    from tests.strikes import Blow

_EVERYWHERE_S = 240.0


class News:
    """A notifier, and a subscriber in a thread of another process.

    went, received: how many notifications were sent and received on the fast path.
    """

    def __init__(self, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.went = self.received = 0
        self.got: list[Any] = []
        self.far = stack.enter_context(socket_bus("far", role=Role.MASTER))
        self.near = stack.enter_context(socket_bus("near", role=Role.SLAVE))
        self.thread = self.far.thread()
        self.reader = self.far.register(
            "reader", on_command=self._on_message, thread=self.thread
        )
        self.notifier = self.near.register("news", thread=self.near.here())
        self.reader.subscribe("news", self._on_message, wait=True)
        self.notifier.wait_for_subscribers()
        # Later commands wait for no search, which notifications may overtake.
        self.notifier.command("reader", "first")
        until(lambda: self.got == ["first"], "its addressee is found")
        self.got.clear()
        self._count(monkeypatch)

    def _on_message(self, message: Incoming) -> None:
        self.got.append(message.payload)

    def _count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send, deliver = FastPath.notification, fast_path._notifications

        def sends(way: FastPath, *about: Any) -> Any:
            self.went += 1
            return send(way, *about)

        def receives(*about: Any) -> Any:
            self.received += 1
            return deliver(*about)

        monkeypatch.setattr(FastPath, "notification", sends)
        monkeypatch.setattr(fast_path, "_notifications", receives)

    def notify(self, payload: Any) -> None:
        """Send a notification, and wait until the subscriber has it."""
        count = len(self.got)
        self.notifier.notify(payload)
        self.has(count + 1)

    def has(self, count: int) -> None:
        """Wait until the subscriber has that many messages."""
        until(lambda: len(self.got) == count, "all are received")


@pytest.fixture
def news(monkeypatch: pytest.MonkeyPatch) -> Iterator[News]:
    with ExitStack() as stack:
        yield News(stack, monkeypatch)


@clause("BUS-CHAN-7", "BUS-MSG-15", "BUS-FLOW-7")
@pytest.mark.parametrize("payload", [b"bytes", {"an": "object"}])
def test_lone_notifications_pass_by_the_comm_threads(news: News, payload: Any) -> None:
    """Both processes count each of them, soon and without further traffic."""
    sent = [(payload, number) for number in range(100)]
    if isinstance(payload, bytes):
        sent = [b"%d" % number for number in range(100)]  # type: ignore[misc]
    for each in sent:
        news.notify(each)

    assert news.got == sent
    assert news.went > 20
    assert news.received > 10
    all_acknowledged(news.near)
    for bus in (news.near, news.far):
        assert unbalanced(bus.inspect()) == []
    passed_on = news.near.inspect().notifying
    assert passed_on is not None
    assert (passed_on.accepted, passed_on.delivered) == (100, 100)
    [subscription] = info(news.far, "reader").subscriptions
    assert subscription.notifications.delivered == 100
    assert (subscription.gap, subscription.missed) == (0, 0)


@clause("BUS-MSG-15")
def test_lone_notifications_keep_their_place_among_others(news: News) -> None:
    """Among commands of their task, and among notifications that go together."""
    sent = list[Any]()
    for number in range(30):
        news.notifier.command("reader", (number, "command"))
        news.notifier.notify((number, "notification"))
        sent += [(number, "command"), (number, "notification")]
        if number % 5 == 0:
            with held(news.near):
                for each in (b"1", b"2", b"3"):
                    news.notifier.notify(each)
                    sent.append(each)
        news.has(len(sent))

    assert news.got == sent


@clause("BUS-MSG-15", "BUS-CHAN-6")
def test_a_notification_waits_for_the_comm_thread_that_is_at_work(news: News) -> None:
    news.notify(b"warm")
    with held(news.near):
        went = news.went
        news.notifier.notify(b"later")
        assert news.went == went
    until(lambda: news.got == [b"warm", b"later"], "it is sent")


@clause("OPEN-12")
def test_the_frame_monitor_sees_each_lone_notification(news: News) -> None:
    comm, frames = comm_of(news.near), list[Any]()

    class Noted:
        """Records the frames that the monitor sees."""

        def on_frame(self, link: int, frame: Any, *, out: bool) -> None:
            del link, out
            frames.append(frame)

    news.notify(b"0")
    comm.watcher = Noted()
    try:
        went = news.went
        for number in range(1, 5):
            news.notify(b"%d" % number)
        assert news.went == went
    finally:
        comm.watcher = None
    runs = [run for frame in frames for run in getattr(frame, "runs", ())]
    bodies = [bytes(run.bodies[0]) for run in runs if run.kind is Kind.NOTIFICATION]
    assert bodies == [b"1", b"2", b"3", b"4"]


@clause("BUS-MSG-4", "BUS-ROUTE-4")
def test_subscribers_in_several_threads_get_each_lone_notification(news: News) -> None:
    """One of the threads reads the link, for all of them."""
    others = list[Any]()
    beside = news.far.register("beside", thread=news.far.thread("elsewhere"))
    beside.subscribe("news", lambda message: others.append(message.payload), wait=True)
    for number in range(50):
        news.notify({"number": number})
        until(lambda: len(others) == len(news.got), "the other has it, too")

    assert others == news.got == [{"number": number} for number in range(50)]
    assert news.received > 5
    assert all(one is not two for one, two in zip(news.got, others, strict=True))


@clause("BUS-RELAY-10", "AMO-7")
def test_a_lone_notification_survives_the_loss_of_its_link(news: News) -> None:
    news.notify(b"before")
    driver = comm_of(news.near)._fast_path_driver
    for number in range(5):
        news.notifier.notify(b"%d" % number)
        for peer in comm_of(news.near).remote.topology.peers.values():
            if peer.session.link is not None:
                driver.abort_link(peer.session.link)
        news.has(number + 2)

    all_acknowledged(news.near)
    assert news.got == [b"before", *(b"%d" % number for number in range(5))]


@pytest.mark.deep
@clause("QB-ERR-9", "BUS-FLOW-7", "AMO-7")
def test_an_interrupted_notification_is_received_once_or_never(
    news: News, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every point of `notify`; the next notification follows it, without a gap."""
    numbers, went, sent_at_once = iter(range(1, 1_000_000)), list[int](), list[int]()
    rounds = comm_of(news.near)._rounds
    main = list[int]()  # the thread that stands for the main one
    monkeypatch.setattr(_sync, "may_be_interrupted", lambda: _sync.get_ident() in main)
    monkeypatch.setattr("bus.process.fast_path_driver._ALONE_S", 0.0)

    def case(interrupted: Blow) -> None:
        news.notify(b"before")
        all_acknowledged(news.near)
        until(lambda: rounds.inbox.arrived.asleep, "the comm thread sleeps")
        news.got.clear()
        number, after, before = next(numbers), next(numbers), news.went
        interrupted(lambda: news.notifier.notify(b"%d" % number))
        sent_at_once.append(news.went - before)
        news.notifier.notify(b"%d" % after)
        until(lambda: b"%d" % after in news.got, "the next one is received")
        assert news.got in ([b"%d" % after], [b"%d" % number, b"%d" % after])
        went.append(len(news.got) - 1)

    def apart() -> None:
        main.append(_sync.get_ident())
        news.notifier.deregister()
        news.notifier = news.near.register("news", thread=news.near.here())
        news.notifier.wait_for_subscribers()
        everywhere(case, packages=(bus_package, queuebroker))

    # Not in this thread, for the reason given in `tests.sockets.test_interrupts`.
    with Threads() as threads:
        threads.start(apart).result(_EVERYWHERE_S)
    assert sum(sent_at_once) > 10
    assert {0, 1} == set(went)
    all_acknowledged(news.near)
    assert unbalanced(news.near.inspect()) == []
    [subscription] = info(news.far, "reader").subscriptions
    assert (subscription.gap, subscription.missed) == (0, 0)


# Under the explorer, between threads.


@clause("BUS-MSG-15", "BUS-MSG-4", "BUS-CHAN-7")
def test_commands_and_notifications_keep_their_order_in_every_schedule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    went, send = list[int](), FastPath.notification

    def sends(way: FastPath, *about: Any) -> Any:
        went.append(1)
        return send(way, *about)

    monkeypatch.setattr(FastPath, "notification", sends)
    monkeypatch.setattr("bus.process.fast_path_driver._ALONE_S", 0.0)

    def program(_run: Run) -> None:
        with processes("one two", ENDLESS) as [one, two]:
            here, got = two.here(), list[Any]()

            def note(message: Incoming) -> None:
                got.append(message.payload)

            reader = two.register("reader", on_command=note, thread=here)
            reader.subscribe("news", note, wait=True)
            notifier = one.register("news", thread=one.thread())
            notifier.wait_for_subscribers(timeout=None)
            notifier.command("reader", "first")  # later ones wait for no search
            while not got:
                here.poll(None)
            sent = ["first", b"0", (1,), b"2", (3,), b"4"]
            for each in sent[1:]:
                if each == (1,):
                    notifier.command("reader", each)
                else:
                    notifier.notify(each)
            while len(got) < len(sent):
                here.poll(None)
            assert got == sent

    explore(program, bound=1, limit=schedules(600), random=0)
    assert went
