"""The registry of clauses, and the decorator that ties a test to them.

The pages ``specs/*.md`` are the only definition of a clause; this module reads them
and holds no text of its own. Their form is fixed in ``specs/README.md``: a clause is a
list item or paragraph that begins with its number in bold and ends with its source.
The decorator reads nothing: `load_clauses` alone opens the pages.
"""

from __future__ import annotations

import importlib.resources
import re
from typing import TYPE_CHECKING, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "Clause",
    "clause",
    "index_pages",
    "is_clause_id",
    "load_clauses",
    "natural_key",
    "parse_page",
]

# QB-RDV-3, or a rule of recorded traffic: J1, Q7.
_ID = r"(?:[A-Z]+(?:-[A-Z]+)*-|[A-Z])[1-9][0-9]*"
_WHOLE_ID = re.compile(_ID)
_HEAD = re.compile(rf"(?:[*-] +)?\*\*({_ID})\*\*(?: +\((withdrawn)\))?(?: +|$)")
_SOURCE = re.compile(r"\*Source: (.+)\*$")

Test = TypeVar("Test", bound="Callable[..., object]")


@attrs.frozen
class Clause:
    """One numbered obligation.

    id: its number, such as "QB-RDV-3"; group: the part before the number.
    text: the rule, on one line, in Markdown; source: its origin and reason.
    withdrawn: True if it is no longer in force; its number stays reserved, and no test
      may name it.
    file, line: its position below ``specs/``.
    """

    id: str
    group: str
    text: str
    source: str
    withdrawn: bool
    file: str
    line: int


def clause(*ids: str) -> Callable[[Test], Test]:
    """Tie a test function, test class or benchmark to the clauses it checks.

    Sets ``__clauses__`` on it, a tuple of ids, and nothing else; repeated use adds to
    the tuple. Write the ids as literals: `python -m specs` reads them from the source.

    Raises:
        TypeError: an id is not a `str`.
        ValueError: no id, or an id that no clause could have.
    """
    if not ids:
        raise ValueError("cannot tie a test: no clause is named")
    for each in ids:
        if not isinstance(each, str):
            raise TypeError(f"clause id must be a str, got {type(each).__name__}")
        if not is_clause_id(each):
            raise ValueError(f"clause id must look like QB-RDV-3 or Q1, got {each!r}")

    def tie(test: Test) -> Test:
        # `vars`, since a derived test class must not inherit the clauses of its base.
        earlier: tuple[str, ...] = vars(test).get("__clauses__", ())
        test.__clauses__ = ids + earlier  # type: ignore[attr-defined]  # made by this line
        return test

    return tie


def is_clause_id(text: str) -> bool:
    """Return True if ``text`` has the form of a clause's number, known or not."""
    return _WHOLE_ID.fullmatch(text) is not None


def natural_key(clause_id: str) -> tuple[str, int]:
    """Return a sort key by group, then by number, so that 2 comes before 10."""
    group, number = _split(clause_id)
    return group, number


def load_clauses() -> dict[str, Clause]:
    """Return every clause by its id, in natural order, from the pages of this package.

    Raises:
        ValueError: a clause is defined twice, or has no text or no source.
    """
    # Package resources, so that an installed wheel works like the source tree.
    pages = importlib.resources.files("specs").iterdir()
    return index_pages(
        (page.name, page.read_text(encoding="utf-8"))
        for page in pages
        if page.name.endswith(".md")
    )


def index_pages(pages: Iterable[tuple[str, str]]) -> dict[str, Clause]:
    """Return the clauses of pages, given as (file name, text), as `load_clauses`."""
    found: dict[str, Clause] = {}
    for file, text in pages:
        for each in parse_page(file, text):
            twin = found.setdefault(each.id, each)
            if twin is not each:
                raise ValueError(
                    f"clause {each.id} stands twice: {twin.file}:{twin.line} and "
                    f"{each.file}:{each.line}"
                )
    return {name: found[name] for name in sorted(found, key=natural_key)}


def parse_page(file: str, text: str) -> Iterator[Clause]:
    """Yield the clauses of one page, in their order on the page.

    Raises:
        ValueError: a clause has no text or no source; the message names file and line.
    """
    for line, paragraph in _paragraphs(text.splitlines()):
        head = _HEAD.match(paragraph)
        if head is None:
            continue
        body = paragraph[head.end() :]
        source = _SOURCE.search(body)
        if source is None:
            raise ValueError(f"clause {head[1]} has no source: {file}:{line}")
        rule = body[: source.start()].strip()
        if not rule:
            raise ValueError(f"clause {head[1]} has no text: {file}:{line}")
        yield Clause(
            id=head[1],
            group=_split(head[1])[0],
            text=rule,
            source=source[1],
            withdrawn=head[2] is not None,
            file=file,
            line=line,
        )


def _paragraphs(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield paragraphs and list items as (number of first line, one line of text).

    Indented code blocks are skipped: README.md shows the form of a clause in one.
    """
    first, parts = 0, list[str]()
    for number, line in enumerate(lines, start=1):
        begins_item = line.startswith(("* ", "- ", "**"))
        if parts and (not line.strip() or begins_item):
            yield first, " ".join(parts)
            parts = []
        if line.strip() and (parts or not line.startswith("    ")):
            first = first if parts else number
            parts.append(line.strip())
    if parts:
        yield first, " ".join(parts)


def _split(clause_id: str) -> tuple[str, int]:
    group = clause_id.rstrip("0123456789")
    return group.rstrip("-"), int(clause_id[len(group) :])
