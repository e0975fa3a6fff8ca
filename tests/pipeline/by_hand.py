"""Rows written by hand: as Spark reads them, and as the report reads them.

A column that a test does not set has its most common value: empty, or zero.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pyarrow import Table, parquet  # type: ignore[import-untyped] # it ships no types

from bus.journal.format import RecordKind, kind_name
from bus.journal.rules import RULES, Verdict, worst
from bus.pipeline.folder import OutFolder
from bus.pipeline.schemas import EVENTS, ddl

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["event", "events", "results", "violation"]

Row = dict[str, Any]

_WALL_US: Final = 10**15


def event(kind: RecordKind, *, channel: int = 1, side: int = 0, **columns: Any) -> Row:
    """Return one row of `events`: journal 1, and a microsecond for each record."""
    n = columns.get("n", 0)
    row: Row = dict.fromkeys(column.name for column in EVENTS)
    row |= dict.fromkeys(("flags", "size", "depth", "wait_us", "origin", "hop"), 0)
    row |= {"journal": 1, "code": int(kind), "kind": kind_name(kind)}
    row |= {"channel": channel, "flow": channel << 1 | side, "seq": 0, "port": 5}
    row |= {"n": n, "mono": 1000 * n, "wall_us": _WALL_US + n}
    return row | columns


def events(spark: SparkSession, rows: list[Row]) -> DataFrame:
    """Return rows as the table `events`."""
    ordered = [tuple(row[column.name] for column in EVENTS) for row in rows]
    return spark.createDataFrame(ordered, ddl(EVENTS))


def violation(rule: str, **columns: Any) -> Row:
    """Return one row of the table `violations`: FAIL, on message 3 of record 9."""
    row: Row = {"rule": rule, "verdict": "FAIL", "case": "twice", "explanation": "why"}
    row |= {"flow": 2, "seq": 3, "n": 9, "journal": 1, "mono": 9000, "other_n": 8}
    row |= {"sender": "near", "receiver": "far", "port": 5}
    row |= {"origin": None, "sort": None}
    return row | columns


def results(
    path: Path,
    *,
    verdict: str = "PASS",
    of_rules: Mapping[str, str] = MappingProxyType({}),
    **tables: list[Row],
) -> OutFolder:
    """Write a folder as a run leaves it for the report; unnamed tables are missing.

    of_rules: the verdicts of the rules that differ from ``verdict``.
    """
    folder = OutFolder.claim(path)
    for name, rows in tables.items():
        folder.table(name).mkdir(parents=True)
        parquet.write_table(Table.from_pylist(rows), folder.table(name) / "0.parquet")
    reported = {
        "verdict": worst(map(Verdict, [verdict, *of_rules.values()])).value,
        "verdicts": [
            {
                "rule": rule.id,
                "verdict": of_rules.get(rule.id, verdict),
                "checked": 12345,
                "violated": 0,
                "unknown": 0,
                "why": f"reason of {rule.id}",
            }
            for rule in RULES.values()
        ],
        "violations": len(tables.get("violations", [])),
        "problems": ["cannot read <a file>: it no longer exists"],
    }
    folder.verdicts.write_text(json.dumps(reported))
    return folder
