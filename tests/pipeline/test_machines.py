"""The messages between machines, from the records of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest

from bus.journal.format import RecordKind
from bus.model.events import BusReason
from bus.pipeline.folder import OutFolder
from bus.pipeline.report import render
from bus.pipeline.results import read_rows
from bus.pipeline.run import run_pipeline
from tests.journal.bus_by_hand import arrives, bus, gone, inside, returned, sent, taken
from tests.journal.deaths import split
from tests.journal.histories import Condition, Entry, History, clean, store
from tests.pipeline.by_hand import results
from tests.pipeline.page import Page

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

KITCHEN, CELLAR = Condition(machine="kitchen"), Condition(machine="cellar")


def _amounts(folder: OutFolder) -> dict[tuple[str, str, str], list[Any]]:
    """Return messages sent, received and dropped, and bytes, by machines and medium."""
    names = ("sent", "received", "dropped", "bytes")
    return {
        (row["source"], row["target"], row["via"]): [row[name] for name in names]
        for row in read_rows(folder, "machines")
    }


@pytest.mark.spark
@pytest.mark.deep
def test_messages_belong_to_the_machines_of_both_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Task A is in the kitchen; B, C and side 1 of the queue are in the cellar."""
    queue = clean(1, channels=1)
    split(queue)
    messages = bus(
        *(step for mid in (1, 2, 3) for step in (*sent(mid), *arrives(mid))),
        sent(4)[0],
        gone(RecordKind.UNDELIVERED, 4, BusReason.OLDEST),
        *inside(1, 2),
        *taken(1, 2),
    )
    history = History([*messages.entries, *queue.entries], journals=2)
    history.number()
    store(history, tmp_path / "in", slots=1024, conditions={0: KITCHEN, 1: CELLAR})

    run_pipeline(tmp_path / "in", tmp_path / "out")

    folder = OutFolder(tmp_path / "out")
    found = _amounts(folder)
    assert {key: many[:3] for key, many in found.items() if key[2] == "bus"} == {
        ("kitchen", "cellar", "bus"): [4, 3, 1],
        ("cellar", "cellar", "bus"): [2, 2, 0],
    }
    for ends, side in ((("kitchen", "cellar"), 1), (("cellar", "kitchen"), 0)):
        assert found[*ends, "queue"] == _of_side(queue, side)
    # Both journals are of one boot, so that the times can be compared.
    assert all(row["p50"] is not None for row in read_rows(folder, "machines"))
    output = " ".join(Page(folder.report.read_text(encoding="utf-8")).text.split())
    assert "Between machines" in output
    assert "kitchen → cellar bus 4 3 1 " in output


@pytest.mark.spark
@pytest.mark.deep
def test_times_of_two_clocks_are_compared_within_the_error_of_their_offset(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The clock in the cellar is 5 s ahead; a link takes 1000 ns each way."""
    history = bus(*sent(1), *arrives(1), *returned(1))
    cellar = attrs.evolve(CELLAR, boot=1, ahead=5 * 10**9)
    store(history, tmp_path / "in", conditions={0: KITCHEN, 1: cellar})

    run_pipeline(tmp_path / "in", tmp_path / "out")

    folder = OutFolder(tmp_path / "out")
    (clock,) = read_rows(folder, "clocks")
    assert (clock["offset_ns"], clock["bound_ns"]) == (5 * 10**9, 1000)
    found = {
        (row["source"], row["target"]): (row["p50"], row["bound_ns"])
        for row in read_rows(folder, "machines")
    }
    assert found == {
        ("kitchen", "cellar"): (4000, 1000),
        ("cellar", "kitchen"): (3000, 1000),
    }


def _of_side(history: History, side: int) -> list[int]:
    """Return the amounts of what one side of a queue receives, from its entries."""

    def those(kind: RecordKind) -> list[Entry]:
        return [
            each
            for each in history.entries
            if each.kind is kind and each.seq and each.flow & 1 == side
        ]

    sends, dropped = those(RecordKind.SEND), those(RecordKind.DROP)
    sizes = sum(each.size for each in sends)
    return [len(sends), len(those(RecordKind.RECEIVE)), len(dropped), sizes]


@pytest.mark.spark
def test_one_machine_has_no_such_table(finished: OutFolder) -> None:
    assert list(read_rows(finished, "machines")) == []
    assert "Messages between machines" not in finished.report.read_text("utf-8")


def test_a_time_below_the_error_of_the_clocks_is_shown_as_that_error(
    tmp_path: Path,
) -> None:
    row = {"source": "a", "target": "b", "via": "bus", "sent": 3, "received": 2}
    row |= {"dropped": 1, "bytes": 2048, "p50": 2000, "p99": 9000, "bound_ns": 3000}

    page = Page(render(results(tmp_path, machines=[row])))

    assert "2 KiB \N{LESS-THAN OR EQUAL TO} 3 µs 9 µs" in " ".join(page.text.split())


def test_times_that_cannot_be_compared_are_a_dash(tmp_path: Path) -> None:
    """Two hosts have two clocks."""
    row = {"source": "a", "target": "b", "via": "bus", "sent": 3, "received": 2}
    row |= {"dropped": 1, "bytes": 2048, "p50": None, "p99": None, "bound_ns": None}
    journal = {"journal": 1, "machine": "a", "process": "p", "records": 1, "gaps": 0}
    journal |= {"lost": 0, "damaged": 0, "late": False, "closed": True, "died": False}
    journal |= {"complete": True, "first_wall_us": 1, "last_wall_us": 2}

    page = Page(render(results(tmp_path, machines=[row], journals=[journal])))

    assert page.problems == []
    dashes = "\N{EN DASH} \N{EN DASH}"
    assert f"a → b bus 3 2 1 2 KiB {dashes}" in " ".join(page.text.split())
