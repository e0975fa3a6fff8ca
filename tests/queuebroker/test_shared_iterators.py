"""Iterators that threads share, with and without the interpreter lock."""

from __future__ import annotations

import itertools
from threading import Barrier

import pytest

from queuebroker import _sync
from tests.support import Threads

_THREADS = 4
_DRAWS = 500


@pytest.fixture(params=[False, True], ids=["locked", "parallel"])
def parallel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose the steps for interpreters with or without the lock.

    A real interpreter without the lock has no other choice.
    """
    if _sync.has_interpreter_lock():
        monkeypatch.setattr(_sync, "_PARALLEL", request.param)


@pytest.mark.usefixtures("parallel")
def test_one_of_many_threads_gets_an_only_item() -> None:
    for _ in range(100):
        item = object()
        only, left = _sync.only_once(item)
        start = Barrier(_THREADS)

        def take() -> object:
            start.wait()  # noqa: B023 # all threads of this round end in it
            return next(only, None)  # noqa: B023 # likewise

        assert left() == 1
        with Threads() as threads:
            taking = [threads.start(take) for _ in range(_THREADS)]
            taken = [each.result() for each in taking]
        assert sorted(taken, key=bool) == [None] * (_THREADS - 1) + [item]
        assert left() == 0


def test_threads_draw_each_number_once() -> None:
    numbers = itertools.count(1)

    def draw() -> list[int]:
        return [_sync.draw(numbers) for _ in range(_DRAWS)]

    with Threads() as threads:
        drawing = [threads.start(draw) for _ in range(_THREADS)]
        drawn = [number for each in drawing for number in each.result()]

    assert sorted(drawn) == list(range(1, _THREADS * _DRAWS + 1))
