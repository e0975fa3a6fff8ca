"""Crash states of the horizons: a few thousand in each test run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from specs.clauses import clause
from tests.crash_states.__main__ import main
from tests.crash_states.campaign import campaign
from tests.crash_states.disk import (
    DirectoryCreation,
    Disk,
    EntryChange,
    Truncation,
    Write,
)
from tests.depth import among
from tests.mutants.catalogue import load_faults
from tests.mutants.library import plant

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = among(300, 10_000)
ROOT: Final = Path(__file__).parents[2]
# Each of these deletes one sync, or one of the calls that make it.
SYNCS: Final = ("D1", "D2", "D3", "D4", "D5", "D6")


@pytest.mark.deep
@clause("AMO-17", "AMO-20")
@pytest.mark.parametrize("seed", range(3))
def test_no_crash_lets_a_message_be_delivered_again(seed: int) -> None:
    print(f"seed {seed}")
    assert campaign(COUNT, seed) >= COUNT


def test_the_command_prints_the_number_of_states(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--count", "100", "--seed", "7"]) == 0

    seed, checked = capsys.readouterr().out.splitlines()
    assert seed == "seed 7"
    assert checked.endswith(" s: no violation")
    assert int(checked.split()[0]) >= 100


# No clause: these are tests of the campaign, and a fault is planted already.


@pytest.mark.deep
@pytest.mark.parametrize("number", SYNCS)
def test_a_deleted_sync_is_found_by_crash_states_alone(
    tmp_path: Path, number: str
) -> None:
    """The page cache outlives a killed process, so no test that kills can find it."""
    [fault] = [each for each in load_faults() if each.id == number]
    plant(fault.trees(), tmp_path)

    done = subprocess.run(
        [sys.executable, "-m", "tests.crash_states", "--count", "2000", "--seed", "1"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT))),
            "PYTHONSAFEPATH": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "violation: " in done.stdout


# The disk.


def contents_of(disk: Disk, name: str = "file") -> bytes | None:
    number = disk.names.get(name)
    return None if number is None else disk.files[number]


def contents(states: Iterator[Disk]) -> set[bytes | None]:
    return {contents_of(state) for state in states}


def unsynced_file() -> Disk:
    """Return a disk on which the creation of a file and two writes are pending."""
    disk = Disk(exists=True)
    disk.pending = [EntryChange((("file", 1),)), Write(1, 0, b"ab"), Write(1, 2, b"c")]
    return disk


def test_a_crash_may_lose_any_pending_operations() -> None:
    assert contents(unsynced_file().subsets()) == {None, b"", b"ab", b"\0\0c", b"abc"}


def test_a_synced_file_may_have_no_name() -> None:
    disk = unsynced_file()
    disk.sync_file(1)

    assert contents(disk.subsets()) == {None, b"abc"}


def test_a_synced_name_may_lead_to_no_contents() -> None:
    disk = unsynced_file()
    disk.sync_names()

    assert contents(disk.subsets()) == {b"", b"ab", b"\0\0c", b"abc"}


def test_a_crash_loses_a_directory_whose_entry_is_pending() -> None:
    disk = Disk(
        pending=[DirectoryCreation(), EntryChange((("file", 1),)), Write(1, 0, b"ab")]
    )
    disk.sync_file(1)
    disk.sync_names()
    assert contents(disk.subsets()) == {None, b"ab"}

    disk.sync_parent()

    assert contents(disk.subsets()) == {b"ab"}


def test_a_crash_may_undo_a_renaming() -> None:
    disk = Disk({1: b"old", 2: b"new"}, {"file": 1, "next": 2}, exists=True)
    disk.pending = [EntryChange((("next", None), ("file", 2)))]

    assert contents(disk.subsets()) == {b"old", b"new"}


def test_a_crash_may_undo_a_truncation() -> None:
    disk = Disk({1: b"old"}, {"file": 1}, exists=True)
    disk.pending = [Truncation(1), Write(1, 0, b"n")]

    assert contents(disk.subsets()) == {b"old", b"nld", b"", b"n"}


def test_a_torn_write_leaves_any_part_of_it() -> None:
    disk = Disk({1: b""}, {"file": 1}, exists=True)
    disk.pending = [Write(1, 0, b"abc")]
    draw = random.Random(1)

    seen = {contents_of(disk.with_torn_writes(draw)) for _ in range(500)}

    assert {b"", b"a", b"a\0\0", b"\0\0c", b"a\0c", b"abc"} <= seen


def test_writes_of_the_same_bytes_may_arrive_in_either_order() -> None:
    disk = Disk({1: b""}, {"file": 1}, exists=True)
    disk.pending = [Write(1, 0, b"one"), Write(1, 0, b"two")]
    draw = random.Random(1)

    seen = {contents_of(disk.with_torn_writes(draw)) for _ in range(500)}

    assert {b"one", b"two"} <= seen


def test_one_bit_of_a_file_is_flipped() -> None:
    disk = Disk({1: b"\0" * 4}, {"file": 1}, exists=True)

    data = contents_of(disk.with_flipped_bit("file", random.Random(1)))

    assert data is not None
    assert int.from_bytes(data).bit_count() == 1
