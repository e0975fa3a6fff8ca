"""`FastPath`: notifications, from their sender to all subscribers of a process."""

from __future__ import annotations

from collections import deque
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from bus.features.durable.horizons import Horizons, Store
from bus.kernel import constants
from bus.kernel.fast_path import FastPath
from bus.kernel.peer.relay import RelayState
from bus.kernel.tasks.actions import Action, Post
from bus.kernel.wire import (
    FAILED,
    FOLLOWS_MIN,
    LEASED,
    LOCATION_BYTES,
    RAW,
    WANTS_REPLY,
    Gap,
    encode_single,
    ends_head,
    stream_head,
)
from bus.model.message import Incoming, Kind
from specs.clauses import clause
from tests.simulate.dialogue import accounts_of, decoded, fast_path_to
from tests.simulate.notices import Delivery, Notices
from tests.simulate.process import CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable

# The longest time without an acknowledgement (`DelayedAcks.next_check`).
_ACKNOWLEDGED_S = 50 * CONFIG.ack_delay_s


# From end to end.


@clause("BUS-MSG-15", "BUS-CHAN-7", "BUS-RELAY-7")
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 6])
def test_each_subscriber_gets_each_once_in_order_whichever_path_it_takes(
    seed: int,
) -> None:
    """In order with the commands of the notifier, too, which `Counters` checks."""
    talk = Notices("s3", "s3", "s1", seed=seed, fast_paths=0.7)
    world, random, numbers = talk.stage.world, Random(seed), list[int]()
    for _ in range(60):
        if random.random() < 0.3:
            talk.command(talk.notifier, "reader/0", random.choice((1, 6)))
        numbers.append(talk.near.notify(talk.notifier))
        talk.stage.soon(random.choice((0.0, 0.001, 0.02)))
    talk.stage.soon()

    assert world.went_short
    assert [talk.received(number) for number in numbers] == [[1, 1, 1]] * 60
    assert not any(gap for each in talk.subscribers for gap in each.gaps)
    world.checks.rest()


@clause("BUS-RELAY-10", "AMO-24", "BUS-FLOW-7")
@pytest.mark.parametrize("lost_after_s", [0.0, 0.0005, 0.002, 0.02])
@pytest.mark.parametrize("interrupted", [0.0, 1.0])
def test_a_notification_is_delivered_once_though_its_link_is_lost(
    lost_after_s: float, interrupted: float
) -> None:
    """Before it arrives, before it is acknowledged, or in the sender's hands."""
    talk = Notices("s3", "s1", fast_paths=1.0, interrupted=interrupted)
    before = talk.stage.world.went_short
    number = talk.near.notify(talk.notifier)
    assert talk.stage.world.went_short == before + 1
    talk.stage.soon(lost_after_s)
    if not interrupted:
        talk.stage.cut("s2", "s3")
    talk.stage.world.take_fast_paths(0.0)
    after = talk.near.notify(talk.notifier)
    talk.stage.soon(5.0)

    assert talk.received(number) == talk.received(after) == [1, 1]
    for peer in talk.near.remote.topology.peers.values():
        assert peer.notifications.posted == peer.notifications.taken
        assert not peer.audience.in_transit


@clause("BUS-FLOW-7", "BUS-RELAY-9")
def test_a_notification_is_acknowledged_though_nothing_follows_it() -> None:
    talk = Notices(fast_paths=1.0)
    talk.stage.soon(_ACKNOWLEDGED_S)  # until the earlier ones are acknowledged
    posted = talk.to.notifications.posted
    number = talk.near.notify(talk.notifier)
    audience = talk.to.audience
    assert (audience.under_way, audience.unacked_bytes) == (1, 1)
    assert talk.to.notifications.posted == posted + 1
    talk.stage.soon(_ACKNOWLEDGED_S + 0.02)  # with the delays of the link

    assert talk.received(number) == [1]
    assert (audience.under_way, audience.unacked_bytes) == (0, 0)
    assert not audience.unacked
    assert talk.to.notifications.taken == posted + 1
    assert talk.to.counters.posted == talk.to.counters.ended
    assert talk.by.acks.due_at is None
    assert talk.to.session.outgoing.floor == talk.to.session.outgoing.next


@clause("BUS-CHAN-7", "BUS-FLOW-7")
def test_fast_path_notifications_leave_the_same_counters_as_rounds() -> None:
    ends = []
    for fast_paths in (0.0, 1.0):
        talk = Notices("s3", "s1", fast_paths=fast_paths)
        for _ in range(20):
            talk.near.notify(talk.notifier)
            talk.stage.soon(0.1)
        talk.stage.soon()
        assert bool(talk.stage.world.went_short) is bool(fast_paths)
        ends.append(talk.accounts())

    assert ends[0] == ends[1]


@clause("BUS-SEC-1")
def test_a_process_that_lost_its_subscription_gets_no_notification() -> None:
    """The look-up of the subscribers is that of the normal path."""
    talk = Notices(fast_paths=1.0)
    reader = talk.subscribers[0]
    reader.process.unsubscribe(reader)
    talk.stage.soon()
    before = talk.accounts()

    talk.near.notify(talk.notifier)

    assert talk.accounts() == before
    assert talk.source.no_subscriber == 1


# Sending: what a notification must not overtake, and whom it could not reach.


def _queued_command(talk: Notices) -> None:
    """Queue more commands than the window of the relay holds."""
    talk.command(talk.notifier, "reader/0")  # later ones wait for no search
    talk.stage.soon()
    talk.stage.hold(talk.subscribers[0])
    talk.command(talk.notifier, "reader/0", CONFIG.window + 1)
    talk.stage.soon()


def _waiting_notification(talk: Notices) -> None:
    talk.to.session.pause()
    talk.near.remote.notify(talk.source, 1)
    talk.to.session._held = None


def _other_things_to_say(talk: Notices) -> None:
    talk.to.session.send_control(Gap(relay=talk.source.relay, count=1))


def _no_link(talk: Notices) -> None:
    talk.stage.cut("s2", "s3")
    talk.stage.soon(0.11)


def _on_hold(talk: Notices) -> None:
    talk.to.session.pause()


def _full_window(talk: Notices) -> None:
    while talk.to.audience.under_way < CONFIG.window:
        talk.send()


def _full_bytes(talk: Notices) -> None:
    talk.send()
    talk.to.audience.unacked_bytes = CONFIG.window_bytes


def _full_stream(talk: Notices) -> None:
    outgoing = talk.to.session.outgoing
    outgoing.next = outgoing.floor + constants.STREAM_WINDOW


def _gap(talk: Notices) -> None:
    talk.to.count_dropped(talk.outbound_run())


def _not_introduced(talk: Notices) -> None:
    talk.to.announced.discard(talk.source.relay)


def _notifier_leaves(talk: Notices) -> None:
    talk.near.deregister(talk.notifier)


@clause("BUS-MSG-15", "BUS-FLOW-3")
@pytest.mark.parametrize(
    "so",
    [
        _queued_command,
        _waiting_notification,
        _other_things_to_say,
        _no_link,
        _on_hold,
        _full_window,
        _full_bytes,
        _full_stream,
        _gap,
        _not_introduced,
        _notifier_leaves,
    ],
)
def test_no_notification_takes_the_fast_path_past_what_goes_first(
    so: Callable[[Notices], None],
) -> None:
    talk = Notices()
    way = fast_path_to(talk.near, talk.far)
    so(talk)
    before = accounts_of(talk.near, talk.far)

    assert not way.may_notify(talk.source, 1)
    assert accounts_of(talk.near, talk.far) == before


@clause("BUS-MSG-15")
@pytest.mark.parametrize("so", [_queued_command, _gap, _not_introduced])
def test_a_decision_since_the_last_notification_stops_the_fast_path(
    so: Callable[[Notices], None],
) -> None:
    talk = Notices()
    way = fast_path_to(talk.near, talk.far)
    assert way.may_notify(talk.source, 1)
    so(talk)
    talk.near.manager.revision += 1

    assert not way.may_notify(talk.source, 1)


@clause("BUS-MSG-15")
def test_the_queued_commands_of_another_task_delay_no_notification() -> None:
    """This shows that the refusals above have their stated reason."""
    talk = Notices()
    other = talk.stage.task("other", "s2")
    talk.stage.hold(talk.subscribers[0])
    talk.command(other, "reader/0", CONFIG.window + 1)
    talk.stage.soon()
    assert talk.to.waiting

    way = fast_path_to(talk.near, talk.far)
    assert way.may_notify(talk.source, 1)


@clause("BUS-MSG-15")
@pytest.mark.parametrize("cut", [False, True])
def test_a_notification_stays_behind_the_queued_commands_of_its_task(
    *, cut: bool
) -> None:
    talk = Notices(fast_paths=1.0)
    reader = talk.subscribers[0]
    _queued_command(talk)
    number = talk.near.notify(talk.notifier)
    if cut:
        talk.stage.cut("s2", "s3")
    talk.stage.soon()
    assert not talk.received(number)[0]
    talk.stage.release(reader)
    talk.stage.soon(5.0)

    assert talk.received(number) == [1]  # `Counters` has checked the order
    talk.stage.world.checks.rest()


@pytest.mark.parametrize(("size", "goes"), [(2**16, True), (2**16 + 1, False)])
def test_a_long_notification_takes_the_normal_path(*, size: int, goes: bool) -> None:
    talk = Notices()
    way = fast_path_to(talk.near, talk.far)

    assert way.may_notify(talk.source, size) is goes


@clause("BUS-MSG-19")
def test_a_notification_too_long_for_its_peer_takes_the_normal_path() -> None:
    talk = Notices()
    talk.to.message_bytes_max = 10
    way = fast_path_to(talk.near, talk.far)

    assert way.may_notify(talk.source, 10)
    assert not way.may_notify(talk.source, 11)


@clause("BUS-RELAY-11")
def test_no_more_notifications_take_the_fast_path_than_the_window_holds() -> None:
    talk = Notices()
    way, went = fast_path_to(talk.near, talk.far), 0
    while way.may_notify(talk.source, 1):
        talk.send()
        went += 1

    assert went == CONFIG.window


# Receiving.


@clause("BUS-MSG-4", "BUS-RELAY-7")
def test_a_fast_path_notification_equals_the_one_that_a_round_reads() -> None:
    talk, other = Delivery("s3", "s3"), Delivery("s3", "s3")

    short = talk.come(talk.frame())
    long = other.far.remote.receive(
        other.way.link, decoded(other.frame()), other.stage.world.now
    )

    assert len(short) == len(long) == 2
    for one, action in zip(short, long, strict=True):
        assert isinstance(action, Post)
        [two] = action.messages
        assert isinstance(two, Incoming)
        for field in ("kind", "payload", "gap", "_size", "_id", "wants_reply"):
            assert getattr(one, field) == getattr(two, field), field
        assert one._to.name == two._to.name == action.entry.name
        assert one._source.name == two._source.name == "news"
        assert one._trace is two._trace is one._receipt is None
    assert accounts_of(talk.far, talk.near) == accounts_of(other.far, other.near)


@clause("BUS-MSG-14")
def test_each_subscriber_gets_a_copy_of_its_own() -> None:
    talk = Delivery("s3", "s1", "s3", "s3")

    messages = talk.come(talk.send({"a": {"b": 1}}))

    assert [each._to.name for each in messages] == [f"reader/{at}" for at in (0, 2, 3)]
    assert [each.payload for each in messages] == [{"a": {"b": 1}}] * 3
    assert len({id(each.payload["a"]) for each in messages}) == 3
    assert all(len(each.subscriptions) == 1 for each in messages)


@clause("AMO-7")
def test_an_accepted_notification_is_not_accepted_again() -> None:
    talk = Delivery()
    frame = talk.frame()
    assert talk.come(frame)

    assert not talk.come(frame)
    assert (
        talk.far.remote.receive(talk.way.link, decoded(frame), talk.stage.world.now)
        == []
    )
    assert talk.come(talk.frame(ahead=1))


@clause("BUS-FLOW-3")
def test_a_gap_is_reported_once_to_each_subscriber() -> None:
    """The gap arrives in a frame of its own, before the notification."""
    talk = Delivery("s3", "s3")
    talk.far.remote.receive(
        talk.way.link, Gap(relay=talk.source.relay, count=3), talk.stage.world.now
    )

    assert [each.gap for each in talk.come(talk.frame())] == [3, 3]
    assert [each.gap for each in talk.come(talk.frame(ahead=1))] == [0, 0]
    assert talk.relay.gap == 0


def _wants_reply(talk: Delivery) -> bytes:
    return talk.frame(flags=WANTS_REPLY, id=4)


def _recorded(talk: Delivery) -> bytes:
    return talk.frame(mid=5)


def _in_shared_memory(talk: Delivery) -> bytes:
    return talk.frame(flags=LEASED | RAW, bodies=(bytes(LOCATION_BYTES),))


@clause("BUS-CHAN-7", "BUS-FLOW-3")
@pytest.mark.parametrize(
    "frame_of",
    [
        _wants_reply,
        _recorded,
        _in_shared_memory,
        *(
            (lambda talk, changes=changes: talk.frame(**changes))
            for changes in (
                {"ahead": 1},
                {"ahead": -1},
                {"epoch": 1},
                {"incarnation": 1},
                {"to": 12345},
                {"source": 12345},
                {"flags": FAILED},
                {"bodies": (b"\xc1",)},
                {"kind": Kind.NOTIFICATION_RESPONSE},
            )
        ),
    ],
)
def test_a_notification_that_is_not_plain_is_left_to_the_normal_path(
    frame_of: Callable[[Delivery], bytes],
) -> None:
    talk = Delivery()
    talk.relay.gap = 2
    before = talk.accounts()

    assert not talk.come(frame_of(talk))
    assert talk.accounts() == before


@clause("QB-ERR-9")
def test_a_thread_that_may_be_interrupted_takes_no_notification() -> None:
    talk = Delivery()
    before = talk.accounts()

    assert not talk.come(talk.frame(), tasks_only=True)
    assert talk.accounts() == before


def _superseded(talk: Delivery) -> None:
    talk.relay.state = RelayState.SUPERSEDED


def _provisional(talk: Delivery) -> None:
    talk.relay.provisional = True


def _unsubscribed(talk: Delivery) -> None:
    [reader] = talk.subscribers
    talk.far.unsubscribe(reader)


def _unresponsive(talk: Delivery) -> None:
    talk.peer.unresponsive = True


@clause("BUS-CHAN-7", "AMO-28")
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    "so", [_superseded, _provisional, _unsubscribed, _unresponsive]
)
def test_a_notification_that_needs_a_decision_is_left_to_the_normal_path(
    so: Callable[[Delivery], None], *, known: bool
) -> None:
    """known: whether its ends were looked up before."""
    talk = Delivery()
    if known:
        assert talk.come(talk.frame())
    so(talk)
    talk.far.manager.revision += 1
    before = accounts_of(talk.far, talk.near)

    assert not talk.come(talk.frame(ahead=int(known)))
    assert accounts_of(talk.far, talk.near) == before


@clause("AMO-20")
def test_a_notification_above_the_horizon_is_left_to_a_round() -> None:
    """The horizon is stored first."""
    talk = Delivery()
    topology = talk.far.remote.topology
    topology.horizons = Horizons({}, ahead=1)  # type: ignore[misc]
    talk.way = fast_path_to(talk.far, talk.near)  # it has them from the beginning
    before, frame = accounts_of(talk.far, talk.near), talk.frame()

    assert not talk.come(frame)
    assert accounts_of(talk.far, talk.near) == before
    actions = talk.far.remote.receive(
        talk.way.link, decoded(frame), talk.stage.world.now
    )
    assert [type(each) for each in actions] == [Store, Post]
    assert talk.come(talk.frame(ahead=1))
    assert not talk.come(talk.frame(ahead=2))


def _takes_a_command(talk: Notices) -> FastPath:
    """Let the notifier take a command of the subscriber; return the way there."""
    talk.command(talk.subscribers[0], "news")  # introduces the subscriber
    talk.stage.soon()
    relay, now = talk.by.relays[talk.source.relay], talk.stage.world.now
    number = talk.stage.world.number()
    message = Incoming(
        Kind.COMMAND,
        number,
        _source=talk.subscribers[0].entry,
        _id=number,
        _to=relay.entry,
        _name="news",
    )
    way, todo = fast_path_to(talk.far, talk.near), deque[Action]()
    frame = way.command(message, now)
    assert isinstance(frame, bytes)
    assert fast_path_to(talk.near, talk.far).receive(frame, now, todo)
    [action] = todo
    assert isinstance(action, Post)
    [command] = action.messages
    assert isinstance(command, Incoming)
    taken = (command._receipt, command._number, 1, command._size)
    talk.near.remote.inbound_messages.on_extracted([taken], now)
    assert relay.under_way == 1
    return way


@clause("BUS-RELAY-9", "BUS-FLOW-7")
def test_a_notification_acknowledges_the_commands_that_its_task_took() -> None:
    talk = Notices()
    way = _takes_a_command(talk)
    relay = talk.by.relays[talk.source.relay]

    assert way.receive(talk.send(), talk.stage.world.now, deque())

    assert relay.under_way == 0
    assert relay.counters.posted == relay.counters.taken
    assert talk.to.session.ack_at is None  # nothing is left to acknowledge


@clause("BUS-RELAY-9", "BUS-ROUTE-3")
def test_a_notification_that_ends_the_last_command_of_a_superseded_relay() -> None:
    """The normal path reads it, and lets later commands pass that relay."""
    talk = Notices()
    way = _takes_a_command(talk)
    relay, frame = talk.by.relays[talk.source.relay], talk.send()
    relay.state = RelayState.SUPERSEDED
    talk.far.manager.revision += 1

    assert not way.receive(frame, talk.stage.world.now, deque())
    talk.far.remote.receive(way.link, decoded(frame), talk.stage.world.now)

    assert relay.state is not RelayState.SUPERSEDED


@clause("BUS-RELAY-9")
def test_a_message_frame_leaves_a_notification_to_be_acknowledged() -> None:
    """It states what one task has taken, not which notifications arrived."""
    talk = Delivery()
    assert talk.come(talk.send())
    acks, due = talk.peer.acks, talk.peer.acks.due_at
    assert due is not None

    reader = talk.subscribers[0].entry.relay
    acknowledged, extracted = acks.acknowledge_by(reader)

    assert acknowledged == talk.to.session.outgoing.next - 1
    assert extracted == 0
    assert acks.due_at == due


@clause("BUS-RELAY-9")
def test_a_received_notification_is_acknowledged_as_in_an_exchange() -> None:
    """It also shows that its process is alive."""
    talk = Delivery()
    talk.stage.world.now += 0.25

    assert talk.come(talk.send())

    assert talk.peer.received_at == talk.stage.world.now
    talk.peer.acks.next_check(talk.stage.world.now, ready=True)
    assert talk.peer.acks.in_exchange


@clause("BUS-RELAY-9", "BUS-RELAY-11")
def test_a_notification_that_acknowledges_a_part_is_left_to_a_round() -> None:
    """Two commands are under way, of which the notifier has taken one."""
    talk = Notices()
    way = _takes_a_command(talk)
    frame = talk.send()
    talk.command(talk.subscribers[0], "news")
    talk.far.remote.flush(talk.stage.world.now)
    talk.far._pass_on()
    relay = talk.by.relays[talk.source.relay]
    assert relay.under_way == 2

    assert not way.receive(frame, talk.stage.world.now, deque())
    assert relay.under_way == 2
    talk.far.remote.receive(way.link, decoded(frame), talk.stage.world.now)
    assert relay.under_way == 1


@clause("BUS-RELAY-7")
def test_the_notifications_of_each_task_go_to_its_own_subscribers() -> None:
    """Though the ends of the last notification are remembered."""
    talk = Delivery("s3", "s3")
    other = talk.stage.task("other", "s2")
    reader = talk.subscribers[1]
    reader.process.subscribe(reader, "other")
    talk.stage.soon()
    talk.near.notify(other)
    talk.stage.soon()

    both = talk.come(talk.frame())
    one = talk.come(talk.frame(ahead=1, source=other.entry.relay))

    assert [each._to.name for each in both] == ["reader/0", "reader/1"]
    assert [each._to.name for each in one] == ["reader/1"]
    assert [each._source.name for each in (*both, *one)] == ["news", "news", "other"]


@clause("BUS-CHAN-7")
def test_no_notification_takes_the_fast_path_into_shared_memory() -> None:
    """One body would be for many processes; the normal path shares it."""
    talk = Notices()
    assert talk.to.session.link is not None
    bodies: Any = SimpleNamespace(shares=lambda _: True)
    way = FastPath(talk.near.remote, talk.to, talk.to.session.link, bodies)

    assert way.may_notify(talk.source, 2**16)
    assert not way.may_notify(talk.source, FOLLOWS_MIN)


@clause("BUS-WIRE-4")
def test_a_frame_sent_by_the_fast_path_is_a_plain_notification() -> None:
    talk = Notices()
    session = talk.to.session
    expected = encode_single(
        stream_head(session.epoch, session.incarnation),
        session.outgoing.floor,
        session.outgoing.next,
        ends_head(0, talk.source.relay, Kind.NOTIFICATION),
        RAW,
        0,
        0xFFFFFFFF,
        b"payload",
        talk.to.acks.received.next - 1,
        0,
    )

    assert talk.send(b"payload") == expected
