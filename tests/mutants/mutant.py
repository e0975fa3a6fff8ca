"""A `Mutant`: one fault, its place in the library, and the clauses that must notice."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs

import bus
import queuebroker

__all__ = ["Edit", "Mutant", "MutantError", "plant"]

# The packages in which mutants are planted.
PACKAGES = tuple(Path(str(each.__file__)).parent for each in (queuebroker, bus))


class MutantError(Exception):
    """A mutant does not apply: an error of the catalogue, not a catch."""


@attrs.frozen
class Edit:
    """A change of consecutive lines in one file.

    The lines are found by their content, without the surrounding whitespace; so a
    change of indentation does not matter, and an added line is indented like the lines
    it replaces.

    file: its path, relative to the folder of the packages.
    lines: pairs of a sign and a line: ``-`` removes it, ``+`` adds it, and ``=`` keeps
      it, as context to find the others.
    """

    file: str
    lines: tuple[tuple[str, str], ...]

    def apply(self, text: str) -> str:
        """Return the changed text of the file.

        Raises:
            MutantError: it does not have these lines, or has them twice; or the result
              is not Python.
        """
        old = [line for sign, line in self.lines if sign != "+"]
        lines = text.splitlines()
        stripped = [line.strip() for line in lines]
        wanted = [line.strip() for line in old]
        last = len(lines) - len(wanted) + 1
        places = [at for at in range(last) if stripped[at : at + len(wanted)] == wanted]
        if len(places) != 1:
            msg = f"{self.file} has {len(places)} of these lines: {wanted}"
            raise MutantError(msg)
        [at] = places
        shift = _indent(lines[at]) - _indent(old[0])
        changed = lines[:at]
        for sign, line in self.lines:
            if sign == "+":
                changed.append(" " * (_indent(line) + shift) + line.lstrip())
                continue
            if sign == "=":
                changed.append(lines[at])
            at += 1
        result = "\n".join([*(each.rstrip() for each in changed), *lines[at:], ""])
        try:
            compile(result, self.file, "exec")
        except SyntaxError as error:
            raise MutantError(f"{self.file}: {error}") from None
        return result


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


@attrs.frozen
class Mutant:
    """One fault.

    id: M1 to M24 are faults seen elsewhere; others are ours.
    title: the wrong behaviour of the library.
    clauses: those whose tests must catch it; each of them alone (``--by-clause``).
    edits: the changes to the library; empty if it cannot be expressed there.
    implementation: FILE:factory of a small implementation that has it instead.
    locked: True if only the locked kind of end has it: that kind is tested.
    """

    id: str
    title: str
    clauses: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    implementation: str = ""
    locked: bool = False


def plant(mutant: Mutant, folder: Path) -> None:
    """Copy the packages into a folder, with one mutant.

    Their compiled files go along: a copy keeps the times by which they are known to be
    up to date, and a trial takes half as long.

    Raises:
        MutantError: an edit does not apply.
    """
    for package in PACKAGES:
        target = folder / package.name
        shutil.copytree(package, target)
    for edit in mutant.edits:
        path = folder / edit.file
        if not path.exists():
            raise MutantError(f"there is no {edit.file}")
        path.write_text(edit.apply(path.read_text()))
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
