"""Calls are counted exactly."""

from __future__ import annotations

from benchmarks.anatomy import calls_of, nanoseconds


def test_every_call_of_python_and_of_c_is_counted_once() -> None:
    things: list[int] = []

    def inner() -> None:
        things.append(1)

    def work() -> None:
        inner()
        inner()
        len(things)

    name = "test_every_call_of_python_and_of_c_is_counted_once.<locals>.inner"
    assert calls_of(work) == {
        f"test_anatomy.{name}": 2,
        "list.append (C)": 2,
        "len (C)": 1,
    }


def test_work_takes_time() -> None:
    assert nanoseconds(lambda: None) > 0
