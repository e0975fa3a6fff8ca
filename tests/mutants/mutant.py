"""A `Mutant`: one fault, where it is planted, and which clauses must notice."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs

import bus
import queuebroker

__all__ = ["Edit", "Mutant", "MutantError", "plant"]

# What is planted in; the first is meant where an edit names none.
PACKAGES = tuple(Path(str(each.__file__)).parent for each in (queuebroker, bus))


class MutantError(Exception):
    """A mutant does not apply: an error of the catalogue, not a catch."""


@attrs.frozen
class Edit:
    """Replace ``old``, which must stand there once, by ``new`` in one file.

    file: within `queuebroker`, or within another package if that stands before it.
    """

    file: str
    old: str
    new: str


@attrs.frozen
class Mutant:
    """One fault.

    id: M1 to M24 are faults seen elsewhere; others are ours.
    clauses: those whose tests must catch it; each of them alone (``--by-clause``).
    edits: where it is planted in the library; empty if it cannot be expressed there.
    implementation: FILE:factory of a small implementation that has it instead.
    locked: whether only the locked kind of end has it: it is tried with that kind.
    """

    id: str
    title: str
    clauses: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    implementation: str = ""
    locked: bool = False


def plant(mutant: Mutant, folder: Path) -> None:
    """Copy the packages into a folder, with one mutant.

    Raises:
        MutantError: an edit does not apply, or leaves what is no Python.
    """
    for package in PACKAGES:
        target = folder / package.name
        shutil.copytree(package, target, ignore=shutil.ignore_patterns("__pycache__"))
    for edit in mutant.edits:
        first, _, _ = edit.file.partition("/")
        named = any(first == package.name for package in PACKAGES)
        path = folder / ("" if named else PACKAGES[0].name) / edit.file
        text = path.read_text()
        if text.count(edit.old) != 1:
            msg = f"{edit.file} has {text.count(edit.old)} of: {edit.old!r}"
            raise MutantError(msg)
        changed = text.replace(edit.old, edit.new)
        try:
            compile(changed, str(path), "exec")
        except SyntaxError as error:
            raise MutantError(f"{edit.file}: {error}") from None
        path.write_text(changed)
