"""QB-NAME: brokers, their names, and the effects of their close."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specs.clauses import clause
from specs.conformance.expectation import expect, require
from specs.conformance.scenario import Style, scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage

CLOSES = ("broker.close", "factory().closed_error")


@scenario()
@clause("QB-NAME-1")
def two_worlds_share_nothing(stage: Stage) -> None:
    """What two factory() calls return have brokers of their own, names included."""
    other = stage.factory()
    here, there = stage.broker("b"), other.broker("b")
    abroad = other.broker("abroad")
    stage.broker("a")

    missed = stage.at_once(stage.broker("a").connect, "abroad", 1)
    accepts = [stage.spawn(here.accept, 1), stage.spawn(there.accept, 1)]
    connects = [
        stage.spawn(stage.broker("a").connect, "b", 1),
        stage.spawn(abroad.connect, "b", 1),
    ]

    expect(missed, None, "connect to a name of the other world")
    for accept, connect in zip(accepts, connects, strict=True):
        stage.talk(stage.value(accept), stage.value(connect))


@scenario()
@clause("QB-NAME-2")
def a_broker_is_found_as_soon_as_it_is_made(stage: Stage) -> None:
    """A connect that starts after a broker was made finds it."""
    maker = stage.spawn(stage.broker, "late")
    stage.broker("a")
    stage.value(maker)

    connect = stage.spawn(stage.broker("a").connect, "late", 1)
    stage.waits(connect)

    stage.talk(stage.soon(stage.broker("late").accept, 1), stage.value(connect))


@scenario()
@clause("QB-NAME-3")
def names_are_compared_by_value(stage: Stage) -> None:
    """Equal names are one name; names that differ in case are two."""
    stage.broker("bob")
    stage.broker("a")
    built = "".join(["b", "o", "b"])

    connect = stage.spawn(stage.broker("a").connect, built, 1)
    accept = stage.spawn(stage.broker("bob").accept, 1)

    stage.talk(stage.value(accept), stage.value(connect))
    missed = stage.at_once(stage.broker("a").connect, "Bob", 1)
    expect(missed, None, "connect to 'Bob', where only 'bob' lives")


@scenario()
@clause("QB-NAME-3")
def names_are_strings_and_not_empty(stage: Stage) -> None:
    """An empty name is a ValueError, another type a TypeError."""
    stage.refuses(ValueError, stage.world.broker, "")
    stage.refuses(TypeError, stage.world.broker, b"a")
    stage.refuses(TypeError, stage.world.broker, None)


@scenario()
@clause("QB-NAME-4")
def a_live_name_is_refused(stage: Stage) -> None:
    """A name in use is refused and the first broker is untouched."""
    stage.broker("b")

    stage.refuses(stage.error("name_in_use_error"), stage.world.broker, "b")

    stage.talk(*stage.pair())


@scenario(style=Style.RACE)
@clause("QB-NAME-4")
def one_of_many_wins_a_name(stage: Stage) -> None:
    """Of several that race for a name exactly one gets it, and it can be reached."""
    calls = [stage.spawn(stage.world.broker, "b") for _ in range(3)]
    stage.join(*calls)
    winners = [call for call in calls if call.error is None]
    losers = [call for call in calls if call.error is not None]

    expect(len(winners), 1, "number of brokers that got the name")
    stage.raises(stage.error("name_in_use_error"), *losers)
    accept = stage.spawn(winners[0].value.accept, 1)
    connect = stage.spawn(stage.broker("a").connect, "b", 1)
    stage.talk(stage.value(accept), stage.value(connect))


@scenario(*CLOSES)
@clause("QB-NAME-5")
def a_name_is_free_again_and_inherits_nothing(stage: Stage) -> None:
    """After close the name makes a different broker, without the old one's waiters."""
    stage.broker("b")
    orphan = stage.spawn(stage.broker("a").connect, "b", 1)
    stage.waits(orphan)

    stage.broker("b").close()
    heir = stage.world.broker("b")
    accept = stage.spawn(heir.accept, 1)

    stage.raises(stage.error("closed_error"), orphan)
    stage.waits(accept)
    connect = stage.spawn(stage.broker("a").connect, "b", 1)
    stage.talk(stage.value(accept), stage.value(connect))


@scenario(*CLOSES)
@clause("QB-NAME-6")
def close_releases_every_waiter(stage: Stage) -> None:
    """Close releases accepts on a broker, connects to it and connects from it."""
    stage.brokers("a", "b", "far")
    waiters = [
        stage.spawn(stage.broker("b").accept, 1),
        stage.spawn(stage.broker("a").connect, "b", 2),
        stage.spawn(stage.broker("b").connect, "far", 3),
    ]
    stage.waits(*waiters)

    closed_at = stage.now()
    stage.broker("b").close()
    stage.broker("b").close()

    stage.promptly(closed_at, *waiters)
    stage.raises(stage.error("closed_error"), *waiters)


@scenario(*CLOSES)
@clause("QB-NAME-6")
def a_connect_released_by_close_leaves_no_trace(stage: Stage) -> None:
    """A connect from a closed broker no longer waits at the other broker's port."""
    stage.broker("far")
    lost = stage.spawn(stage.broker("b").connect, "far", 3)
    stage.waits(lost)

    stage.broker("b").close()
    stage.raises(stage.error("closed_error"), lost)

    accept = stage.spawn(stage.broker("far").accept, 3)
    stage.waits(accept)
    connect = stage.spawn(stage.broker("a").connect, "far", 3)
    stage.talk(stage.value(accept), stage.value(connect))


@scenario(*CLOSES, style=Style.RACE)
@clause("QB-NAME-6")
def close_against_match_is_all_or_nothing(stage: Stage) -> None:
    """In a race of close and match both sides get an end or neither does."""
    stage.broker("a")
    accept = stage.spawn(stage.broker("b").accept, 1)
    connect = stage.spawn(stage.broker("a").connect, "b", 1)
    close = stage.spawn(stage.broker("b").close)

    stage.value(close)
    stage.settle(accept, connect)
    require(accept.done, f"{accept.told()} after close")
    require(connect.done, f"{connect.told()} after close")
    if connect.error is None and connect.value is None:
        stage.raises(stage.error("closed_error"), accept)
    elif accept.error is None and connect.error is None:
        stage.talk(accept.value, connect.value)
    else:
        stage.raises(stage.error("closed_error"), accept, connect)


@scenario("broker.close")
@clause("QB-NAME-7")
def queues_outlive_their_brokers(stage: Stage) -> None:
    """An established connection survives the close of both brokers."""
    left, right = stage.pair()

    stage.broker("a").close()
    stage.broker("b").close()

    stage.talk(left, right)


@scenario("broker.close", "factory().close")
@clause("QB-NAME-7")
def queues_outlive_their_manager(stage: Stage) -> None:
    """An established connection survives the close of everything that named it."""
    left, right = stage.pair()

    stage.world.close()

    stage.talk(left, right)


@scenario(*CLOSES)
@clause("QB-NAME-8")
def a_closed_broker_refuses(stage: Stage) -> None:
    """Accept and connect on a closed broker raise; connect to it gives None."""
    stage.broker("a")
    stage.broker("b").close()
    closed = stage.error("closed_error")

    stage.refuses(closed, stage.broker("b").accept, 1)
    stage.refuses(closed, stage.broker("b").connect, "a", 1)
    stage.refuses(closed, stage.broker("b").connect, "nobody", 1)
    missed = stage.at_once(stage.broker("a").connect, "b", 1)
    expect(missed, None, "connect to a closed broker")


@scenario("factory().channels")
@clause("QB-NAME-12")
def a_broker_of_channels_has_no_face_for_queues(stage: Stage) -> None:
    """Connect for messages to a name that only carries channels gives None."""
    stage.world.channels("bytes")

    missed = stage.at_once(stage.broker("a").connect, "bytes", 1)

    expect(missed, None, "connect for messages to a broker of channels")


@scenario("factory().channels")
@clause("QB-NAME-12")
def queues_and_channels_share_one_name_space(stage: Stage) -> None:
    """A name taken by a broker of messages is taken for channels, and the reverse."""
    stage.broker("b")
    stage.world.channels("c")
    in_use = stage.error("name_in_use_error")

    stage.refuses(in_use, stage.world.channels, "b")
    stage.refuses(in_use, stage.world.broker, "c")
