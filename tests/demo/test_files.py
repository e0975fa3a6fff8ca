"""The list of files: which entries count as files, and the error if there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.demo.files import list_files
from bus.errors import DemoError


def test_lists_regular_files_below_a_folder_sorted(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("z.txt", "b/a.bin", "a.py"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "link").symlink_to(tmp_path / "z.txt")

    files = list_files(tmp_path)

    assert files.paths == ("a.py", "b/a.bin", "z.txt")
    assert files.read(1) == b"b/a.bin"
    assert files.problems == ()


def test_passes_over_a_folder_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("out/b", "deep/out/c", "a"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to(tmp_path / "deep")
    monkeypatch.chdir(tmp_path)

    def listed(root: str, without: str) -> tuple[str, ...]:
        return list_files(Path(root), without=Path(without)).paths

    assert listed(".", "out") == ("a", "deep/out/c")
    assert listed(".", str(tmp_path / "out")) == ("a", "deep/out/c")
    assert listed(".", "link/out") == ("a", "out/b")
    assert listed("link", "deep/other") == ("out/c",)
    assert listed("out", "deep") == ("b",)


@pytest.mark.parametrize("root", ["out", "out/below", "link"])
def test_the_excluded_folder_and_its_subfolders_cannot_be_listed(
    tmp_path: Path, root: str
) -> None:
    out = tmp_path / "out"
    (out / "below").mkdir(parents=True)
    (out / "below" / "file").touch()
    (tmp_path / "link").symlink_to(out)

    with pytest.raises(DemoError, match="where the results go; name another"):
        list_files(tmp_path / root, without=out)


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
        (lambda path: path.mkdir(), "contains no file"),
    ],
)
def test_an_unusable_folder_is_reported_in_one_line(
    tmp_path: Path, make: object, text: str
) -> None:
    folder = tmp_path / "folder"
    assert callable(make)
    make(folder)

    with pytest.raises(DemoError, match=text) as caught:
        list_files(folder)

    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
