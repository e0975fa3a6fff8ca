"""The library as the mutants change it: its files, the syntax trees, planted copies."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import bus
from tests.mutants.edit import MutantError, definitions

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "LIBRARY",
    "PACKAGES",
    "ROOT",
    "file_of",
    "module_of",
    "plant",
    "source",
]

ROOT: Final = Path(__file__).parents[2]  # of the tests
LIBRARY: Final = Path(str(bus.__file__)).parents[1]  # of the packages
PACKAGES: Final = ("queuebroker", "bus")  # the packages in which mutants are planted


@functools.cache
def _files() -> tuple[str, ...]:
    return tuple(
        str(path.relative_to(LIBRARY))
        for package in PACKAGES
        for path in sorted((LIBRARY / package).rglob("*.py"))
    )


@functools.cache
def source(file: str) -> str:
    """Return the text of a file, by its path from the folder of the packages."""
    return (LIBRARY / file).read_text(encoding="utf-8")


def module_of(file: str) -> str:
    """Return the name of the module in a file."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@functools.cache
def file_of(address: str) -> tuple[str, str]:
    """Return the file of an address, and the qualified name in it.

    address: ``Class.method`` if only one module defines that; else with the module in
      front, ``package.module:Class.method``. The name may be empty then.

    Raises:
        MutantError: no module defines it, or several do.
    """
    module, colon, name = address.rpartition(":")
    if colon:
        found = [file for file in _files() if module_of(file) == module]
    else:
        found = [file for file in _files() if _defines(file, name)]
    if len(found) != 1:
        msg = f"{len(found)} modules define {address}: {', '.join(found) or 'none'}"
        raise MutantError(msg)
    return found[0], name


def _defines(file: str, name: str) -> bool:
    return _names(file).issuperset(name.split(".")) and any(
        name == each for each, _ in definitions(_tree(file))
    )


@functools.cache
def _names(file: str) -> frozenset[str]:
    return frozenset(re.findall(r"\b(?:def|class) (\w+)", source(file)))


@functools.cache
def _tree(file: str) -> ast.Module:
    return ast.parse(source(file))


def plant(trees: Mapping[str, ast.Module], folder: Path) -> None:
    """Make a copy of the packages with these modules changed.

    The copy consists of links, except for the changed modules and the folders above
    them. Compiled files are linked as well: a program that starts must not compile
    hundreds of modules.
    """
    changed = {folder / file for file in trees}
    real = {above for each in changed for above in each.parents}
    waiting = [folder / package for package in PACKAGES]
    while waiting:
        path = waiting.pop()
        original = LIBRARY / path.relative_to(folder)
        if path not in real and path.name != "__pycache__":
            path.symlink_to(original)
            continue
        path.mkdir()
        below = [path / each.name for each in original.iterdir()]
        if path.name != "__pycache__":
            waiting += [each for each in below if each not in changed]
            continue
        stale = {each.stem for each in changed if each.parent == path.parent}
        for each in below:
            if each.name.partition(".")[0] not in stale:
                each.symlink_to(original / each.name)
    for file, tree in trees.items():
        (folder / file).write_text(ast.unparse(tree), encoding="utf-8")
