"""The generated parts of pages are what the code would generate now."""

from __future__ import annotations

import importlib.util
import inspect
import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bus
import bus.features.memory
import bus.pattern
import queuebroker
from specs.clauses import load_clauses

if TYPE_CHECKING:
    from types import ModuleType

_DOCS = Path(__file__).parents[1] / "docs"
_MODULE = re.compile(r"^\.\. currentmodule:: (\S+)$", re.MULTILINE)
_ENTRY = re.compile(r"^\.\. auto\w+:: (\w+)$", re.MULTILINE)
_CLAUSE = re.compile(r"\b(?:QB|BUS)-[A-Z]+-[1-9][0-9]*\b|\bAMO-[1-9][0-9]*\b")


def _maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_build", _DOCS / "build.py")
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

    assert make.made(text) == text, "run: python docs/build.py"


def test_everything_that_is_made_has_its_place_on_one_page() -> None:
    places = [
        name
        for page in make.pages()
        for name in re.findall(
            r"<!-- made by docs/build.py: (.*) -->", page.read_text()
        )
    ]

    assert sorted(places) == sorted(make.PARTS)


@pytest.mark.parametrize(
    ("page", "module"),
    [
        ("api", queuebroker),
        ("bus-api", bus),
        ("memory-api", bus.features.memory),
        ("pattern-api", bus.pattern),
    ],
)
def test_the_reference_has_each_public_name_once(page: str, module: ModuleType) -> None:
    """Names of other modules are further entries; the site fails at an unknown one."""
    text = (_DOCS / "reference" / f"{page}.md").read_text(encoding="utf-8")
    modules_and_entries = _MODULE.split(text)[1:]
    names = [
        name
        for place, entries in zip(
            modules_and_entries[::2], modules_and_entries[1::2], strict=True
        )
        if place == module.__name__
        for name in _ENTRY.findall(entries)
    ]

    assert sorted(names) == sorted(module.__all__)


@pytest.mark.parametrize(
    ("broker", "unit"),
    [(queuebroker.QueueBroker, "messages"), (queuebroker.Broker, "bytes")],
)
def test_the_reference_states_the_capacity_with_its_unit(
    broker: type, unit: str
) -> None:
    capacity = inspect.signature(broker).parameters["capacity"]

    page = (_DOCS / "reference" / "api.md").read_text(encoding="utf-8")

    assert f"**{capacity.default:,} {unit}**" in page


def test_every_step_of_the_control_blocks_example_is_shown() -> None:
    found = runpy.run_path(str(_DOCS.parent / "examples" / "control_blocks.py"))

    assert len(found["steps"]()) == make.STEPS


def test_only_the_text_between_the_markers_is_replaced() -> None:
    page = (
        "before\n<!-- made by docs/build.py: error-tree -->\nold\n<!-- end -->\nafter\n"
    )

    made = make.made(page)

    assert made.startswith(
        "before\n<!-- made by docs/build.py: error-tree -->\n```text"
    )
    assert made.endswith("```\n<!-- end -->\nafter\n")
    assert "old" not in made
    assert make.made(made) == made


@pytest.mark.deep
@pytest.mark.parametrize("part", sorted(make.PARTS))
def test_a_made_part_is_the_same_every_time(part: str) -> None:
    """Even with threads: the output only has events whose order is fixed."""
    assert len({make.PARTS[part]() for _ in range(20)}) == 1


def test_the_site_shows_arguments_and_leaves_out_locks() -> None:
    mark_arguments = runpy.run_path(str(_DOCS / "conf.py"))["mark_arguments"]
    docstring = (
        "Send it.\n\nto, name: where.\npayload: text. ref: any.\n\ntimeout: seconds."
        "\n\nLock: ``lock`` guards it.\n\nRaises:\n    ValueError: no name."
    )
    lines = docstring.splitlines()

    mark_arguments(None, "method", "Task.send", None, None, lines)

    assert [line for line in lines if line] == [
        "Send it.",
        "Args:",
        *("    to,name: where.", "    payload: text.", "    ref: any."),
        "    timeout: seconds.",
        *("Raises:", "    ValueError: no name."),
    ]


@pytest.mark.parametrize("page", ["explanation/promises.md"])
def test_the_clauses_that_a_page_names_exist(page: str) -> None:
    named = set(_CLAUSE.findall((_DOCS / page).read_text(encoding="utf-8")))

    assert named - load_clauses().keys() == set()
