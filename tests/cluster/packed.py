"""The packages as a zip for `--py-files`, and a Python of workers without them."""

from __future__ import annotations

import importlib.util
import sys
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SENT", "bare_python", "send"]

SENT: Final = ("bus", "queuebroker", "attr", "attrs")  # attrs is both


def send(path: Path) -> Path:
    """Write a zip of the packages that Spark sends to the workers; return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in SENT:
            folder = _folder(name)
            for file in sorted(folder.rglob("*")):
                if file.is_file() and file.suffix != ".pyc":
                    archive.write(file, file.relative_to(folder.parent))
    return path


def bare_python(folder: Path, packages: Sequence[str]) -> Path:
    """Make an environment with some packages of this one alone; return its Python."""
    venv.create(folder, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    target = folder / "lib" / version / "site-packages"
    for name in packages:
        source = _folder(name)
        # The shared libraries of a package may lie beside it.
        for each in (source, source.with_name(f"{name}.libs")):
            if each.exists():
                (target / each.name).symlink_to(each)
    return folder / "bin" / "python"


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
