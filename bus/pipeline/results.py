"""The results of a run beside the tables, for people and programs, and their readers.

`verdicts.json` and `violations.jsonl` are those of `bus.journal.results`. The readers
of tables here take Parquet files directly, without Spark, for tables known to be small
or a few rows of others.
"""

from __future__ import annotations

import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyarrow import Table, parquet  # type: ignore[import-untyped] # pyarrow ships no types

from bus.journal import results
from bus.journal.results import FIRST_PER_RULE, Result, first_of_each
from bus.journal.rules import RuleVerdict, Verdict
from bus.journal.violation import Violation
from bus.pipeline.schemas import unsigned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bus.pipeline.folder import OutFolder

__all__ = [
    "OTHERS",
    "ROUTE",
    "drawn_violations",
    "first_violations",
    "read_result",
    "read_routes",
    "read_rows",
    "read_verdicts",
    "span",
    "write_results",
]

# A journal that is broken throughout must not be written out a second time.
LINES_PER_RULE_MAX: Final = 100_000
SCENES_PER_RULE: Final = 2
SCENES_MAX: Final = 6
OTHERS: Final = "(others)"
ROUTE: Final = ("source", "target", "via")

_IDENTIFIERS: Final = ("journal", "flow", "origin")
_NAMES: Final = ("sender", "receiver", "sort")


def write_results(
    folder: OutFolder,
    verdicts: tuple[RuleVerdict, ...],
    problems: Iterable[str],
) -> Result:
    """Write verdicts and violations, for programs and as a table.

    The table of violations must exist; the first `LINES_PER_RULE_MAX` of each rule are
    listed.
    """
    violations = sum(each.violated + each.unknown for each in verdicts)
    first = tuple(first_violations(folder, FIRST_PER_RULE))
    result = Result(verdicts, violations, first, tuple(problems))
    folder.table("verdicts").mkdir()
    table = folder.table("verdicts") / "part-00000.parquet"
    rows = [attrs.asdict(each) for each in verdicts]
    parquet.write_table(Table.from_pylist(rows), table)
    results.write(
        result,
        first_violations(folder, LINES_PER_RULE_MAX),
        read_rows(folder, "journals"),
        verdicts_path=folder.verdicts,
        violations_path=folder.violations,
    )
    return result


def read_result(folder: OutFolder) -> Result:
    """Return the result that `write_results` wrote.

    Raises:
        OSError, ValueError, KeyError: the files are missing, or other ones.
    """
    fields = read_verdicts(folder)
    verdicts = (
        RuleVerdict(**each | {"verdict": Verdict(each["verdict"])})
        for each in fields["verdicts"]
    )
    first = tuple(first_violations(folder, FIRST_PER_RULE))
    return Result(
        tuple(verdicts), fields["violations"], first, tuple(fields["problems"])
    )


def read_verdicts(folder: OutFolder) -> dict[str, Any]:
    """Return the content of `verdicts.json`, as written by `write_results`."""
    fields: dict[str, Any] = json.loads(folder.verdicts.read_text(encoding="utf-8"))
    return fields


def read_rows(
    folder: OutFolder, table: str, columns: list[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, one by one, in the order of its files."""
    for path in sorted(folder.table(table).glob("*.parquet")):
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=columns):
                yield from batch.to_pylist()


def first_violations(folder: OutFolder, per_rule: int) -> Iterator[Violation]:
    """Return the first ``per_rule`` violations of each rule, in the order of rules."""
    rows = read_rows(folder, "violations")
    return map(_violation, first_of_each(per_rule, rows, itemgetter("rule")))


def drawn_violations(folder: OutFolder) -> list[Violation]:
    """Return the violations to draw: for each rule the first ones of messages.

    Those that are certain come first.
    """
    of_messages = (one for one in first_violations(folder, SCENES_PER_RULE) if one.seq)
    certain_first = sorted(of_messages, key=lambda one: one.verdict is not Verdict.FAIL)
    return certain_first[:SCENES_MAX]


def read_routes(folder: OutFolder) -> list[dict[str, Any]]:
    """Return the routes with their figures, the busiest first, `(others)` last.

    To the columns of the table `routes` come ``rate``, messages sent a second of the
    recording, and ``p50`` and ``p99``, from send to receive in nanoseconds; each is
    None if unknown.
    """
    start_us, end_us = span(read_rows(folder, "journals"))
    seconds = (end_us - start_us) / 1e6
    latencies = {
        tuple(row[name] for name in ROUTE): row
        for row in read_rows(folder, "latency")
        if row["source"] is not None
    }
    found = []
    for row in read_rows(folder, "routes"):
        latency = latencies.get(tuple(row[name] for name in ROUTE), {})
        rate = row["messages_sent"] / seconds if seconds else None
        times = {name: latency.get(name) for name in ("p50", "p99")}
        found.append(row | {"rate": rate} | times)
    return sorted(
        found,
        key=lambda row: (
            row["source"] == OTHERS,
            -row["messages_sent"],
            *(row[name] for name in ROUTE),
        ),
    )


def span(journals: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """Return the times of the first and the last record, 0 if there are none."""
    ends = [
        (row["first_wall_us"], row["last_wall_us"])
        for row in journals
        if row["records"]
    ]
    return (min(ends)[0], max(end for _, end in ends)) if ends else (0, 0)


def _violation(row: dict[str, Any]) -> Violation:
    numbers = {
        name: unsigned(row[name]) for name in _IDENTIFIERS if row[name] is not None
    }
    names = {name: row[name] or "" for name in _NAMES}
    return Violation(**row | numbers | names | {"verdict": Verdict(row["verdict"])})
