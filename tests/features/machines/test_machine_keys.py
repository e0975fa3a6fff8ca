"""The keys of one machine: each refusal names its remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.errors import AccessDeniedError
from bus.features.machines.authority import Authority
from bus.features.machines.machine_keys import (
    GROUP_KEY,
    GROUP_KEY_BYTES,
    MACHINE,
    TRUSTED,
    MachineKeys,
)
from tests.kit.systems import needs_users

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a machine."""
    return Authority.create(tmp_path / "authority").issue("kitchen", tmp_path / "keys")


def test_they_hold_the_group_key_of_the_bus(folder: Path) -> None:
    [key] = MachineKeys(folder).group_keys()

    assert len(key) == GROUP_KEY_BYTES
    assert key.hex() == (folder / GROUP_KEY).read_text()


@pytest.mark.parametrize("name", [MACHINE, TRUSTED, GROUP_KEY])
def test_a_missing_file_is_named_with_the_command(folder: Path, name: str) -> None:
    (folder / name).unlink()

    with pytest.raises(
        OSError, match=f"{name}: No such file.*'bus keys issue MACHINE'"
    ):
        MachineKeys(folder)


@needs_users
@pytest.mark.parametrize("name", [MACHINE, GROUP_KEY])
@pytest.mark.parametrize("mode", [0o604, 0o640])
def test_a_key_that_others_may_read_is_not_used(
    folder: Path, name: str, mode: int
) -> None:
    (folder / name).chmod(mode)

    with pytest.raises(AccessDeniedError, match=f"{name} is open.*mode {mode:04o}"):
        MachineKeys(folder)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"00" * 31,
        b"zz" * 32,
        "é".encode() * 32,
        b"00" * 32 + b"\n" + b"00" * 31,
        (b"00" * 32 + b"\n") * 3,
    ],
)
def test_a_group_key_of_another_form_is_refused(folder: Path, text: bytes) -> None:
    (folder / GROUP_KEY).write_bytes(text)

    with pytest.raises(ValueError, match="must hold 64 hexadecimal digits"):
        MachineKeys(folder)
