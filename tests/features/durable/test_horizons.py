"""`Horizons`: the numbers that a restarted process refuses."""

from __future__ import annotations

import pytest

from bus.features.durable.horizons import Horizon, Horizons, Store
from bus.kernel.streams.incoming_stream import NUMBERS, Acknowledgement
from bus.kernel.streams.incoming_streams import IncomingStreams, Refusal
from specs.clauses import clause

ME = 5  # this incarnation


def streams(horizons: Horizons) -> IncomingStreams[str]:
    return IncomingStreams(
        ME, window=8, ranges_max=4, life_s=60.0, ended_max=3, horizons=horizons
    )


# Raising.


@clause("AMO-20")
@pytest.mark.parametrize("ahead", [0, 1, 1024])
def test_a_horizon_is_raised_over_the_message_and_ahead_of_it(ahead: int) -> None:
    horizons = Horizons({}, ahead=ahead)

    assert horizons.raise_over("a", 1, 3) == Store("a", Horizon(1, 3 + ahead))
    assert horizons.raise_over("a", 1, 3 + ahead) is None
    again = Store("a", Horizon(1, 4 + 2 * ahead))
    assert horizons.raise_over("a", 1, 4 + ahead) == again


@clause("AMO-20")
def test_each_sender_and_each_epoch_has_its_own_numbers() -> None:
    horizons = Horizons({"a": Horizon(1, 9)}, ahead=2)

    assert horizons.raise_over("b", 1, 1) == Store("b", Horizon(1, 3))
    assert horizons.raise_over("a", 2, 1) == Store("a", Horizon(2, 3))
    assert not horizons.covers("a", 1, 9)
    assert horizons.covers("a", 2, 3)
    assert not horizons.covers("a", 2, 4)


@clause("AMO-15", "AMO-20")
def test_no_horizon_is_above_the_last_number() -> None:
    horizons = Horizons({}, ahead=1024)

    last = Store("a", Horizon(1, NUMBERS - 1))
    assert horizons.raise_over("a", 1, NUMBERS - 3) == last
    opened = streams(Horizons({"a": Horizon(1, NUMBERS - 1)}, ahead=1)).open("a", 1)
    assert opened.has == Acknowledgement(NUMBERS)


@clause("AMO-20")
def test_after_a_failure_nothing_is_covered() -> None:
    horizons = Horizons({"a": Horizon(1, 9)}, ahead=2)
    assert horizons.covers("a", 1, 9)

    horizons.fail()

    assert not horizons.covers("a", 1, 9)


def test_the_initial_horizons_are_copied() -> None:
    stored = {"a": Horizon(1, 9)}
    Horizons(stored, ahead=0).raise_over("a", 1, 10)

    assert stored == {"a": Horizon(1, 9)}


def test_a_horizon_covers_the_lower_ones() -> None:
    horizon = Horizon(2, 5)

    assert horizon.covers(Horizon(2, 5))
    assert horizon.covers(Horizon(1, 99))
    assert not horizon.covers(Horizon(2, 6))
    assert not horizon.covers(Horizon(3, 1))


# After a restart.


@clause("AMO-20")
def test_a_stream_continues_above_its_horizon() -> None:
    """All numbers up to it are refused, although this process has not had them."""
    fresh = streams(Horizons({"a": Horizon(7, 3)}, ahead=2))

    opened = fresh.open("a", 7)

    assert (opened.refusal, opened.has, opened.resumed) == (
        *(None, Acknowledgement(4), True),
    )
    assert fresh.accept("a", 7, ME, 1, ["1", "2", "3", "4"], 1) == ["4"]


@clause("AMO-16", "AMO-20")
def test_an_epoch_before_the_horizon_is_refused() -> None:
    fresh = streams(Horizons({"a": Horizon(7, 3)}, ahead=2))

    opened = fresh.open("a", 6)

    assert (opened.refusal, opened.epoch) == (Refusal.OLD_EPOCH, 7)
    assert fresh.accept("a", 6, ME, 9, ["9"], 1) is Refusal.NOT_OPEN


@clause("AMO-6", "AMO-20")
def test_a_new_epoch_begins_where_its_sender_says() -> None:
    fresh = streams(Horizons({"a": Horizon(7, 3)}, ahead=2))

    opened = fresh.open("a", 8, 2)

    assert (opened.has, opened.resumed) == (Acknowledgement(2), False)
    assert fresh.accept("a", 8, ME, 2, ["2"], 1) == ["2"]


@clause("AMO-20", "AMO-21")
def test_a_sender_that_is_forgotten_otherwise_keeps_its_horizon() -> None:
    """The memory of an ended stream is bounded; the horizons are not forgotten."""
    horizons = Horizons({}, ahead=0)
    fresh = streams(horizons)
    fresh.open("a", 7)
    assert fresh.accept("a", 7, ME, 1, ["1"], 1) == ["1"]
    horizons.raise_over("a", 7, 1)
    fresh.end("a", 0.0)
    fresh.expire(1e9)

    assert fresh.open("a", 7).has == Acknowledgement(2)
    assert fresh.accept("a", 7, ME, 1, ["1"], 1) == []


@clause("AMO-16", "AMO-20")
def test_the_newest_epoch_is_the_one_of_the_stream_or_of_the_horizon() -> None:
    fresh = streams(Horizons({"a": Horizon(7, 3)}, ahead=2))
    assert [fresh.newest_epoch(sender) for sender in "ab"] == [7, 0]

    fresh.open("a", 9)

    assert fresh.newest_epoch("a") == 9
