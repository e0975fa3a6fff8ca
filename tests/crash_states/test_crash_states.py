"""Crash states of the horizons: a few thousand in every run."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause
from tests.crash_states.__main__ import main
from tests.crash_states.campaign import campaign
from tests.crash_states.disk import Disk, Made, Named, Truncated, Written
from tests.depth import DEEP

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 10_000 if DEEP else 2_000


@clause("AMO-17", "AMO-20")
@pytest.mark.parametrize("seed", range(3))
def test_no_crash_lets_a_message_be_delivered_again(seed: int) -> None:
    print(f"seed {seed}")
    assert campaign(COUNT, seed) >= COUNT


def test_the_command_prints_what_it_has_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--count", "100", "--seed", "7"]) == 0

    seed, checked = capsys.readouterr().out.splitlines()
    assert seed == "seed 7"
    assert checked.endswith(" s: no violation")
    assert int(checked.split()[0]) >= 100


# The disk.


def named(disk: Disk, name: str = "file") -> bytes | None:
    number = disk.names.get(name)
    return None if number is None else disk.files[number]


def contents(states: Iterator[Disk]) -> set[bytes | None]:
    return {named(state) for state in states}


def written() -> Disk:
    disk = Disk(exists=True)
    disk.pending = [Named((("file", 1),)), Written(1, 0, b"ab"), Written(1, 2, b"c")]
    return disk


def test_any_part_of_what_is_not_synced_may_be_lost() -> None:
    assert contents(written().subsets()) == {None, b"", b"ab", b"\0\0c", b"abc"}


def test_a_synced_file_may_have_no_name() -> None:
    disk = written()
    disk.sync_file(1)

    assert contents(disk.subsets()) == {None, b"abc"}


def test_a_synced_name_may_lead_to_no_contents() -> None:
    disk = written()
    disk.sync_names()

    assert contents(disk.subsets()) == {b"", b"ab", b"\0\0c", b"abc"}


def test_without_its_entry_nothing_of_a_directory_is_left() -> None:
    disk = Disk(pending=[Made(), Named((("file", 1),)), Written(1, 0, b"ab")])
    disk.sync_file(1)
    disk.sync_names()
    assert contents(disk.subsets()) == {None, b"ab"}

    disk.sync_parent()

    assert contents(disk.subsets()) == {b"ab"}


def test_a_renamed_file_replaces_the_other_or_not() -> None:
    disk = Disk({1: b"old", 2: b"new"}, {"file": 1, "next": 2}, exists=True)
    disk.pending = [Named((("next", None), ("file", 2)))]

    assert contents(disk.subsets()) == {b"old", b"new"}


def test_a_truncation_may_be_lost() -> None:
    disk = Disk({1: b"old"}, {"file": 1}, exists=True)
    disk.pending = [Truncated(1), Written(1, 0, b"n")]

    assert contents(disk.subsets()) == {b"old", b"nld", b"", b"n"}


def test_a_torn_write_leaves_any_part_of_it() -> None:
    disk = Disk({1: b""}, {"file": 1}, exists=True)
    disk.pending = [Written(1, 0, b"abc")]
    draw = random.Random(1)

    seen = {named(disk.torn(draw)) for _ in range(500)}

    assert {b"", b"a", b"a\0\0", b"\0\0c", b"a\0c", b"abc"} <= seen


def test_writes_of_the_same_bytes_may_arrive_in_either_order() -> None:
    disk = Disk({1: b""}, {"file": 1}, exists=True)
    disk.pending = [Written(1, 0, b"one"), Written(1, 0, b"two")]
    draw = random.Random(1)

    seen = {named(disk.torn(draw)) for _ in range(500)}

    assert {b"one", b"two"} <= seen


def test_one_bit_of_a_file_is_flipped() -> None:
    disk = Disk({1: b"\0" * 4}, {"file": 1}, exists=True)

    data = named(disk.flipped("file", random.Random(1)))

    assert data is not None
    assert int.from_bytes(data).bit_count() == 1
