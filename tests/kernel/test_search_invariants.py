"""Each invariant of searches and relays tells a broken bus from a sound one."""

from __future__ import annotations

from typing import Final

import attrs
import pytest

from specs.promela.model import MODELS
from tests.kernel import search_invariants as invariants
from tests.kernel.search_invariants import (
    AT_REST,
    SAFETY,
    Answer,
    Hosted,
    LedgerEntry,
    News,
    Process,
    Relay,
    Release,
    Snapshot,
)

(MODEL,) = (model for model in MODELS if model.name == "search")

# As in the model: D at slave 1 has found F1 at slave 3; E at slave 2 still searches
# for another task, which slave 1 does not know.
D, E, F1, F2 = "D", "E", "F1", "F2"
OLD, OPEN, LINK = "first search", "second search", "data link"

MASTER: Final = Process(ledger=(LedgerEntry(OPEN, frozenset({"1", "3"})),))
FIRST: Final = Process(
    hosted=(Hosted(D, "d"),),
    relays=(Relay(F1, LINK, frozenset({D})),),
    ledger=(LedgerEntry(OPEN),),
)
SECOND: Final = Process(
    hosted=(Hosted(E, "e", public=False),), searches=frozenset({OPEN})
)
THIRD: Final = Process(
    hosted=(Hosted(F1, "f"),),
    relays=(Relay(D, LINK, frozenset({F1})),),
    ledger=(LedgerEntry(OPEN),),
)
SOUND: Final = Snapshot(
    processes={"0": MASTER, "1": FIRST, "2": SECOND, "3": THIRD},
    sought=(
        *((OLD, "1"), (OLD, "0"), (OLD, "2"), (OLD, "3")),
        *((OPEN, "2"), (OPEN, "0"), (OPEN, "1"), (OPEN, "3")),
    ),
    answers=(Answer(OLD),),
    releases=(Release(F2, F2),),
)


def of(**processes: Process) -> Snapshot:
    """Return a sound bus with some of its processes, p0 to p3, replaced."""
    others = {name.removeprefix("p"): each for name, each in processes.items()}
    return attrs.evolve(SOUND, processes=SOUND.processes | others)


# Without F1, and without D and E as well.
F1_GONE: Final = of(p3=attrs.evolve(THIRD, hosted=(), relays=()))
BOTH_GONE: Final = of(p1=attrs.evolve(FIRST, hosted=()), p3=Process())
# E has abandoned its search; the master and the others do not know it yet.
CLOSED: Final = of(p2=attrs.evolve(SECOND, searches=frozenset()))

BROKEN: Final[dict[str, list[Snapshot]]] = {
    "no_search_goes_in_a_circle": [
        attrs.evolve(SOUND, sought=(*SOUND.sought, (OPEN, "2"))),
        attrs.evolve(SOUND, sought=(*SOUND.sought, (OLD, "3"))),
    ],
    "one_relay_for_a_registration_and_link": [
        of(p1=attrs.evolve(FIRST, relays=FIRST.relays * 2)),
    ],
    "a_search_is_answered_once": [
        attrs.evolve(SOUND, answers=[*SOUND.answers, *SOUND.answers]),
    ],
    "only_the_holder_answers": [
        attrs.evolve(SOUND, answers=(Answer(OLD, hosted=False),)),
    ],
    "an_elimination_spares_the_newer": [
        attrs.evolve(SOUND, releases=(Release(F2, F1),)),
    ],
    "no_relay_survives_both_ends": [BOTH_GONE],
    "a_relay_of_who_is_gone_will_end": [
        F1_GONE,
        attrs.evolve(F1_GONE, news=frozenset({News("1", F2), News("2", F1)})),
    ],
    "no_ledger_keeps_a_ghost": [
        CLOSED,
        # No process will forward it to slave 1.
        attrs.evolve(
            CLOSED,
            processes=CLOSED.processes
            | {"0": Process(ledger=(LedgerEntry(OPEN, frozenset({"3"})),))},
            news=frozenset({News("0", OPEN)}),
        ),
    ],
    "garbage_relays_vanish": [
        F1_GONE,
        of(p1=attrs.evolve(FIRST, hosted=()), p3=attrs.evolve(THIRD, relays=())),
    ],
    "ledgers_forget_what_is_over": [CLOSED],
    "a_name_is_left_to_one": [
        of(p2=attrs.evolve(SECOND, hosted=(Hosted(F2, "f"),))),
    ],
}

# States that look like a breach, but are none.
ALLOWED: Final[dict[str, list[Snapshot]]] = {
    "no_search_goes_in_a_circle": [
        attrs.evolve(SOUND, sought=(*SOUND.sought, (OLD, "3 again"))),
    ],
    "one_relay_for_a_registration_and_link": [
        of(p1=attrs.evolve(FIRST, relays=(*FIRST.relays, Relay(F2, LINK)))),
    ],
    "a_search_is_answered_once": [
        attrs.evolve(SOUND, answers=(*SOUND.answers, Answer(OPEN))),
    ],
    "no_relay_survives_both_ends": [
        F1_GONE,
        attrs.evolve(BOTH_GONE, news=frozenset({News("1", F1)})),
    ],
    "a_relay_of_who_is_gone_will_end": [
        attrs.evolve(F1_GONE, news=frozenset({News("1", F1)})),
        attrs.evolve(
            F1_GONE,
            processes=F1_GONE.processes
            | {"1": attrs.evolve(FIRST, relays=(Relay(F1, lingers=True),))},
        ),
    ],
    "no_ledger_keeps_a_ghost": [
        attrs.evolve(CLOSED, news=frozenset({News("0", OPEN)})),
        attrs.evolve(
            CLOSED,
            processes=CLOSED.processes | {"0": Process()},
            news=frozenset({News("1", OPEN), News("3", OPEN)}),
        ),
        attrs.evolve(CLOSED, expired=frozenset({OPEN})),
    ],
    "a_name_is_left_to_one": [
        of(p2=attrs.evolve(SECOND, hosted=(Hosted(F2, "f", public=False),))),
        of(p2=attrs.evolve(SECOND, hosted=(Hosted(F2, "f", machine="other"),))),
    ],
}


def cases(table: dict[str, list[Snapshot]]) -> list[tuple[str, Snapshot]]:
    """Return every snapshot of a table, with the name of its invariant."""
    return [(name, each) for name, snapshots in table.items() for each in snapshots]


def test_there_is_one_for_each_safety_property_of_the_model() -> None:
    assert tuple(each.__name__ for each in SAFETY) == MODEL.safety()
    assert {each.__name__ for each in AT_REST} <= set(MODEL.liveness())


@pytest.mark.parametrize("invariant", [*SAFETY, *AT_REST], ids=lambda f: f.__name__)
def test_a_sound_bus_breaks_none(invariant: invariants.Invariant) -> None:
    invariant(SOUND)


def test_each_has_a_bus_that_breaks_it() -> None:
    assert set(BROKEN) == {each.__name__ for each in (*SAFETY, *AT_REST)}


@pytest.mark.parametrize(("name", "snapshot"), cases(BROKEN))
def test_each_tells_a_bus_that_breaks_it(name: str, snapshot: Snapshot) -> None:
    with pytest.raises(AssertionError):
        getattr(invariants, name)(snapshot)


@pytest.mark.parametrize(("name", "snapshot"), cases(ALLOWED))
def test_each_invariant_accepts_a_sound_bus_that_resembles_a_broken_one(
    name: str, snapshot: Snapshot
) -> None:
    getattr(invariants, name)(snapshot)


def test_news_may_pass_through_several_processes() -> None:
    """Between machines a search passes two masters; so does its cancellation."""
    chain = {
        "master": Process(ledger=(LedgerEntry(OPEN, frozenset({"other master"})),)),
        "other master": Process(ledger=(LedgerEntry(OPEN, frozenset({"slave"})),)),
        "slave": Process(ledger=(LedgerEntry(OPEN),)),
    }
    to_first = Snapshot(chain, news=frozenset({News("master", OPEN)}))
    to_last = Snapshot(chain, news=frozenset({News("slave", OPEN)}))

    invariants.no_ledger_keeps_a_ghost(to_first)
    with pytest.raises(AssertionError):
        invariants.no_ledger_keeps_a_ghost(to_last)
