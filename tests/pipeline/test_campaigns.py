"""Programs around a query of Spark, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bus.pipeline.session import missing

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.spark


def run(*arguments: str) -> str:
    if lack := missing(drawing=False):
        pytest.skip(f"Spark cannot run here: {lack}")
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_an_alarm_of_spark_is_delivered_on_the_bus() -> None:
    assert run("examples/spark/alarm.py").splitlines() == [
        "alarm/north: 32.0 degrees from second 2",
        "published 1 message, 0 without a subscriber",
    ]


def test_killed_programs_around_a_query_lose_and_repeat_nothing() -> None:
    printed = run("-m", "tests.spark_kills", "--count", "3", "--seed", "1")

    assert " batches, each once; " in printed
