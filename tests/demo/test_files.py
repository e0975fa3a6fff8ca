"""The list of files: what counts as one, and what is said where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.demo.files import list_files
from bus.errors import DemoError

if TYPE_CHECKING:
    from pathlib import Path


def test_lists_regular_files_below_a_folder_sorted(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("z.txt", "b/a.bin", "a.py"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "link").symlink_to(tmp_path / "z.txt")

    files = list_files(tmp_path)

    assert files.paths == ("a.py", "b/a.bin", "z.txt")
    assert files.read(1) == b"b/a.bin"
    assert files.problems == ()


def test_default_is_the_standard_library_without_site_packages() -> None:
    files = list_files(None)

    assert "queue.py" in files.paths
    assert all(path.endswith(".py") for path in files.paths)
    assert not [path for path in files.paths if "site-packages" in path]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.write_text("x"), "is not a folder"),
        (lambda path: path.mkdir(), "no file in"),
    ],
)
def test_says_in_one_line_what_is_wrong_with_a_folder(
    tmp_path: Path, make: object, text: str
) -> None:
    folder = tmp_path / "folder"
    assert callable(make)
    make(folder)

    with pytest.raises(DemoError, match=text) as caught:
        list_files(folder)

    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
