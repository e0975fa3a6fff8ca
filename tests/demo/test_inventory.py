"""Totals, largest, duplicates, and the comparison of two runs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from bus.demo.files import FileList
from bus.demo.inventory import Inventory, serial_inventory

if TYPE_CHECKING:
    from pathlib import Path


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _inventory(*contents: bytes) -> Inventory:
    found = Inventory()
    for index, content in enumerate(contents):
        found.add(index, len(content), _digest(content))
    return found


def test_counts_files_bytes_duplicates_and_the_largest() -> None:
    found = _inventory(b"aa", b"b", b"aa", b"", b"", b"cccc", b"b")

    assert (found.files, found.bytes) == (7, 10)
    assert found.duplicates() == [[0, 2], [1, 6], [3, 4]]
    assert found.largest(2) == [5, 0]


def test_serial_run_reads_everything_it_can(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    files = FileList(tmp_path, "files", ("a", "gone"))

    found = serial_inventory(files)

    assert found.digests == {0: _digest(b"one")}
    assert found.unread == {1: "No such file or directory"}


def test_equal_runs_compare_equal() -> None:
    assert _inventory(b"a", b"b").compare(_inventory(b"a", b"b")).equal


def test_differing_content_and_missing_files_are_named() -> None:
    comparison = _inventory(b"a", b"x").compare(_inventory(b"a", b"b", b"c"))

    assert not comparison.equal
    assert comparison.differing == (1, 2)


def test_a_file_that_vanished_between_the_runs_is_nobodys_fault() -> None:
    later = _inventory(b"a")
    later.unread[1] = "No such file or directory"

    comparison = _inventory(b"a", b"b").compare(later)

    assert comparison.equal
    assert comparison.vanished == (1,)
