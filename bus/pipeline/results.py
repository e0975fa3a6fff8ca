"""What a run leaves for people and programs beside the tables, and how to read it.

`verdicts.json` and `violations.jsonl` say 64-bit numbers in hexadecimal text, since
JSON readers make floats of them, and use the words of `bus check`. The readers of
tables here take Parquet files as they lie, without Spark, for tables known to be small
or a few rows of others.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyarrow import Table, parquet  # type: ignore[import-untyped] # pyarrow ships no types

from bus.journal.rules import RULES, RuleVerdict, Verdict, Violation, worst
from bus.pipeline.schemas import hex64, unsigned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from bus.pipeline.folder import OutFolder

__all__ = [
    "Result",
    "drawn_violations",
    "first_violations",
    "read_rows",
    "read_verdicts",
    "write_results",
]

# A journal that is broken from end to end must not be written out a second time.
LINES_PER_RULE_MAX: Final = 100_000
SCENES_PER_RULE: Final = 2
SCENES_MAX: Final = 6

_IDENTIFIERS: Final = ("journal", "flow")
_NAMES: Final = ("sender", "receiver")


@attrs.frozen
class Result:
    """What came out of a run.

    verdict: of all rules together. verdicts: one for each rule.
    violations: how many would-be violations there are, FAIL and UNKNOWN.
    report: the HTML file, None if none was drawn.
    problems: what could not be read, one line each.
    """

    verdict: Verdict
    verdicts: tuple[RuleVerdict, ...]
    violations: int
    report: Path | None
    problems: tuple[str, ...]


def write_results(
    folder: OutFolder,
    verdicts: tuple[RuleVerdict, ...],
    problems: Iterable[str],
) -> Result:
    """Write verdicts and violations down, for programs and as a table.

    The table of violations must be there; the first `LINES_PER_RULE_MAX` of each rule
    are listed, and `listed` says how many that are.
    """
    result = Result(
        worst(each.verdict for each in verdicts),
        verdicts,
        sum(each.violated + each.unknown for each in verdicts),
        None,
        tuple(problems),
    )
    rows = [attrs.asdict(each) for each in verdicts]
    folder.table("verdicts").mkdir()
    table = folder.table("verdicts") / "part-00000.parquet"
    parquet.write_table(Table.from_pylist(rows), table)
    told = {
        "verdict": result.verdict,
        "verdicts": rows,
        "violations": result.violations,
        "listed": _write_violations(folder),
        "journals": [_in_hex(row) for row in read_rows(folder, "journals")],
        "problems": list(result.problems),
    }
    folder.verdicts.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return result


def read_verdicts(folder: OutFolder) -> dict[str, Any]:
    """What `write_results` wrote into `verdicts.json`."""
    told: dict[str, Any] = json.loads(folder.verdicts.read_text(encoding="utf-8"))
    return told


def read_rows(
    folder: OutFolder, table: str, columns: list[str] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a table, one by one, in the order in which they lie in its files."""
    for path in sorted(folder.table(table).glob("*.parquet")):
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=columns):
                yield from batch.to_pylist()


def first_violations(folder: OutFolder, per_rule: int) -> list[Violation]:
    """The first few violations of each rule, in the order of the rules."""
    return [_violation(row) for row in _first(folder, per_rule)]


def drawn_violations(folder: OutFolder) -> list[Violation]:
    """The violations that are drawn: the first ones of messages, of each rule."""
    of_messages = (one for one in first_violations(folder, SCENES_PER_RULE) if one.seq)
    return list(itertools.islice(of_messages, SCENES_MAX))


def _write_violations(folder: OutFolder) -> int:
    listed = 0
    with folder.violations.open("w", encoding="utf-8") as lines:
        for row in _first(folder, LINES_PER_RULE_MAX):
            told = _in_hex(attrs.asdict(_violation(row)))
            lines.write(json.dumps(told) + "\n")
            listed += 1
    return listed


def _first(folder: OutFolder, per_rule: int) -> Iterator[dict[str, Any]]:
    left = dict.fromkeys(RULES, per_rule)
    for row in read_rows(folder, "violations"):
        if left[row["rule"]] > 0:
            left[row["rule"]] -= 1
            yield row


def _violation(row: dict[str, Any]) -> Violation:
    numbers = {
        name: unsigned(row[name]) for name in _IDENTIFIERS if row[name] is not None
    }
    names = {name: row[name] or "" for name in _NAMES}
    return Violation(**row | numbers | names | {"verdict": Verdict(row["verdict"])})


def _in_hex(row: dict[str, Any]) -> dict[str, Any]:
    return row | {
        name: hex64(row[name]) for name in _IDENTIFIERS if row.get(name) is not None
    }
