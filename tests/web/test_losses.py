"""Each lost message becomes one row that names the place, the rule and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from bus.model.events import BusReason
from bus.web.losses import Loss, from_counters, from_reason
from specs.clauses import clause, load_clauses

NO_COUNT = dict.fromkeys(
    ("accepted", "delivered", "dropped", "expired", "returned", "unread", "refused"), 0
)
ON_LINK = dict.fromkeys(("posted", "dropped", "failed", "in_doubt"), 0)


def told(
    *,
    commands: dict[str, int] | None = None,
    notifications: dict[str, int] | None = None,
    missed: int = 0,
    relay: dict[str, int] | None = None,
    link: dict[str, int] | None = None,
    gave_up: int = 0,
    total: dict[str, int] | None = None,
    **task: int,
) -> dict[str, Any]:
    """Return a report with one task, one relay and one link."""
    subscription = {
        "to": "clock/*",
        "notifications": NO_COUNT | (notifications or {}),
        "missed": missed,
    }
    listed = {
        "name": "shelf",
        "commands": NO_COUNT | (commands or {}),
        "subscriptions": [subscription],
    }
    place = {"machine": "m", "process": "q"}
    return {
        "threads": [{"name": "default", "tasks": [listed | task]}],
        "relays": [place | {"name": "far", "counters": ON_LINK | (relay or {})}],
        "links": [place | {"counters": ON_LINK | (link or {})}],
        "gave_up": gave_up,
        "relay_counters": ON_LINK | (total or link or {}),
    }


def losses(**now: Any) -> list[Loss]:
    return list(from_counters(told(**now), told(), 5, "m/p"))


@clause("BUS-PAGE-4")
@pytest.mark.parametrize(
    ("now", "kind", "count", "rule", "task"),
    [
        ({"commands": {"dropped": 3}}, "dropped", 3, "BUS-FLOW-6", "shelf"),
        ({"commands": {"refused": 1}}, "refused", 1, "BUS-FLOW-6", "shelf"),
        ({"commands": {"expired": 2}}, "expired", 2, "BUS-FLOW-5", "shelf"),
        ({"notifications": {"dropped": 4}}, "dropped", 4, "BUS-FLOW-3", "shelf"),
        ({"notifications": {"refused": 4}}, "refused", 4, "BUS-FLOW-6", "shelf"),
        ({"missed": 6}, "dropped", 6, "BUS-FLOW-3", "shelf"),
        ({"no_subscriber": 7}, "unheard", 7, "BUS-FLOW-8", "shelf"),
        ({"late": 1}, "late", 1, "BUS-FLOW-5", "shelf"),
        ({"failures": 1}, "failed", 1, "BUS-MSG-13", "shelf"),
        ({"gave_up": 2}, "unresolved", 2, "BUS-FLOW-5", ""),
        (
            {"relay": {"in_doubt": 2}, "link": {"in_doubt": 2}},
            *("in doubt", 2, "BUS-MOVE-8", "far"),
        ),
        ({"link": {"in_doubt": 5}}, "in doubt", 5, "BUS-MOVE-8", ""),
        # The link of a lost process is gone.
        ({"total": {"in_doubt": 4}}, "in doubt", 4, "BUS-MOVE-8", ""),
    ],
)
def test_a_counter_that_has_risen_is_one_row(
    now: dict[str, Any], kind: str, count: int, rule: str, task: str
) -> None:
    [loss] = losses(**now)

    found = (loss.kind, loss.count, loss.rule, loss.task, loss.process)
    assert found == (kind, count, rule, task, "m/p")
    assert rule in load_clauses()
    assert loss.why
    assert loss.do


@clause("BUS-PAGE-4")
def test_no_message_is_listed_twice() -> None:
    """The counters of a link include those of its relays."""
    found = losses(relay={"dropped": 2}, link={"dropped": 5})

    assert [(each.task, each.count) for each in found] == [("far", 2), ("", 3)]


def test_the_messages_for_the_page_itself_are_left_out() -> None:
    now = told(link={"failed": 1})

    assert list(from_counters(now, told(), 5, "m/p", asker="q")) == []


def test_a_counter_that_has_not_risen_is_no_row() -> None:
    now = told(commands={"dropped": 3}, late=1)

    assert list(from_counters(now, now, 5, "m/p")) == []


@pytest.mark.parametrize("reason", [each for each in BusReason if each < 80])
def test_each_recorded_reason_has_its_words(reason: BusReason) -> None:
    kind, rule, why, do = from_reason(reason)

    assert all((kind, why, do))
    assert rule in load_clauses()
