"""`FastPathDriver`: a question and its answer cross a link without the comm threads."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import bus as bus_package
import queuebroker
from bus import BusConfig, CommandTimeoutError, Response, Role
from bus.api.receiver import Receiver
from bus.kernel.wire import Batch
from bus.process.fast_path_driver import FastPathDriver
from bus.process.thread_manager import ThreadManager
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.buses import ENDLESS, processes, socket_bus
from tests.kit.comm_threads import comm_of, held, settled
from tests.kit.tasks import echo
from tests.process.processes import gone_short
from tests.process.talk import Talk, until_at_rest
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus, Incoming
    from queuebroker.testing import Run
    from tests.strikes import Blow

_EVERYWHERE_S = 240.0


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Talk]:
    with ExitStack() as stack:
        yield Talk(stack, monkeypatch)


@clause("BUS-CHAN-7")
def test_questions_and_answers_go_past_the_comm_threads(talk: Talk) -> None:
    talk.warm()
    talk.went = talk.received = 0

    for number in range(200):
        assert talk.ask(number) == number

    # Occasionally a comm thread makes a round, or reads first.
    assert talk.went > 200
    assert talk.received > 200


@clause("BUS-FLOW-7")
def test_the_counters_include_all_fast_path_messages(talk: Talk) -> None:
    """Soon, even without further traffic: the reads are acknowledged."""
    talk.warm()
    for number in range(50):
        talk.ask(number)

    for bus in (talk.near, talk.far):
        until_at_rest(bus)


@clause("BUS-DEREG-12", "BUS-RELAY-9")
def test_a_process_that_leaves_acknowledges_the_last_answer_at_once() -> None:
    """At once, even if acknowledgements are delayed, and right after an exchange."""
    config = BusConfig(ack_delay_s=1e4)
    with (
        socket_bus("far", role=Role.MASTER, config=config) as far,
        socket_bus("near", role=Role.SLAVE, config=config) as near,
    ):
        far.register("answerer", on_command=echo, thread=far.thread())
        for number in range(20):
            assert near.call("answerer", number, timeout=LIMIT_S) == number
        began = _sync.monotonic()
        near.close(drain=2 * LIMIT_S)
        assert _sync.monotonic() < began + LIMIT_S


def test_a_message_posted_in_its_process_wakes_a_thread_that_waits_at_a_link(
    talk: Talk,
) -> None:
    talk.warm()
    assert talk.waits

    assert talk.far.call("answerer", "from here", timeout=LIMIT_S) == "from here"

    assert talk.waits


def test_a_thread_that_only_local_messages_wake_waits_at_no_link_any_more(
    talk: Talk,
) -> None:
    """A message from its own process wakes it at less cost elsewhere."""
    talk.warm()

    until(
        lambda: talk.far.call("answerer", 1, timeout=LIMIT_S) == 1 and not talk.waits,
        "it has left the link",
    )
    assert talk.ask(2) == 2


@clause("BUS-CHAN-7")
def test_messages_for_other_tasks_are_handed_to_the_comm_thread(talk: Talk) -> None:
    other, got = talk.near.register("other"), list[Any]()
    talk.far.register("reader", on_command=lambda m: got.append(m.payload))
    other.command("reader", 0)
    until(lambda: got == [0], "they know one another")
    talk.warm()

    for number in range(1, 20):
        other.command("reader", number)
        other.command("reader", bytes(100_000))
        assert talk.ask(number) == number

    until(lambda: len(got) == 39, "all have come")
    assert [each for each in got if isinstance(each, int)] == list(range(20))


@clause("BUS-MSG-15")
def test_a_message_never_overtakes_an_earlier_one_of_its_sender(talk: Talk) -> None:
    talk.warm()
    talk.answered.clear()
    sent = list[Any]()
    for number in range(100):
        for each in (b"%d" % number, number):
            talk.asker.command("answerer", each)
            sent.append(each)
        talk.ask((number,))
        sent.append((number,))

    assert talk.answered == sent


@clause("BUS-CHAN-7")
def test_an_answer_that_goes_another_way_lets_the_next_callback_leave_links_alone(
    talk: Talk,
) -> None:
    """Its next send is not followed by a wait: no thread would read the link."""
    talk.warm()
    waits, answers = list[bool](), list[Response]()
    answer = talk._answer

    def noted(message: Incoming) -> Any:
        waits.append(talk.thread._manager.waits_next)
        return answer(message)

    talk.answerer.deregister()
    talk.far.register("other", on_command=noted, thread=talk.thread)
    go = threading.Event()
    talk.thread.call_soon(lambda: go.wait(LIMIT_S))
    try:
        for number in range(3):
            talk.asker.command("other", number, on_response=answers.append)
        until(lambda: len(talk.thread._manager.inbox.items) >= 1, "they have come")
    finally:
        go.set()
    while len(answers) < 3:
        talk.here.poll(0.1)

    assert waits == [False] * 3
    assert not talk.thread._manager.waits_next


def test_the_comm_thread_serves_a_task_with_many_open_questions(talk: Talk) -> None:
    """Frames with many messages are faster than many frames."""
    talk.warm()
    settled(talk.near)
    talk.asked, answers = 0, list[Response]()

    with held(talk.far):
        for number in range(20):
            talk.asker.command("answerer", number, on_response=answers.append)
    while len(answers) < 20:
        talk.here.poll(0.1)

    assert [each.payload for each in answers] == list(range(20))
    assert talk.asked <= 1  # the first


@clause("BUS-MSG-15")
def test_nothing_is_put_on_a_link_while_the_comm_thread_is_about_it(talk: Talk) -> None:
    talk.warm()
    talk.went = 0
    with Threads() as threads:
        with held(talk.near):
            asking = threads.start(_ask_elsewhere, talk, "answerer")
            until(
                lambda: bool(comm_of(talk.near)._relay_outbox.inbox.items),
                "the question is posted",
            )
            assert not talk.went
        assert asking.result() == "late"


def _ask_elsewhere(talk: Talk, to: str) -> Any:
    return talk.near.call(to, "late", timeout=LIMIT_S)


@clause("OPEN-12")
def test_the_frame_monitor_records_all_frames(talk: Talk) -> None:
    talk.warm()
    comm = comm_of(talk.near)
    frames = list[Any]()

    class Noted:
        """Records the frames that the monitor sees."""

        def on_frame(self, link: int, frame: Any, *, out: bool) -> None:
            del link, out
            frames.append(frame)

    comm.watcher = Noted()
    try:
        before = talk.received
        for number in range(10):
            talk.ask(number)
        assert talk.received <= before + 10  # in the other process
    finally:
        comm.watcher = None
    batches = [each for each in frames if isinstance(each, Batch)]
    assert len(batches) == 20


@clause("BUS-FLOW-5")
def test_a_question_that_is_not_answered_ends_with_its_time(talk: Talk) -> None:
    go = threading.Event()
    try:
        talk.warm()
        talk.thread.call_soon(lambda: go.wait(LIMIT_S))
        with pytest.raises(CommandTimeoutError):
            talk.asker.call("answerer", 1, timeout=0.05)
    finally:
        go.set()
    assert talk.ask(2) == 2


@pytest.mark.deep
@clause("BUS-CHAN-5", "BUS-DEREG-8")
def test_a_thread_that_waits_at_a_link_detects_the_departure_of_the_peer(
    talk: Talk,
) -> None:
    talk.warm()
    thread = talk.near.thread()
    waiting = talk.near.register("waiting", thread=thread)
    done = threading.Event()

    def ask() -> None:
        waiting.command("answerer", 1, on_response=lambda _: done.set())

    thread.call_soon(ask)
    assert done.wait(LIMIT_S)

    talk.far.close()

    def lost() -> bool:
        return not comm_of(talk.near).remote.topology.peers

    until(lost, "the link is missed")
    talk.near.register("echo", on_command=echo)
    assert waiting.address.module == "waiting"
    assert talk.near.call("echo", 3, timeout=LIMIT_S) == 3


@clause("AMO-23", "BUS-CHAN-7")
def test_an_interrupted_thread_ends_the_link_before_it_returns_the_lease(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the comm thread may read the next frame of the link.

    Then the peer does not resend the frames that the interrupted thread had read: an
    answer to another task used to be lost.
    """
    order, receive = list[str](), FastPathDriver.receive
    abort, give_back = FastPathDriver.abort_link, ThreadManager.return_lease

    def interrupted(driver: FastPathDriver, *arguments: Any) -> Any:
        if order or arguments[-1] is not talk.here._manager or not arguments[-2]:
            return receive(driver, *arguments)
        raise KeyboardInterrupt

    def aborts(driver: FastPathDriver, link: int) -> None:
        order.append("the link ends")
        abort(driver, link)

    def gives_back(host: ThreadManager) -> None:
        if host is talk.here._manager and host.leased is not None:
            order.append("the lease is returned")
        give_back(host)

    talk.warm()
    with monkeypatch.context() as patch:
        patch.setattr(FastPathDriver, "receive", interrupted)
        patch.setattr(FastPathDriver, "abort_link", aborts)
        patch.setattr(ThreadManager, "return_lease", gives_back)
        with pytest.raises(KeyboardInterrupt):
            talk.ask()

    assert order[:2] == ["the link ends", "the lease is returned"]
    assert talk.ask(1) == 1


@clause("BUS-FLOW-4", "BUS-RELAY-11", "BUS-FLOW-7")
def test_a_message_whose_extraction_is_interrupted_takes_no_room_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An interrupt strikes after its removal from the mailbox, and before the note.

    The peer used to send that task nothing more once a window was full.
    """
    extract, struck = Receiver._extract, list[bool]()

    def interrupted(receiver: Receiver, message: Incoming, host: ThreadManager) -> bool:
        if message._to is asker._entry and not struck:
            struck.append(True)
            raise KeyboardInterrupt
        return extract(receiver, message, host)

    with processes(2, BusConfig(window=4)) as [far, near]:
        server = far.register("server", thread=far.thread())

        def serve(message: Incoming) -> Any:
            server.command("asker", message.payload)
            return message.payload

        server.on_command(serve)
        asker = near.register("asker", thread=near.here(), on_command=lambda _: None)
        monkeypatch.setattr(Receiver, "_extract", interrupted)
        with pytest.raises(KeyboardInterrupt):
            asker.call("server", 0, timeout=LIMIT_S)
        for number in range(9):
            assert asker.call("server", number, timeout=LIMIT_S) == number
    assert struck


@pytest.mark.deep
@clause("QB-ERR-9")
def test_an_interrupted_call_leaves_a_working_bus(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every point of a call: it is answered or not, and nothing is duplicated."""
    numbers, points = iter(range(1, 1_000_000)), list[int]()
    main = list[int]()  # the thread that stands for the main one
    monkeypatch.setattr(_sync, "may_be_interrupted", lambda: _sync.get_ident() in main)

    def case(interrupted: Blow) -> None:
        talk.warm()
        talk.answered.clear()
        number = next(numbers)
        interrupted(lambda: talk.asker.call("answerer", number, timeout=LIMIT_S))
        after = next(numbers)
        assert talk.ask(after) == after
        assert talk.answered in ([after], [number, after])
        points.append(number)

    def balances() -> None:
        """Check that each message is in the accounts as a whole, or not at all."""
        for bus in (talk.near, talk.far):
            until_at_rest(bus)

    def apart() -> None:
        main.append(_sync.get_ident())
        talk.here = talk.near.here()
        talk.asker = talk.near.register("interrupted", thread=talk.here)
        talk.warm()
        everywhere(case, packages=(bus_package, queuebroker))
        balances()

    # Not in this thread, for the reason given in `tests.sockets.test_interrupts`.
    with Threads() as threads:
        threads.start(apart).result(_EVERYWHERE_S)
    assert len(points) > 100


# Under the explorer, between threads: the first reader takes the frames.


@clause("BUS-CHAN-1", "BUS-MSG-15")
def test_calls_are_answered_whichever_thread_reads_the_link() -> None:
    def program(_run: Run) -> None:
        with processes("one two", ENDLESS) as [one, two]:
            two.register("doer", on_command=echo, thread=two.thread())
            asker = one.register("asker", thread=one.here())
            assert [
                asker.call("doer", number, timeout=None) for number in range(3)
            ] == [0, 1, 2]

    assert gone_short(lambda: explore(program, bound=1, limit=schedules(600), random=0))


@clause("BUS-CHAN-1", "BUS-MSG-15")
def test_two_that_ask_one_another_are_answered() -> None:
    """Each waits at the link for its answer, and receives a question there."""

    def program(run: Run) -> None:
        with processes("one two", ENDLESS) as [one, two]:

            def talk(bus: Bus, name: str, other: str) -> None:
                here, left = bus.here(), [3]

                def answer(message: Incoming) -> Any:
                    left[0] -= 1
                    return message.payload

                task = bus.register(name, on_command=answer, thread=here)
                bus.wait_for(other, timeout=None)
                for number in range(3):
                    assert task.call(other, number, timeout=None) == number
                while left[0]:
                    here.poll(None)

            both = [
                run.spawn(lambda: talk(one, "left", "right")),
                run.spawn(lambda: talk(two, "right", "left")),
            ]
            for each in both:
                each.join()

    assert gone_short(lambda: explore(program, bound=1, limit=schedules(400), random=0))
