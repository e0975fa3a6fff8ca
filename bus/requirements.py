"""Whether the packages that this one needs are installed in fitting versions.

The metadata of the distribution is the only list of versions. Without metadata, as in a
zip file that was sent to a cluster, every version passes.
"""

from __future__ import annotations

import importlib.metadata
import re
from typing import Final

import attrs

__all__ = ["Requirement", "explain", "requirements", "unfit", "version_of_us"]

DISTRIBUTION: Final = "queuebroker"

_LINE: Final = re.compile(
    r"(?P<name>[\w.-]+)(?P<extras>\[.*?\])?\s*\(?(?P<needed>[^;()]*)\)?\s*"
    r"(?:;(?P<marker>.*))?"
)
_CLAUSE: Final = re.compile(r"(>=|<=|==|!=|~=|>|<)\s*([\w.*+!-]+)")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")


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
        """Whether a fitting version is installed."""
        return self.found is not None and all(
            _holds(self.found, operator, bound)
            for operator, bound in _CLAUSE.findall(self.needed)
        )

    @property
    def remedy(self) -> str:
        """The command that installs a fitting version."""
        if self.extra:
            return f'pip install "{DISTRIBUTION}[{self.extra}]"'
        return f'pip install "{self.name}{self.needed}"'

    def __str__(self) -> str:
        """Return the versions found and needed."""
        found = "none" if self.found is None else self.found
        return f"{self.name} {found} found, {self.needed or 'any version'} needed"


def requirements(*extras: str) -> list[Requirement]:
    """Return the packages that every bus needs, then those of some extras."""
    try:
        lines = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    found = []
    for line in lines:
        parts = _LINE.fullmatch(line.strip())
        if parts is None or parts["name"] == DISTRIBUTION:
            continue
        extra = _EXTRA.search(parts["marker"] or "")
        asked = extra[1] if extra else ""
        if asked in ("", *extras):
            # The lower bound first; setuptools sorts them the other way.
            clauses = parts["needed"].replace(" ", "").split(",")
            needed = ",".join(sorted(clauses, reverse=True))
            found.append(
                Requirement(parts["name"], needed, _found(parts["name"]), asked)
            )
    return found


def unfit(*extras: str) -> list[Requirement]:
    """Return those that are installed in an unfit version."""
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


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers at the start of a version; the rest is not compared."""
    start = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(each) for each in start[0].split(".")] if start else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _holds(version: str, operator: str, bound: str) -> bool:
    have, want = _numbers(version), _numbers(bound)
    match operator:
        case ">=":
            return have >= want
        case "<=":
            return have <= want
        case ">":
            return have > want
        case "<":
            return have < want
        case "~=":
            fixed = bound.split(".")[:-1]
            return have >= want and version.split(".")[: len(fixed)] == fixed
    if bound.endswith(".*"):
        fixed = bound.split(".")[:-1]
        is_equal = version.split(".")[: len(fixed)] == fixed
    else:
        is_equal = have == want
    return is_equal is (operator == "==")
