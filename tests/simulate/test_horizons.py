"""The order of a horizon, the messages below it, and their acknowledgement (AMO-20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.features.durable.horizons import Horizons, Store
from bus.kernel.tasks.actions import Action, Post, Send
from bus.kernel.wire import Ack
from specs.clauses import clause
from tests.simulate.dialogue import Arrival, decoded, fast_path_to

if TYPE_CHECKING:
    from bus.features.durable.horizons import Horizon


class DurableArrival(Arrival):
    """An arrival at a process that keeps horizons."""

    def __init__(self, *, ahead: int) -> None:
        super().__init__()
        self.horizons = Horizons({}, ahead=ahead)
        self.topology = self.far.remote.topology
        self.topology.horizons = self.horizons  # type: ignore[misc]
        self.short = fast_path_to(self.far, self.near)  # it has them from the beginning
        session = self.topology.peers[self.near.key].session
        assert session.their_epoch is not None
        self.epoch = session.their_epoch
        self.next = session.acks.received.next

    def by_a_round(self, *, ahead: int = 0) -> list[Action]:
        frame = decoded(self.frame(ahead=ahead))
        now = self.stage.world.now
        return self.far.remote.receive(self.short.link, frame, now)

    @property
    def horizon(self) -> Horizon | None:
        return self.horizons.of(self.peer.name)


@clause("AMO-20")
def test_a_horizon_is_stored_before_its_messages_are_delivered() -> None:
    talk = DurableArrival(ahead=2)

    first = talk.by_a_round()
    others = [talk.by_a_round(ahead=each) for each in (1, 2, 3)]

    assert [type(each) for each in first] == [Store, Post]
    # The second and the third are below the horizon of the first.
    assert [[type(each) for each in some] for some in others] == [
        *([Post], [Post], [Store, Post]),
    ]
    assert talk.horizon is not None
    assert (talk.horizon.epoch, talk.horizon.number) == (talk.epoch, talk.next + 5)


@clause("AMO-20")
def test_each_message_has_its_own_horizon_in_an_exact_log() -> None:
    talk = DurableArrival(ahead=0)

    for ahead in range(3):
        store, post = talk.by_a_round(ahead=ahead)
        assert isinstance(store, Store)
        assert isinstance(post, Post)
        assert store.horizon.number == talk.next + ahead


@clause("AMO-20", "AMO-24")
def test_an_acknowledgement_follows_the_horizon() -> None:
    """Else its sender would take a message for delivered that is lost with a crash."""
    talk = DurableArrival(ahead=2)

    actions = talk.by_a_round()
    talk.peer.acks.repeat()
    actions += talk.far.remote.flush(talk.stage.world.now)

    acks = [
        at
        for at, each in enumerate(actions)
        if isinstance(each, Send) and isinstance(each.frame, Ack)
    ]
    assert isinstance(actions[0], Store)
    assert len(acks) == 1


@clause("AMO-3", "AMO-20")
def test_a_duplicate_raises_no_horizon() -> None:
    talk = DurableArrival(ahead=0)
    frame, now = decoded(talk.frame()), talk.stage.world.now
    talk.far.remote.receive(talk.short.link, frame, now)

    assert talk.far.remote.receive(talk.short.link, frame, now) == []


@clause("AMO-20")
def test_a_message_above_the_horizon_does_not_take_the_fast_path() -> None:
    talk = DurableArrival(ahead=2)
    assert talk.come(talk.frame()) is None

    talk.by_a_round()

    assert isinstance(talk.come(talk.frame(ahead=1)), Post)
    assert isinstance(talk.come(talk.frame(ahead=2)), Post)
    assert talk.come(talk.frame(ahead=3)) is None


@clause("AMO-20")
def test_once_the_storage_has_failed_nothing_takes_the_fast_path() -> None:
    talk = DurableArrival(ahead=5)
    talk.by_a_round()

    talk.horizons.fail()

    assert talk.come(talk.frame(ahead=1)) is None
