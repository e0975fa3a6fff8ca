"""Tables, times and foreign names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click import unstyle

from bus.cli.text import (
    route,
    show_table,
    split_table,
    table_lines,
    to_json,
    wall_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = [("a", 1, "PASS"), ("long name", 22, "[red]FAIL")]


def test_a_flow_is_shown_with_its_known_tasks_and_port() -> None:
    assert route("a", "b", 7) == "a -> b port 7"
    assert route("", "b\n", None) == r"? -> b\n port ?"


def test_a_time_is_in_utc_to_the_microsecond() -> None:
    assert wall_text(1_700_000_000_000_001_999) == "2023-11-14T22:13:20.000001Z"
    assert wall_text(0) == "?"
    assert wall_text(10**24) == wall_text(-(10**24)) == "?"


def test_a_table_is_plain_columns_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_table(("name", "n", "verdict"), ROWS)

    assert capsys.readouterr().out == (
        "name        n  verdict\na           1  PASS\nlong name  22  [red]FAIL\n"
    )


def test_bytes_and_views_of_shared_memory_are_the_same_json() -> None:
    assert to_json(b"\0\xff") == to_json(memoryview(b"\0\xff")) == '{"base64": "AP8="}'


def test_a_table_without_rows_is_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("name", "n"), [])

    assert capsys.readouterr().out == "name  n\n"


def test_a_table_that_is_too_wide_is_several() -> None:
    head = ["process", "role", *(f"column{number}" for number in range(10))]
    rows = [[process, "slave", *range(10)] for process in ("alpha", "beta")]

    def shown(width: int) -> list[list[str]]:
        parts = split_table(head, rows, width)
        return [list(table_lines(*part)) for part in parts]

    [whole] = shown(200)
    exact = shown(len(whole[0]))
    parts = shown(80)
    narrow = shown(1)

    assert whole[0].split() == head
    assert exact == [whole]
    assert len(parts) == 2
    assert max(len(line) for part in parts for line in part) <= 80
    for some in (parts, narrow):
        heads = [part[0].split() for part in some]
        assert [name for names in heads for name in names[1:]] == head[1:]
        for part in some:
            assert [line.split()[0] for line in part] == ["process", "alpha", "beta"]


def test_each_part_of_a_table_has_the_columns_that_tell_its_rows_apart() -> None:
    head = ["process", "recipient", "leases", "shared"]
    rows = [["a", "b", 1, 2], ["a", "c", 3, 4]]
    same = [["a", "b", 1, 2], ["a", "b", 1, 2]]

    parts = [list(table_lines(*part)) for part in split_table(head, rows, 1)]

    assert [part[0].split() for part in parts] == [
        ["process", "recipient", "leases"],
        ["process", "recipient", "shared"],
    ]
    assert [part[2].split() for part in parts] == [["a", "c", "3"], ["a", "c", "4"]]
    assert [names for names, _ in split_table(head, same, 1)] == [
        ["process", name] for name in head[1:]
    ]


@pytest.mark.parametrize(
    ("wraps", "heads"),
    [
        (False, ["name  value", "name  the reason"]),
        (True, ["name  value  reason"]),
    ],
)
def test_a_terminal_that_is_too_narrow_splits_a_table_or_wraps_its_sentences(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    wraps: bool,
    heads: list[str],
) -> None:
    yes: Callable[[], bool] = lambda: True  # noqa: E731 # stands for a method
    monkeypatch.setattr("sys.stdout.isatty", yes)
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")  # a dumb one has always 80 columns

    show_table(("name", "value", "the reason"), [("a", "12", "no link")], wraps=wraps)

    shown = unstyle(capsys.readouterr().out).splitlines()
    assert [line.rstrip() for line in shown if line.startswith("name")] == heads


def test_a_table_on_a_terminal_has_colours_and_no_markup_from_cells(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    yes: Callable[[], bool] = lambda: True  # noqa: E731 # stands for a method
    monkeypatch.setattr("sys.stdout.isatty", yes)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")

    show_table(("name", "n", "verdict"), ROWS, colours={"PASS": "green"})

    shown = capsys.readouterr().out
    assert "\x1b[32mPASS " in shown
    assert "[red]FAIL" in shown
