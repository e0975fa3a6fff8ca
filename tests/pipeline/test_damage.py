"""Damaged journals end no run of the pipeline: it judges their valid parts."""

from __future__ import annotations

import re
import shutil
from random import Random
from typing import TYPE_CHECKING

import pytest

from bus.journal.checker import check
from bus.journal.reader import open_journals
from bus.pipeline.run import run_pipeline
from bus.pipeline.share import Share
from tests.journal.damage import CONDITIONS, NUMBERS, damage
from tests.journal.histories import clean, store
from tests.pipeline.batch import Batch
from tests.pipeline.chaos import chaos
from tests.pipeline.reading import facts

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SEEDS = range(60)
HISTORIES = 16


def spoiled(folder: Path, rng: Random) -> bool:
    """Damage a journal a few times; return True if its owner can still be read."""
    for _ in range(rng.choice([1, 1, 2])):
        if any(each.is_file() for each in folder.iterdir()):
            damage(folder, rng)
    try:
        open_journals(folder)
    except Exception:  # noqa: BLE001 - of any kind: the small checker's tests judge that
        return False
    return True


@pytest.mark.deep
@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_journal_becomes_rows_as_far_as_it_can_be_read(
    tmp_path: Path, seed: int
) -> None:
    rng = Random(seed)
    (folder,) = store(clean(seed), tmp_path, slots=16, conditions={0: CONDITIONS[0]})
    if not spoiled(folder, rng):
        return
    journal = open_journals(folder)[0]

    shares = Share.list_all(folder)

    rows = sum(batch.num_rows for share in shares for batch in share.events())
    assert rows == sum(1 for _ in journal.records())
    assert sum(row["records"] for row in facts(folder)) == rows


@pytest.mark.deep
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:24])
def test_no_number_in_the_side_file_is_too_large_for_a_column(
    tmp_path: Path, number: str
) -> None:
    """In the side file's process, clock or name number; the records stay."""
    (folder,) = store(clean(1), tmp_path)
    meta = folder / "meta.jsonl"
    first, second, *others = meta.read_text().splitlines()
    named = re.compile(r'"(?:pid|wall|mono|id)": (\d+)')
    spoiled = [
        line[: found.start(1)] + number + line[found.end(1) :]
        for line in (first, second)
        for found in named.finditer(line)
    ]
    assert len(spoiled) == 4
    (share,) = Share.list_all(tmp_path)
    count = sum(batch.num_rows for batch in share.events())
    for line in spoiled:
        meta.write_text("\n".join([line, second, *others]))

        assert sum(batch.num_rows for batch in share.events()) == count
        assert [row["records"] for row in facts(tmp_path)] == [count]


@pytest.mark.spark
@pytest.mark.deep
def test_a_run_over_damaged_journals_ends_with_verdicts(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = Random(0)
    batch = Batch()
    for seed in range(HISTORIES):
        history = chaos(seed, journals=2) if seed % 2 else clean(seed, journals=2)
        batch.add(history, rng.choice(CONDITIONS))
    for folder in batch.store(tmp_path / "journals"):
        if not spoiled(folder, rng):
            shutil.rmtree(folder)

    result = run_pipeline(tmp_path / "journals", tmp_path / "out", report=False)

    small = check(open_journals(tmp_path / "journals"))
    assert result.verdicts[0] == small.verdicts[0]
    assert set(result.problems) == set(small.problems)
    assert [each.verdict for each in result.verdicts] == [
        each.verdict for each in small.verdicts
    ]
