"""How a `LinkPool` makes links, by dialling and by accepting, and how it ends."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from bus.kernel.wire import FRAME_BYTES_MAX
from bus.process.link_helpers import PORT
from queuebroker import (
    RendezvousTimeoutError,
    _sync,
)
from queuebroker.errors import BrokerClosedError
from queuebroker.meeting.queue_broker import QueueBroker
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.process.link_owner import (
    LinkOwner,
    under_every_schedule,
    under_some_schedules,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queuebroker.channel.message_queue import MessageQueue
    from queuebroker.testing import Run


@clause("BUS-CHAN-3")
@pytest.mark.parametrize("listens", [False, True], ids=["nobody", "deaf"])
def test_a_dial_in_vain_reports_its_failure_and_delays_no_link(listens: bool) -> None:
    """No broker has that name, or no broker accepts there within the deadline."""

    def program(run: Run) -> None:
        owner = LinkOwner(timeout_s=2.0)
        owner.open()
        [far] = owner.connected()
        owner.link_pool.helpers.dial(
            ["there" if listens else "nobody"], owner.made.append
        )
        # Meanwhile links are served.
        before = run.now
        far.send(b"x")
        owner.until(lambda: owner.received)
        served = run.now - before
        owner.until(lambda: len(owner.made) == 2)
        took = run.now - before
        owner.close()

        assert owner.made == [1, None]
        if listens:
            assert served < 2.0 <= took
        else:
            assert took < 2.0

    explore(program, bound=0, limit=schedules(50), random=0, seed=1)


@clause("BUS-CHAN-3")
def test_a_dial_to_a_process_that_closes_reports_its_failure() -> None:
    """Else it would wait for the link for ever, and never dial again."""

    def program(run: Run) -> None:
        owner = LinkOwner()
        owner.open()
        owner.link_pool.helpers.dial(["there"], owner.made.append)
        run.spawn(owner.there.close)
        owner.until(lambda: owner.made)
        owner.close()
        assert owner.made == [None]

    under_every_schedule(program)


@clause("BUS-DISC-10")
@pytest.mark.parametrize("dead", ["nobody", ""])
def test_a_dead_address_delays_no_other(dead: str) -> None:
    """An invalid address may come from another process; a deaf one only waits."""

    def program(run: Run) -> None:
        owner = LinkOwner(timeout_s=2.0)
        owner.open()
        last = QueueBroker("last", manager=owner.manager)
        far = run.spawn(last.accept, PORT)
        before = run.now
        owner.link_pool.helpers.dial([dead, "there", "last"], owner.made.append)
        owner.until(lambda: owner.made)
        took = run.now - before
        owner.link_pool.send(1, b"x")
        far.join()
        with far.result as queue:
            received = queue.receive()
        owner.close()

        assert owner.made == [1]
        assert took < 2.0
        assert received == b"x"

    explore(program, bound=0, limit=schedules(50), random=0, seed=1)


def _open(queues: list[MessageQueue]) -> list[MessageQueue]:
    return [queue for queue in queues if not queue.remote_disconnected]


@clause("BUS-DISC-10")
def test_of_two_addresses_that_answer_one_link_is_used() -> None:
    """The other is closed at once, or its peer would wait for a first frame."""

    def program(run: Run) -> None:
        owner = LinkOwner()
        owner.open()
        names = ["first", "second"]
        brokers = [QueueBroker(name, manager=owner.manager) for name in names]
        queues: list[MessageQueue] = []

        def accept(broker: QueueBroker) -> None:
            with suppress(
                RendezvousTimeoutError
            ):  # the dial may be the first to give up
                queues.append(broker.accept(PORT, timeout=5.0))

        far = [run.spawn(accept, broker) for broker in brokers]
        owner.link_pool.helpers.dial(names, owner.made.append)
        for each in far:
            each.join()
        owner.until(lambda: owner.made and len(_open(queues)) < 2)
        [number] = owner.made
        if number is not None:
            owner.link_pool.send(number, b"x")
        received = [queue.receive() for queue in _open(queues)]
        owner.close()

        assert received == ([] if number is None else [b"x"])

    under_every_schedule(program)


@clause("BUS-CHAN-6")
@pytest.mark.parametrize("dials", [False, True])
@pytest.mark.parametrize("limit", [10, FRAME_BYTES_MAX - 1, FRAME_BYTES_MAX])
def test_a_link_that_takes_less_than_a_frame_is_refused(
    limit: int, *, dials: bool
) -> None:
    """Both the dialler and the listener reject it; the peer and the log learn it."""

    def program(run: Run) -> None:
        owner = LinkOwner(limit=limit)
        owner.open()
        if dials:
            accepting = run.spawn(owner.there.accept, PORT)
            owner.link_pool.helpers.dial(["there"], owner.made.append)
            owner.until(lambda: owner.made)
            accepting.join()
            far = accepting.result
        else:
            far = owner.there.connect("here", PORT, required=True)
            owner.until(lambda: owner.made or owner.words)
        ended = far.remote_disconnected
        owner.close()
        far.disconnect()

        if limit == FRAME_BYTES_MAX:
            assert (owner.made, owner.words, ended) == ([1], [], False)
        else:
            assert ended
            assert owner.made == ([None] if dials else [])
            who = "there is not used" if dials else "a peer is rejected"
            takes = f"its link carries frames of {limit} bytes, not {FRAME_BYTES_MAX}"
            assert owner.words == [f"{who}: {takes}"]

    explore(program, bound=0, limit=schedules(50), random=0, seed=1)


class _NoThread(_sync.Thread):
    """A thread that the system does not start."""

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Make every start of a link thread fail."""
    with monkeypatch.context() as patch:
        patch.setattr(_sync, "Thread", _NoThread)
        yield patch


@clause("BUS-CHAN-3")
def test_where_no_thread_can_be_started_a_dial_fails_like_any_other(
    no_threads: pytest.MonkeyPatch,
) -> None:
    """A later dial may succeed."""
    owner = LinkOwner()
    no_threads.undo()
    owner.open()
    no_threads.setattr(_sync, "Thread", _NoThread)
    owner.link_pool.helpers.dial(["there"], owner.made.append)
    owner.turn()
    assert owner.made == [None]
    no_threads.undo()
    owner.link_pool.helpers.dial(["nobody"], owner.made.append)
    owner.until(lambda: len(owner.made) == 2)
    owner.close()
    assert owner.made == [None, None]


# Shutdown.


def test_close_accepts_no_peer_and_leaves_no_thread() -> None:
    """Even while links are being made; a peer accepted last sees its link closed."""

    def program(run: Run) -> None:
        owner = LinkOwner()
        owner.open()
        outcomes: list[MessageQueue] = []

        def comes() -> None:
            with suppress(BrokerClosedError):
                queue = owner.there.connect("here", PORT)
                if queue is not None:
                    outcomes.append(queue)

        coming = run.spawn(comes)
        owner.link_pool.helpers.dial(["there"], owner.made.append)
        owner.link_pool.close()
        helpers = [each for each in owner.link_pool.helpers.threads if each.is_alive()]
        owner.turn()
        coming.join()
        owner.there.close()

        assert helpers == []
        assert owner.made in ([], [None])  # if the dial failed just before the close
        for queue in outcomes:
            with queue:
                assert queue.remote_disconnected

    explore(program, bound=2, limit=schedules(1_500), random=schedules(200), seed=1)


def test_after_the_end_nothing_is_made() -> None:
    def program(run: Run) -> None:
        owner = LinkOwner()
        owner.open()
        owner.close()
        late = QueueBroker("late", manager=owner.manager)
        owner.link_pool.helpers.accept_links(late, owner.made.append)
        owner.link_pool.helpers.dial(["there"], owner.made.append)
        run.settle()
        assert late.closed
        assert owner.made == []
        assert not any(each.is_alive() for each in owner.link_pool.helpers.threads)

    under_some_schedules(program)


@clause("BUS-CHAN-9", "BUS-CHAN-3")
def test_a_dial_fails_if_an_error_prevents_the_use_of_its_link() -> None:
    """Without an outcome no other dial of that process would begin."""

    def program(run: Run) -> None:
        owner, outcomes = LinkOwner(), list[int | None]()

        def accept() -> None:
            with suppress(BrokerClosedError):  # the dial was out of time
                owner.there.accept(PORT).disconnect()

        def on_dialled(number: int | None) -> None:
            outcomes.append(number)
            if number is not None:
                raise MemoryError

        owner.open()
        far = run.spawn(accept)
        owner.link_pool.helpers.dial(["there"], on_dialled)
        with suppress(MemoryError):
            owner.until(lambda: outcomes)
        owner.close()
        far.join()

        assert outcomes in ([1, None], [None])
        ends.add(len(outcomes))

    ends = set[int]()
    under_every_schedule(program, bound=0)
    assert 2 in ends
