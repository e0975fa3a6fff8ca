"""The page ``docs/reference/api.md`` agrees with the code.

Under a heading that is a dotted name, or a name of `queuebroker`, a ``text`` block has
the signatures of the class and of its members, one after another; an indented line
continues the line before it.
"""

from __future__ import annotations

import builtins
import enum
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import queuebroker

_PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"

_HEADING = re.compile(r"^## `([\w.]+)`$", re.MULTILINE)
_BLOCK = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ERROR_ROW = re.compile(r"^\| `(\w+Error)` \| (.*?) \|", re.MULTILINE)

# Brokers and queues create them, so their constructors are not public.
_MADE_FOR_YOU = {"Channel", "MessageQueue", "TypedQueue"}

# Members of a class that only the rest of the package uses.
_INTERNAL = {
    "Broker": {
        *("new_accept", "new_connect", "on_close"),
        *("count_departing", "count_waiting", "departing"),
        *("kinds", "meet_accept", "meet_connect", "offer", "waiting"),
    },
    "BrokerManager": {
        *(
            "check_not_within",
            "check_process",
            "critical",
            "foreign",
            "lock",
            "run_or_defer",
        ),
        *("note", "register", "settle", "watch"),
    },
}


def _sections() -> dict[str, list[str]]:
    """Return the lines of the blocks under each heading, with continuations joined."""
    parts = _HEADING.split(_PAGE.read_text(encoding="utf-8"))[1:]
    sections = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        block = "".join(_BLOCK.findall(text))
        whole = re.sub(r"\n +", " ", block).replace("( ", "(").replace(" )", ")")
        sections[name] = whole.splitlines()
    return sections


_SECTIONS = _sections()


def _object(name: str) -> Any:
    module, _, attribute = f"queuebroker.{name}".rpartition(".")
    if "." in name:
        module = name.rpartition(".")[0]
    return getattr(importlib.import_module(module), attribute)


def _value(value: object) -> str:
    if isinstance(value, enum.Enum):
        return str(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_value, value))},)"
    return repr(value)


def _signature(function: Any) -> str:
    """Return a signature as it is in the source, without self."""
    signature = inspect.signature(function)
    parts, keywords = [], False
    for each in signature.parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not keywords:
            parts.append("*")
        keywords |= each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        star = "*" if each.kind is each.VAR_POSITIONAL else ""
        default = "" if each.default is each.empty else f" = {_value(each.default)}"
        parts.append(f"{star}{each.name}: {each.annotation}{default}")
    returned = signature.return_annotation
    end = "" if inspect.isclass(function) else f" -> {returned}"
    return f"({', '.join(parts)}){end}"


def _line(thing: Any, member: str) -> str:
    """Return the line that the page should have for a member."""
    found = inspect.getattr_static(thing, member)
    if isinstance(found, property) and found.fget is not None:
        return f".{member}: {inspect.signature(found.fget).return_annotation}"
    function = getattr(thing, member)
    if callable(function):
        return f".{member}{_signature(function)}"
    return f".{member}"


@pytest.mark.parametrize("name", _SECTIONS)
def test_every_signature_on_the_page_is_that_of_the_code(name: str) -> None:
    thing = _object(name)
    if not inspect.isclass(thing):
        assert _SECTIONS[name] == [f"{name}{_signature(thing)}"]
        return
    short = name.rpartition(".")[2]
    expected = [
        _line(thing, line[1:].partition("(")[0].partition(":")[0])
        if line.startswith(".")
        else f"{short}{_signature(thing)}"
        for line in _SECTIONS[name]
    ]

    assert _SECTIONS[name] == expected


@pytest.mark.parametrize(
    "name",
    [
        *("BrokerManager", "Broker", "QueueBroker", "Task"),
        *("Channel", "MessageQueue", "TypedQueue"),
    ],
)
def test_no_public_member_is_left_out(name: str) -> None:
    thing = getattr(queuebroker, name)
    reported = set(re.findall(r"^\.(\w+)", "\n".join(_SECTIONS[name]), re.MULTILINE))
    public = {
        member
        for member in dir(thing)
        if not member.startswith("_") and not member.endswith("_locked")
    }

    assert reported == public - _INTERNAL.get(name, set())
    constructors = [line for line in _SECTIONS[name] if not line.startswith(".")]
    assert len(constructors) == (name not in _MADE_FOR_YOU)


def test_every_public_name_is_on_the_page() -> None:
    page = _PAGE.read_text(encoding="utf-8")

    missing = [name for name in queuebroker.__all__ if f"`{name}`" not in page]

    assert missing == []


def test_the_table_of_errors_is_the_hierarchy() -> None:
    rows = dict(_ERROR_ROW.findall(_PAGE.read_text(encoding="utf-8")))
    errors = {
        name: getattr(queuebroker, name)
        for name in queuebroker.__all__
        if name.endswith("Error")
    }

    assert rows == {
        name: ", ".join(f"`{base.__name__}`" for base in error.__bases__)
        for name, error in errors.items()
    }


@pytest.mark.parametrize(
    ("name", "unit"), [("QueueBroker", "messages"), ("Broker", "bytes")]
)
def test_the_page_states_the_capacity_with_its_unit(name: str, unit: str) -> None:
    capacity = inspect.signature(getattr(queuebroker, name)).parameters["capacity"]

    assert f"**{capacity.default:,} {unit}**" in _PAGE.read_text(encoding="utf-8")


def test_every_error_that_the_page_names_exists() -> None:
    page = _PAGE.read_text(encoding="utf-8")

    named = set(re.findall(r"`(\w+Error)`", page))

    unknown = {
        name
        for name in named
        if not hasattr(queuebroker, name) and not hasattr(builtins, name)
    }
    assert unknown == set()
