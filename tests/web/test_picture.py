"""`Picture` and `History`: changes rebuild the picture, at each round that is kept."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from bus.web.losses import Loss
from bus.web.picture import (
    COLUMNS,
    History,
    Picture,
    Round,
    Row,
    Totals,
    View,
    totals_of,
    view_of,
)
from specs.clauses import clause

NAMES = ("a", "b", "c")


def row(commands: int) -> Row:
    values: dict[str, object] = {"commands": commands, "thread": "default"}
    return tuple(values.get(each, 0) for each in COLUMNS)


def view(tasks: dict[str, int]) -> View:
    rows = {name: row(count) for name, count in tasks.items()}
    return View({"totals": totals_of(rows)}, rows)


VIEWS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2)).map(view)
STEPS = st.lists(
    st.dictionaries(st.sampled_from(["m/p", "m/q"]), st.none() | VIEWS), max_size=8
)


@clause("BUS-PAGE-3")
@given(STEPS, st.integers(1, 4))
def test_the_past_is_the_picture_of_that_round(
    steps: list[dict[str, View | None]], kept: int
) -> None:
    picture, history = Picture(), History(kept)
    pictures = []

    for number, step in enumerate(steps, start=1):
        changes = [picture.update(key, each) for key, each in step.items()]
        history.add(
            Round(number=number, at_ns=number, changes=changes, totals=Totals())
        )
        pictures.append(deepcopy(picture.views))

    for number, views in enumerate(pictures, start=1):
        if number > len(pictures) - kept:
            assert history.at(number).views == views
    copy = Picture()
    copy.apply(picture.whole())
    assert copy.views == picture.views


def test_a_change_names_only_the_tasks_that_changed() -> None:
    picture = Picture()
    picture.update("m/p", view({"a": 1, "b": 1, "c": 1}))

    change = picture.update("m/p", view({"a": 1, "b": 2}))

    assert change["tasks"] == {"b": row(2), "c": None}
    assert picture.totals().handled == 3


def test_old_losses_make_room_and_numbers_go_on() -> None:
    history = History(kept=1, losses_kept=2)

    for number in range(3):
        loss = Loss(number, "dropped", 1, "", "m/p", "", "", "", "")
        history.add(
            Round(number=number, at_ns=0, changes=[], totals=Totals(), losses=[loss])
        )

    assert [each.number for each in history.losses] == [2, 3]
    assert [each.number for each in history.after(1)] == [2]


def test_an_idle_link_is_kept_once_in_all_rounds() -> None:
    """A bus of many processes has links between all of them, and few in use."""
    link = {"machine": "m", "process": "q", "kind": "data"}
    state = {"ready": True, "unresponsive": False}
    told = {
        "machine": "m",
        "process": "p",
        "pid": 1,
        "role": "slave",
        "since_s": 1.0,
        "threads": [],
        "links": [link | state | {"counters": {"posted": 3, "in_doubt": 0}}],
    }

    first = view_of(told, None, {}, {}, "web")
    second = view_of(told | {"since_s": 2.0}, first, {}, told, "web")

    assert second.facts["links"][0] is first.facts["links"][0]
