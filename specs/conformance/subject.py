"""The implementation under test: imported, tried once, queried for its features.

Every mistake of a user in ``FILE:factory`` ends here, as a `SubjectError` of one line.
The scenarios find the faults of the implementation itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from specs.conformance.scenario import Scenario
from specs.conformance.trial import Trial, try_out

__all__ = ["Subject", "SubjectError", "load"]

OFFERED_BY_DEFAULT = frozenset({"RDV", "SEND", "RECV", "FIFO", "DISC"})


class SubjectError(ValueError):
    """The given object cannot be tested; the text is one line for the user."""

    def __init__(self, text: str) -> None:
        # `inspect.signature` finds none in a constructor of the interpreter.
        super().__init__(text)


@attrs.frozen
class Subject:
    """One implementation.

    source: its name, as the user wrote it.
    offers: the groups of clauses that it is checked against.
    trial: the findings of one small run: its driver, and its members.
    """

    source: str
    factory: Callable[[], Any]
    offers: frozenset[str]
    trial: Trial

    def lacks(self, scenario: Scenario) -> str | None:
        """Return why the scenario cannot be run on it, None if it can."""
        missing = sorted(scenario.groups - self.offers)
        if missing:
            return f"{', '.join(missing)} not in offers"
        unmet = [need for need in scenario.needs if need not in self.trial.met]
        return f"no {', '.join(unmet)}" if unmet else None


def load(source: str, scenarios: tuple[Scenario, ...]) -> Subject:
    """Import and try out the object named by ``FILE:factory`` or ``module:factory``.

    Raises:
        SubjectError: the object does not exist, or is no factory of a world.
    """
    factory = _find(source)
    try:
        world = factory()
    except Exception as error:
        raise SubjectError(
            f"cannot use {source}: calling it raised {_of(error)}"
        ) from error
    if not callable(getattr(world, "broker", None)):
        kind = type(world).__name__
        raise SubjectError(
            f"cannot use {source}: it returned a {kind} without broker()"
        )
    known = frozenset(group for each in scenarios for group in each.groups)
    offers = frozenset(getattr(world, "offers", OFFERED_BY_DEFAULT))
    if not offers or offers - known:
        what = ", ".join(sorted(map(str, offers - known))) or "nothing"
        groups = " ".join(sorted(known))
        raise SubjectError(f"cannot use {source}: it offers {what}, known are {groups}")
    needs = frozenset(need for each in scenarios for need in each.needs)
    return Subject(source, factory, offers, try_out(factory, needs))


def _find(source: str) -> Callable[[], Any]:
    place, colon, name = source.rpartition(":")
    if not (place and colon and name.isidentifier()):
        raise SubjectError(f"expected FILE:factory or module:factory, got {source!r}")
    if place.endswith(".py") or not {os.sep, os.altsep}.isdisjoint(place):
        module = _import_file(source, Path(place))
    else:
        module = _import_module(source, place)
    factory = getattr(module, name, None)
    if factory is None:
        raise SubjectError(f"cannot find {source}: {place} has no {name}")
    if not callable(factory):
        raise SubjectError(f"cannot use {source}: {name} is no callable")
    found: Callable[[], Any] = factory
    return found


def _import_file(source: str, path: Path) -> ModuleType:
    if not path.is_file():
        raise SubjectError(f"cannot find {source}: there is no file {path}")
    # As `python FILE` does: the file can import the modules in its folder.
    _put_first(str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SubjectError(f"cannot load {source}: {path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module  # dataclasses and pickle look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        if before is None:
            del sys.modules[path.stem]
        else:
            sys.modules[path.stem] = before
        raise SubjectError(f"cannot load {source}: {_of(error)}") from error
    return module


def _import_module(source: str, name: str) -> ModuleType:
    _put_first(str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise SubjectError(f"cannot load {source}: {_of(error)}") from error


def _put_first(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _of(error: Exception) -> str:
    """Return the error on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
