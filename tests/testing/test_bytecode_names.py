"""Naming the code whose instructions are switch points."""

from __future__ import annotations

import functools
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import explore
from tests.testing.lost_update import counting

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


class Kinds:
    """One of each kind of member that a class can have."""

    def plain(self) -> int:
        return len([None for _ in "a"])

    @property
    def told(self) -> int:
        return len("a")

    @staticmethod
    def static() -> int:
        return len("a")

    @classmethod
    def of_class(cls) -> int:
        return len("a")

    @functools.cached_property
    def cached(self) -> int:
        return len("a")

    @functools.lru_cache  # noqa: B019 # a few calls in a test
    def remembered(self) -> int:
        return len("a")

    class Nested:
        def __init__(self) -> None:
            self.length = len("a")


def _steps(body: Callable[[], object], *named: object) -> int:
    """Return the number of switch points that a task passes in a function."""

    def program(run: Run) -> None:
        Kinds.remembered.cache_clear()
        body()

    report = explore(program, bytecode=named, bound=0, random=0)
    return report.steps - explore(program, bound=0, random=0).steps


@pytest.mark.parametrize(
    "body",
    [
        lambda: Kinds().plain(),
        lambda: Kinds().told,
        lambda: Kinds().static(),
        lambda: Kinds().of_class(),
        lambda: Kinds().cached,
        lambda: Kinds().remembered(),
        lambda: Kinds.Nested().length,
    ],
)
def test_every_function_in_a_class_can_be_split(body: Callable[[], object]) -> None:
    assert _steps(body, Kinds) > 0
    assert _steps(body, sys.modules[__name__]) > _steps(body, Kinds)


@pytest.mark.parametrize("named", [Kinds.plain, Kinds().plain, functools.partial(len)])
def test_a_function_is_named_by_itself(named: object) -> None:
    if isinstance(named, functools.partial):
        with pytest.raises(TypeError, match="functions, classes and modules"):
            explore(counting, bytecode=[named])
    else:
        assert _steps(lambda: Kinds().plain(), named) > 0
        assert _steps(lambda: Kinds().static(), named) == 0


@pytest.mark.parametrize("named", [Kinds.plain, functools])
def test_one_thing_for_a_list_of_one_is_refused_by_its_name(named: Any) -> None:
    kind = type(named).__name__
    told = f"bytecode must be an iterable of functions, classes and modules, got {kind}"
    with pytest.raises(TypeError, match=f"^{told}$"):
        explore(counting, bytecode=named)


@pytest.mark.parametrize("named", [len, "Counter", 1, object(), deque])
def test_an_object_without_python_code_is_refused(named: object) -> None:
    with pytest.raises(TypeError, match="bytecode takes functions, classes and"):
        explore(counting, bytecode=[named])
