"""The dashboard for Grafana: it asks for metrics and labels that exist, and for all."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from bus.features.metrics.families import COMMON, FAMILIES, Family

PAGE: Final = Path(__file__).parents[3] / "docs" / "how-to" / "grafana-dashboard.json"
BOARD: Final[dict[str, Any]] = json.loads(PAGE.read_text())
PANELS: Final = [each for each in BOARD["panels"] if each["type"] != "row"]
EXPOSED: Final = {
    each.name + "_total" * (each.kind == "counter"): each for each in FAMILIES
}
# The histogram of the verb.
EXPOSED["bus_query_duration_seconds_bucket"] = Family(
    "bus_query_duration_seconds_bucket", "counter", "", lambda _: (), ("le",)
)
# One metric, its matchers, and the range of a rate.
METRIC: Final = re.compile(r"\b(bus_[a-z_]+)\{([^}]*)\}(\[)?")


def expressions(panel: dict[str, Any]) -> list[str]:
    return [target["expr"] for target in panel["targets"]]


@pytest.mark.parametrize("panel", PANELS, ids=[each["title"] for each in PANELS])
def test_a_panel_asks_for_metrics_and_labels_that_exist(panel: dict[str, Any]) -> None:
    for expression in expressions(panel):
        found = METRIC.findall(expression)
        assert found
        assert len(found) == len(re.findall(r"\bbus_[a-z]", expression))
        for name, matchers, _ in found:
            asked = set(re.findall(r"(\w+)=", matchers))
            assert asked <= {*COMMON, *EXPOSED[name].labels}
        by = [
            set(each.split(", ")) for each in re.findall(r"by \(([^)]*)\)", expression)
        ]
        for (name, _, _), labels in zip(found, by, strict=False):
            assert labels <= {*COMMON, *EXPOSED[name].labels}


@pytest.mark.parametrize("panel", PANELS, ids=[each["title"] for each in PANELS])
def test_a_counter_is_shown_as_a_rate_and_a_gauge_as_it_is(
    panel: dict[str, Any],
) -> None:
    for expression in expressions(panel):
        if "abs(" in expression:
            continue  # the accounts: counters of one moment
        for name, _, ranged in METRIC.findall(expression):
            counts = EXPOSED[name].kind == "counter"
            assert bool(ranged) == counts or f"avg_over_time({name}" in expression


def test_a_legend_has_only_labels_that_the_expression_keeps() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            kept = " ".join(re.findall(r"by \(([^)]*)\)", target["expr"]))
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert label in re.split(r",? ", kept), (panel["title"], label)


def test_the_dashboard_shows_all_drops_depths_and_doubts() -> None:
    shown = {
        name
        for panel in PANELS
        for each in expressions(panel)
        for name, _, _ in METRIC.findall(each)
    }
    left_out = {name for name in EXPOSED if name not in shown}

    assert left_out == {
        # Seen from the other side, or by others that are shown.
        *("bus_process_is_master", "bus_threads", "bus_unread_bytes"),
        *("bus_open_questions", "bus_remote_messages_posted_total"),
        *("bus_outgoing_notifications_accepted_total",),
        *("bus_outgoing_notifications_delivered_total",),
        *("bus_outgoing_notifications_dropped_total",),
        *("bus_arena_messages_released_total", "bus_announcements_ignored_total"),
        *("bus_task_commands_accepted_total", "bus_task_commands_returned_total"),
        *("bus_subscription_notifications_accepted_total",),
        *("bus_subscription_notifications_returned_total",),
        *("bus_link_messages_posted_total", "bus_link_messages_taken_total"),
        *("bus_link_messages_in_doubt_total", "bus_link_unresponsive"),
    }


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    numbers = [each["id"] for each in BOARD["panels"]]
    cells = [
        (column, line)
        for place in (each["gridPos"] for each in BOARD["panels"])
        for column in range(place["x"], place["x"] + place["w"])
        for line in range(place["y"], place["y"] + place["h"])
    ]

    assert len(set(numbers)) == len(numbers)
    assert len(set(cells)) == len(cells)
    assert max(column for column, _ in cells) < 24
