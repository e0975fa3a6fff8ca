"""The id of a machine: stable, and without the content of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.process import socket_network as module
from bus.process.socket_network import machine_id
from specs.clauses import clause

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Give the places at which the id is looked for; there are no files yet."""
    paths = [tmp_path / "machine-id", tmp_path / "boot_id"]
    monkeypatch.setattr(module, "_FILES", tuple(map(str, paths)))
    return paths


@clause("BUS-DISC-8", "BUS-SEC-6")
@pytest.mark.parametrize("which", [0, 1])
def test_the_id_is_a_hash_of_the_first_file_that_has_content(
    files: list[Path], which: int
) -> None:
    files[0].write_text("\n")  # as in the image of a system that never started
    files[1].write_text("0\n")
    other = machine_id()
    files[which].write_text(f"{CONTENT}\n")

    own = machine_id()

    assert own == machine_id() != other
    assert len(own) == 32
    assert CONTENT not in own
    files[which].write_text(CONTENT)  # without the end of line
    assert machine_id() == own


@clause("BUS-DISC-8")
def test_without_any_file_the_host_name_distinguishes_machines(
    files: list[Path],
) -> None:
    assert not any(each.exists() for each in files)
    assert len(machine_id()) == 32
