"""The tables of a run, opened again, and the questions in `examples/spark`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from bus.errors import PipelineError
from bus.journal.format import Flag
from bus.pipeline import open_run
from bus.pipeline.results import read_rows
from bus.pipeline.schemas import EVENTS
from tests.pipeline.by_hand import results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bus.pipeline.folder import OutFolder

_EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "spark"


@pytest.mark.spark
@pytest.mark.deep
def test_each_table_of_a_run_is_an_attribute(
    spark: SparkSession, finished: OutFolder
) -> None:
    partial = finished.events / "of-a-killed-run.parquet"
    partial.touch()

    run = open_run(finished.path)
    events = run.events.count()
    partial.unlink()

    assert run.events.columns == [column.name for column in EVENTS]
    assert events == sum(row["records"] for row in run.segments.collect())
    assert run.messages.count() == len(list(read_rows(finished, "messages")))
    with pytest.raises(
        AttributeError, match=r"no table 'transfers' in .*; it has depth"
    ):
        _ = run.transfers


def test_a_folder_without_a_finished_run_is_named(tmp_path: Path) -> None:
    results(tmp_path)

    with pytest.raises(PipelineError, match=f"no finished run in {tmp_path}: run `bus"):
        open_run(tmp_path)


def transfer(mid: int, receiver: str, **columns: Any) -> dict[str, Any]:
    """Return a row of `transfers`: a notification, delivered after ``mid`` ms."""
    row: dict[str, Any] = {
        "sort": int(Flag.NOTIFICATION),
        "mid": mid,
        "sender": "sensor",
        "receiver": receiver,
    }
    row |= {"accepted_journal": 1, "accepted_mono": 0, "delivered_mono": mid * 10**6}
    row |= {"deliveries": 1, "explains": 0, "handed_on": False, "registered": True}
    row |= {"latency_ns": mid * 10**6, "from_link_ns": mid * 10**5}
    return row | columns


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.parametrize(
    ("example", "lines"),
    [
        (
            "delays_by_route",
            [
                "sensor -> display 2 1000 3000 3000",
                "sensor -> log 1 5000 5000 5000",
            ],
        ),
        (
            "in_flight_at_death",
            [
                "plant died: notification 5 of sensor -> log: delivered later",
                "plant died: notification 6 of sensor -> log: never delivered",
            ],
        ),
        (
            "slowest_subscriber",
            ["sensor: log is slowest, 500 microseconds after its arrival (median)"],
        ),
    ],
)
def test_an_example_prints_the_answer_to_its_question(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    example: str,
    lines: list[str],
) -> None:
    lost = transfer(6, "log", deliveries=0, delivered_mono=None, accepted_mono=1)
    to_recorder = lost | {"mid": 8, "registered": False}
    to_process = transfer(7, "display", handed_on=True)
    journal = {"machine": "host", "boot": "b", "died": False, "last_mono": 10**9}
    folder = results(
        tmp_path,
        transfers=[
            transfer(1, "display"),
            transfer(3, "display"),
            transfer(5, "log"),
            lost,
            to_process,
            to_recorder,
        ],
        journals=[
            journal | {"journal": 1, "name": "field"},
            journal
            | {"journal": 2, "name": "plant", "died": True, "last_mono": 4 * 10**6},
        ],
    )
    folder.about.write_text("{}")
    monkeypatch.setattr(sys, "argv", [example, str(tmp_path)])

    runpy.run_path(str(_EXAMPLES / f"{example}.py"), run_name="__main__")

    assert capsys.readouterr().out.splitlines() == lines
