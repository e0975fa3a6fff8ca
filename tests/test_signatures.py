"""`help`, `inspect.signature` and `typing.get_type_hints` work for all public names."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import pydoc
import re
import subprocess
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import attrs
import pytest

import bus
import queuebroker
import queuebroker.sockets
import specs

# The modules that programs, the README and the pages import from.
PUBLIC: Final = (
    *("queuebroker", "queuebroker.aio", "queuebroker.java", "queuebroker.sockets"),
    *("queuebroker.testing", "queuebroker.testing.strategies"),
    *(
        "bus",
        "bus.model.arrays",
        "bus.errors",
        "bus.metrics",
        "bus.otel",
        "bus.testing",
        "bus.features.machines.authority",
    ),
    *("bus.pattern", "bus.pattern.aio", "bus.features.memory", "bus.sp_gateway"),
    *("bus.journal.writer", "bus.journal.reader", "bus.journal.checker"),
    *("specs.conformance.subject", "specs.conformance.scenarios"),
    "specs.conformance.performance",
)
PACKAGES: Final = (queuebroker, bus, specs)
OURS: Final = tuple(package.__name__ for package in PACKAGES)

# These need packages that only the extra `pipeline` installs, or start a program.
NOT_IMPORTED: Final = ("bus.pipeline", "bus.demo", "__main__")

# Their results are arrays of numpy, which only these two import.
OF_NUMPY: Final = ("read_segment_array", "StoredSegment.array")


def _modules() -> Iterator[str]:
    for package in PACKAGES:
        yield package.__name__
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(part in found.name for part in NOT_IMPORTED):
                yield found.name


def _callables(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public callables of a module, with their methods and properties."""
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isroutine(value):
            yield name, value
        elif inspect.isclass(value):
            yield name, value
            for member, function in _members(value):
                yield f"{name}.{member}", function


def _members(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, value in inspect.getmembers(kind):
        # `attrs` generates constructors in a name space of their own; the class has
        # the same hints.
        if name.startswith("_") and (name != "__init__" or attrs.has(kind)):
            continue
        function = value.fget if isinstance(value, property) else value
        home = getattr(function, "__module__", None) or ""
        if callable(function) and home.startswith(OURS):
            yield name, function


@pytest.mark.parametrize("name", PUBLIC)
def test_signatures_and_type_hints_of_public_callables_can_be_read(name: str) -> None:
    module = importlib.import_module(name)

    for where, function in _callables(module):
        if where in OF_NUMPY:
            continue
        try:
            inspect.signature(function)
            typing.get_type_hints(function)
        except (NameError, ValueError) as error:
            pytest.fail(f"{name}.{where}: {error}")


@pytest.mark.deep
@pytest.mark.parametrize("name", PUBLIC)
def test_pydoc_shows_each_public_module(name: str) -> None:
    assert pydoc.render_doc(importlib.import_module(name))


def test_no_signature_of_a_class_names_a_missing_object() -> None:
    """A struct of `msgspec` evaluates its annotations for that."""
    for name in _modules():
        module = importlib.import_module(name)
        for value in vars(module).values():
            own = inspect.isclass(value) and value.__module__ == name
            if own and not value.__name__.startswith("_"):
                # It has no signature of its own; `pydoc` shows it without one.
                with suppress(ValueError, TypeError):
                    inspect.signature(value)


# The modules whose help begins with an example, and what the example prints.
EXAMPLES: Final = {
    "queuebroker": "b'you said hello'",
    "queuebroker.sockets": "b'hello'",
    "queuebroker.testing": "deadlock",
    "bus": "{'heat': True}",
    "bus.testing": "",
    "bus.pattern": "b'hello'",
    "bus.features.memory": "",
}


@pytest.mark.deep
@pytest.mark.parametrize("name", EXAMPLES)
def test_help_begins_with_an_example_that_runs(name: str, tmp_path: Path) -> None:
    """Users meet the use of a module before the layout of its source."""
    text = pydoc.plain(pydoc.render_doc(importlib.import_module(name)))
    head, _, rest = textwrap.dedent(_description(text)).partition("::\n\n")
    example = re.split(r"^(?=\S)", rest, maxsplit=1, flags=re.MULTILINE)[0]
    environment = {**os.environ, "BUS_RUN_DIR": str(tmp_path)}

    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(example)],
        capture_output=True,
        check=False,
        env=environment,
        text=True,
        timeout=60,
    )

    assert head.count("\n") <= 2
    assert f"import {name}" in example or f"from {name} import" in example
    assert EXAMPLES[name] in run.stdout + run.stderr
    assert run.returncode == (EXAMPLES[name] == "deadlock"), run.stderr


@pytest.mark.parametrize(
    "thing",
    [
        *(queuebroker, queuebroker.sockets, queuebroker.QueueBroker),
        *(queuebroker.QueueBroker.connect, queuebroker.Broker.connect),
    ],
)
def test_the_first_example_of_connect_requires_the_broker(thing: object) -> None:
    """Without ``required`` an unknown name gives None, which few programs expect."""
    example = (inspect.getdoc(thing) or "").partition("::\n\n")[2]

    assert "required=True" in re.split(r"^(?=\S)", example, flags=re.MULTILINE)[0]


def _description(text: str) -> str:
    """Return what `help` shows of a module's docstring after its first line."""
    found = re.search(r"^DESCRIPTION\n(.*?)^(?=\S)", text, re.MULTILINE | re.DOTALL)
    assert found, text[:1000]
    return found[1]
