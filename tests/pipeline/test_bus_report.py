"""The traffic of a bus in tables and report, like that of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from bus.journal.format import RecordKind
from bus.model.events import BusReason
from bus.pipeline import rules
from bus.pipeline.folder import OutFolder
from bus.pipeline.results import read_rows
from bus.pipeline.rules import Tables, violations
from bus.pipeline.run import run_pipeline
from tests.journal.bus_by_hand import arrives, bus, gone, inside, sent, taken
from tests.journal.histories import store
from tests.pipeline.page import Page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.deep]

MESSAGES = 20


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> OutFolder:
    """Judge a bus on which one message was dropped and two arrived reordered."""
    folder = tmp_path_factory.mktemp("bus")
    crossed = [
        step for mid in range(1, MESSAGES) for step in (*sent(mid), *arrives(mid))
    ]
    dropped = [
        sent(MESSAGES)[0],
        gone(RecordKind.DISCARD, MESSAGES, BusReason.OLDEST),
        gone(RecordKind.UNDELIVERED, MESSAGES, BusReason.OLDEST),
    ]
    history = bus(*crossed, *dropped, *inside(1, 2, 3), *taken(2, 1, 3))
    store(history, folder / "journals", slots=1024)
    run_pipeline(folder / "journals", folder / "out")
    return OutFolder(folder / "out")


def test_tasks_of_a_bus_are_routes(judged: OutFolder) -> None:
    """Was reported: "No message was sent", with 29,992 transfers in the tables."""
    routes = {
        (row["source"], row["target"]): row for row in read_rows(judged, "routes")
    }

    assert {row["via"] for row in routes.values()} == {"bus"}
    far = next(row for row in routes.values() if row["messages_sent"] == MESSAGES)
    assert far["messages_received"] == MESSAGES - 1
    assert far["dropped"] == 1
    assert len(routes) == 2
    assert all(name.startswith("task-") for pair in routes for name in pair)


def test_each_part_of_the_way_is_timed(judged: OutFolder) -> None:
    parts = {row["part"]: row for row in read_rows(judged, "hops")}

    crossed = {"before the link", "on link 1", "after the link"}
    assert set(parts) == crossed | {"all of it"}
    assert all(parts[part]["messages"] == MESSAGES - 1 for part in crossed)
    # Includes messages within a process.
    assert parts["all of it"]["messages"] == MESSAGES - 1 + 3


def test_drops_are_counted_by_reason(judged: OutFolder) -> None:
    (drop,) = read_rows(judged, "drops")

    # Two records concern it.
    assert (drop["via"], drop["reason"], drop["messages"]) == ("bus", "oldest", 1)


def test_the_report_shows_them(judged: OutFolder) -> None:
    page = Page(judged.report.read_text(encoding="utf-8"))

    output = " ".join(page.text.split())
    assert page.problems == []
    assert "No message was sent" not in output
    assert "on link 1 19" in output
    assert "bus oldest 1" in output
    # The violation of B5, drawn with its neighbours, and marked on the axis.
    assert "✗ FAIL B5 broken: command 1 from task-" in output
    assert page.text.count("from task-") >= 1
    assert "violation B5 order of each sender overtaken" in output


def test_a_busy_line_is_judged_piece_by_piece_with_the_same_result(
    spark: SparkSession, judged: OutFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B5 in chunks, as Q2: one busy line must be no single task."""
    names = [field.name for field in attrs.fields(Tables)]
    tables = Tables(*(judged.read(spark, name) for name in names))
    monkeypatch.setattr(rules, "CHUNK_RECORDS", 2)
    cut: list[int | None] = []

    def noted(rows: object, chunk: int | None, *more: object) -> object:
        cut.append(chunk)
        return overtaken(rows, chunk, *more)  # type: ignore[arg-type] # handed on

    overtaken = rules.overtaken
    monkeypatch.setattr(rules, "overtaken", noted)

    whole = violations(tables).where("rule = 'B5'").collect()
    pieces = violations(tables, flow_receives_max=1).where("rule = 'B5'").collect()

    assert cut == [None, None, None, 2]
    assert len(whole) == 1
    assert pieces == whole
