"""The generated parts of pages are what the code would generate now."""

from __future__ import annotations

import importlib.util
import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bus
import bus.features.memory
import bus.pattern
from specs.clauses import load_clauses

if TYPE_CHECKING:
    from types import ModuleType

_DOCS = Path(__file__).parents[1] / "docs"
_CLAUSE = re.compile(r"\b(?:QB|BUS)-[A-Z]+-[1-9][0-9]*\b|\bAMO-[1-9][0-9]*\b")


def _maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_make", _DOCS / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = _maker()


@pytest.mark.parametrize(
    "page", list(make.pages()), ids=lambda page: str(page.relative_to(_DOCS))
)
def test_a_page_is_as_it_would_be_made_now(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert make.made(text) == text, "run: python docs/make.py"


def test_everything_that_is_made_has_its_place_on_one_page() -> None:
    places = [
        name
        for page in make.pages()
        for name in re.findall(r"<!-- made by docs/make.py: (.*) -->", page.read_text())
    ]

    assert sorted(places) == sorted(make.PARTS)


@pytest.mark.deep
def test_every_public_name_of_the_bus_is_explained_once() -> None:
    found = runpy.run_path(str(_DOCS / "api_reference.py"))
    names = [name for group in found["GROUPS"].values() for name in group]

    assert sorted(names) == sorted(bus.__all__)
    assert all(f"### `{name}`" in found["bus_api"]() for name in names)


def test_every_public_name_of_multicast_is_explained_once() -> None:
    found = runpy.run_path(str(_DOCS / "api_reference.py"))
    names = [name for group in found["MULTICAST_GROUPS"].values() for name in group]

    assert sorted(names) == sorted(bus.features.memory.__all__)
    assert all(f"### `{name}`" in found["memory_api"]() for name in names)


def test_every_public_name_of_the_bus_pattern_is_explained_once() -> None:
    found = runpy.run_path(str(_DOCS / "api_reference.py"))
    names = [name for group in found["PATTERN_GROUPS"].values() for name in group]

    assert sorted(names) == sorted(bus.pattern.__all__)
    assert all(f"### `{name}`" in found["pattern_api"]() for name in names)


def test_the_members_of_a_common_base_are_explained_with_each_socket() -> None:
    page = runpy.run_path(str(_DOCS / "api_reference.py"))["pattern_api"]()

    for socket in ("BusSocket", "RawBusSocket", "PairSocket"):
        assert all(
            page.count(f"#### `{socket}.{member}`") == 1
            for member in ("listen", "drain", "stats", "receive", "receive_nowait")
        )


def test_every_step_of_the_control_blocks_example_is_shown() -> None:
    found = runpy.run_path(str(_DOCS.parent / "examples" / "control_blocks.py"))

    assert len(found["steps"]()) == make.STEPS


def test_only_the_text_between_the_markers_is_replaced() -> None:
    page = (
        "before\n<!-- made by docs/make.py: error-tree -->\nold\n<!-- end -->\nafter\n"
    )

    made = make.made(page)

    assert made.startswith("before\n<!-- made by docs/make.py: error-tree -->\n```text")
    assert made.endswith("```\n<!-- end -->\nafter\n")
    assert "old" not in made
    assert make.made(made) == made


@pytest.mark.deep
@pytest.mark.parametrize("part", sorted(make.PARTS))
def test_a_made_part_is_the_same_every_time(part: str) -> None:
    """Even with threads: the output only has events whose order is fixed."""
    assert len({make.PARTS[part]() for _ in range(20)}) == 1


@pytest.mark.parametrize("page", ["explanation/promises.md"])
def test_the_clauses_that_a_page_names_exist(page: str) -> None:
    named = set(_CLAUSE.findall((_DOCS / page).read_text(encoding="utf-8")))

    assert named - load_clauses().keys() == set()
