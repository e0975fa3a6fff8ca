"""Tables, times and foreign names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.cli.text import route, show_table, to_json, wall_text

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

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
