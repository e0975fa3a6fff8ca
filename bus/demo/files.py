"""The files to read: a list made once, which every pass and the serial run use."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from bus.errors import DemoError
from bus.journal.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FileList", "list_files"]

_APART = frozenset({"site-packages", "dist-packages", "__pycache__"})


@attrs.frozen(slots=True)
class FileList:
    """Files of one folder, by their path relative to it, sorted.

    title: their number and place, for people.
    problems: a line for each folder that could not be read.
    """

    root: Path
    title: str
    paths: tuple[str, ...]
    problems: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, index: int) -> bytes:
        """Return the content of one file.

        Raises:
            OSError: it no longer exists or cannot be read.
        """
        return (self.root / self.paths[index]).read_bytes()


def list_files(folder: Path | None, *, without: Path | None = None) -> FileList:
    """List the files below a folder, by default Python's own standard library.

    Only regular files count; links are not followed.

    without: a folder that is skipped if it is below the other: the results of an
      earlier run, which are removed while this one reads.

    Raises:
        DemoError: it is no folder, cannot be read, has no file, or is, or is in, the
          folder to skip.
    """
    if folder is None:
        root = Path(sysconfig.get_paths()["stdlib"])
        what, whose = ".py file", "Python's standard library"
    else:
        root, what, whose = folder, "file", str(folder)
        if not root.is_dir():
            lack = "is not a folder" if root.exists() else "does not exist"
            msg = f"cannot index {folder}: it {lack}"
            raise DemoError(msg)
    apart = None if without is None else _place_below(root, without)
    problems: list[str] = []
    paths = sorted(_walk(root, apart, problems, python_only=folder is None))
    if not paths:
        reason = f": {problems[0]}" if problems else ""
        msg = f"cannot index {root}: it contains no file{reason}"
        raise DemoError(msg)
    title = f"{counted(len(paths), what)} of {whose}"
    return FileList(root, title, tuple(paths), tuple(problems))


def _place_below(root: Path, without: Path) -> Path | None:
    """Return the place where a walk from a root meets a folder; None if it does not.

    Raises:
        DemoError: the root is in that folder.
    """
    top, apart = (Path(os.path.realpath(path)) for path in (root, without))
    if top.is_relative_to(apart):
        raise DemoError(
            f"cannot index {root}: it is, or is in, {without}, where the results"
            " go; name another with --out"
        )
    return root / apart.relative_to(top) if apart.is_relative_to(top) else None


def _walk(
    root: Path, apart: Path | None, problems: list[str], *, python_only: bool
) -> Iterator[str]:
    def unreadable(error: OSError) -> None:
        problems.append(f"cannot read folder {error.filename}: {error.strerror}")

    for folder, folders, names in os.walk(root, onerror=unreadable):
        if python_only:
            folders[:] = [name for name in folders if name not in _APART]
        if apart is not None and apart.parent == Path(folder):
            folders[:] = [name for name in folders if name != apart.name]
        for name in names:
            path = Path(folder, name)
            if python_only and path.suffix != ".py":
                continue
            if path.is_file() and not path.is_symlink():
                yield str(path.relative_to(root))
