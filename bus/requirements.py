"""Checks that the packages this one needs are installed in fitting versions.

The metadata of the distribution is the only list of versions. Without metadata, as in a
zip file that was sent to a cluster, every version passes.
"""

from __future__ import annotations

import importlib.metadata
from typing import Final

import attrs
from packaging.requirements import Requirement as Line
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

__all__ = [
    "Requirement",
    "explain",
    "install",
    "requirements",
    "unfit",
    "version_of_us",
]

DISTRIBUTION: Final = "queuebroker"


@attrs.frozen
class Requirement:
    """One package.

    needed: as in the metadata, such as ``>=2.2,<3``; "" for any version.
    found: the installed version, None if none is.
    extra: the extra that needs it, "" if every bus does.
    """

    name: str
    needed: str
    found: str | None
    extra: str = ""

    @property
    def fits(self) -> bool:
        """True if a fitting version is installed; a version without an order fits."""
        if self.found is None:
            return False
        try:
            version = Version(self.found)
        except InvalidVersion:
            return True
        return SpecifierSet(self.needed).contains(version, prereleases=True)

    @property
    def remedy(self) -> str:
        """The command that installs a fitting version."""
        if self.extra:
            return install(self.extra)
        return f'pip install "{self.name}{self.needed}"'

    def __str__(self) -> str:
        """Return the versions found and needed."""
        found = "none" if self.found is None else self.found
        return f"{self.name} {found} found, {self.needed or 'any version'} needed"


def install(extra: str) -> str:
    """Return the command that installs an extra; no package index has this one yet."""
    return f'pip install ".[{extra}]" in a clone of {DISTRIBUTION}'


def requirements(*extras: str) -> list[Requirement]:
    """Return the packages that every bus needs, then those of some extras."""
    try:
        lines = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [
        # The lower bound first; the metadata are in no order.
        Requirement(
            line.name,
            ",".join(sorted(map(str, line.specifier), reverse=True)),
            _found(line.name),
            extra,
        )
        for line in map(Line, lines)
        if line.name != DISTRIBUTION and (extra := _extra_of(line, extras)) is not None
    ]


def unfit(*extras: str) -> list[Requirement]:
    """Return the packages that are installed in an unfit version."""
    return [each for each in requirements(*extras) if each.found and not each.fits]


def explain(error: Exception) -> None:
    """Raise ImportError if an unfit package version made an import fail.

    error: the exception that the import of a module of this package raised.
    """
    if found := unfit():
        lines = "; ".join(f"{each}: {each.remedy}" for each in found)
        raise ImportError(lines) from error


def version_of_us() -> str | None:
    """Return the version of the distribution, None without metadata."""
    return _found(DISTRIBUTION)


def _found(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _extra_of(line: Line, extras: tuple[str, ...]) -> str | None:
    """Return the extra that needs a package, "" for every bus, None for another."""
    for extra in ("", *extras):
        if line.marker is None or line.marker.evaluate({"extra": extra}):
            return extra
    return None
