"""An object that never runs is not a program: no schedule could make it fail."""

from __future__ import annotations

import functools
import gc
import re
import types
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import Failure, explore, replay, stress
from queuebroker.testing.program import is_plain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from queuebroker.testing import Run

TEXT = re.escape(
    "program must be a plain function: calling a coroutine function or a generator runs"
    " nothing of it"
)

WAYS: dict[str, Callable[..., object]] = {
    "explore": lambda program: explore(program, bound=0, random=1),
    "replay": lambda program: replay(program, []),
    "stress": lambda program: stress(program, runs=1),
}


async def _coroutine(_run: Run) -> None:
    raise AssertionError


def _generator(_run: Run) -> Iterator[None]:
    yield
    raise AssertionError


async def _async_generator(_run: Run) -> AsyncIterator[None]:
    yield
    raise AssertionError


@types.coroutine
def _of_a_generator(_run: Run) -> Iterator[None]:
    yield


class _Bound:
    async def coroutine(self, _run: Run) -> None:
        raise AssertionError

    def generator(self, _run: Run) -> Iterator[None]:
        yield

    @classmethod
    async def of_class(cls, _run: Run) -> None:
        raise AssertionError

    @staticmethod
    async def static(_run: Run) -> None:
        raise AssertionError


class _Called:
    async def __call__(self, _run: Run) -> None:
        raise AssertionError


async def _of_two(_one: int, _run: Run) -> None:
    raise AssertionError


PROGRAMS: dict[str, Any] = {
    "a coroutine function": _coroutine,
    "a generator function": _generator,
    "an async generator function": _async_generator,
    "a coroutine function of types.coroutine": _of_a_generator,
    "a bound coroutine function": _Bound().coroutine,
    "a bound generator function": _Bound().generator,
    "a class's coroutine function": _Bound.of_class,
    "a static coroutine function": _Bound.static,
    "an instance": _Called(),
    "an instance's call": _Called().__call__,
    "a partial": functools.partial(_of_two, 1),
    "a partial of a partial": functools.partial(functools.partial(_of_two), 1),
    "a partial of a bound one": functools.partial(_Bound().coroutine),
    "a partial of an instance": functools.partial(_Called()),
    "a bound partial": types.MethodType(functools.partial(_of_two), 1),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_would_not_run_is_refused_before_any_run(
    name: str, way: str
) -> None:
    assert not is_plain(PROGRAMS[name])
    with pytest.raises(TypeError, match=f"^{TEXT}$"):
        WAYS[way](PROGRAMS[name])


def _traced(function: Callable[[Run], Any]) -> Callable[[Run], Any]:
    @functools.wraps(function)
    def call(run: Run) -> Any:
        return function(run)

    return call


RETURNING: dict[str, Callable[[Run], object]] = {
    "a coroutine": lambda run: _coroutine(run),  # noqa: PLW0108 # not seen through
    "a generator": lambda run: _generator(run),  # noqa: PLW0108
    "an async generator": lambda run: _async_generator(run),  # noqa: PLW0108
    "a generator expression": lambda run: (run.now for _ in range(3)),
    "what a decorated function returns": _traced(_coroutine),
}


@pytest.mark.deep
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RETURNING)
def test_a_program_that_returns_a_coroutine_or_generator_is_refused_in_its_run(
    name: str, way: str
) -> None:
    """It is not a fault of a schedule, and causes no "never awaited" warning."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert is_plain(RETURNING[name])
        with pytest.raises(TypeError, match=f"^{TEXT}$") as caught:
            WAYS[way](RETURNING[name])
        gc.collect()

    assert not isinstance(caught.value, Failure)
    assert [str(each.message) for each in warned] == []


@pytest.mark.parametrize("way", WAYS)
def test_it_is_refused_also_if_the_run_has_failed(way: str) -> None:
    """The outcome of tasks left behind does not matter."""

    def program(run: Run) -> Coroutine[Any, Any, None]:
        run.spawn(_raises)
        return _coroutine(run)

    with pytest.raises(TypeError, match=TEXT):
        WAYS[way](program)


def _raises() -> None:
    raise LookupError


def _driven(function: Callable[[Run], Coroutine[Any, Any, None]]) -> Any:
    @functools.wraps(function)
    def drive(run: Run) -> None:
        with pytest.raises(StopIteration):
            function(run).send(None)

    return drive


def test_a_coroutine_function_that_is_driven_to_its_end_is_a_program() -> None:
    """A decorator may do that: the wrapped function is not the one called."""
    runs: list[float] = []

    @_driven
    async def program(run: Run) -> None:
        runs.append(run.now)

    report = explore(program, random=3)

    assert len(runs) == report.schedules


@pytest.mark.parametrize(
    "returned",
    [None, 3, [], iter([1]), range(3), _coroutine, _generator],
    ids=lambda one: getattr(one, "__name__", type(one).__name__),
)
def test_whatever_else_a_program_returns_is_of_no_interest(returned: object) -> None:
    assert explore(lambda run: returned, bound=0, random=2).schedules == 3


def test_functions_written_in_c_are_programs() -> None:
    assert explore(id, bound=0, random=2).schedules == 3
    assert explore(functools.partial(print, end=""), bound=0, random=0).exhausted
