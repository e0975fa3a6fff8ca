"""The command: suites by name, JSON, --check, and the table of the README."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING

import pytest

from benchmarks import __main__ as command
from benchmarks.__main__ import SUITES, load, main
from benchmarks.contest import Contest, Effort, Row
from benchmarks.machine import machine_line
from tests.kit.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def _use(
    monkeypatch: pytest.MonkeyPatch,
    must: Mapping[str, float],
    *missing: str,
    **cases: Callable[[], float],
) -> None:
    """Replace all suites by one in which each case measures ours by a function.

    The rival measures 3. By default ours is 6, in a single case.
    """

    def contest(case: str, ours: Callable[[], float]) -> Contest:
        return Contest(
            [Row("T1", case, "messages/s", must)],
            {"ours": lambda: {"value": ours()}, "it": lambda: {"value": 3.0}},
        )

    def suite(_: Effort) -> tuple[list[Contest], list[str]]:
        given = cases or {"64 B": lambda: 6.0}
        return [contest(case, ours) for case, ours in given.items()], list(missing)

    monkeypatch.setattr(command, "load", lambda _: suite)


@pytest.mark.parametrize(
    ("must", "arguments", "code"),
    [
        ({"it": 2.0}, ["--check"], 0),
        ({"it": 2.1}, ["--check"], 1),
        ({"it": 2.1}, [], 0),
        ({"gone": 1.0}, ["--check"], 1),
        ({"gone": 1.0}, [], 0),
        ({}, ["--check"], 0),
    ],
)
def test_check_fails_on_a_must_that_is_missed_or_cannot_be_judged(
    monkeypatch: pytest.MonkeyPatch,
    must: Mapping[str, float],
    arguments: list[str],
    code: int,
) -> None:
    _use(monkeypatch, must)

    assert main(["threads", *arguments]) == code


def test_check_fails_if_nothing_could_be_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = ["left out: not permitted"]
    monkeypatch.setattr(command, "load", lambda _: lambda _: ([], reason))

    assert main(["threads", "--check"]) == 1
    assert main(["threads"]) == 0
    assert "left out: not permitted" in capsys.readouterr().out


def test_contests_for_which_no_time_is_left_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(100.0)
    monkeypatch.setattr("benchmarks.__main__.time.monotonic", clock)

    def slow() -> float:
        clock.now += 60.0
        return 7.0

    _use(monkeypatch, {}, first=lambda: 6.0, second=slow, third=lambda: 8.0)

    assert main(["threads", "--quick"]) == 0

    said = capsys.readouterr().out
    assert "left out by --quick, for lack of time: T1 third" in said
    assert "medians of 1 to 3 rounds" in said
    assert re.findall(r"T1 (\w+) +mess", said) == ["first", "second"]


@pytest.mark.parametrize(
    ("error", "code", "line", "kept"),
    [
        (KeyboardInterrupt(), 130, "interrupted: ", ["first", "second"]),
        (
            RuntimeError("no end"),
            1,
            "T1 second FAILED: no end",
            ["first", "second", "third"],
        ),
    ],
)
def test_an_interrupt_or_a_failed_job_leaves_the_figures_measured_by_then(
    error: BaseException,
    code: int,
    line: str,
    kept: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = iter([5.0, 7.0])

    def fails() -> float:
        for value in values:
            return value
        raise error

    _use(monkeypatch, {}, first=lambda: 6.0, second=fails, third=lambda: 8.0)
    file = tmp_path / "t.json"

    assert main(["threads", "--json", str(file)]) == code

    said = capsys.readouterr().out
    assert line in said
    assert re.findall(r"T1 (\w+) +mess", said) == kept
    figures = json.loads(file.read_text())
    assert [each["case"] for each in figures] == kept
    assert [each["ours"] for each in figures[:2]] == [6.0, 7.0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "no suite is called 'nonsense'; there are users, threads"),
        (["threads", "--fast"], "unrecognized arguments: --fast"),
        (["table"], "the following arguments are required: FILE"),
        (["table", "/no/such/file"], "cannot read /no/such/file: No such file"),
        (["table", __file__], "not a file of figures"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_the_table_joins_files_for_markdown(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    for file, must in zip(files, ({"it": 3.0, "gone": 1.0}, {}), strict=True):
        _use(monkeypatch, must)
        main(["threads", "--json", file])
    capsys.readouterr()

    assert main(["table", *files]) == 0

    head, _, *table = capsys.readouterr().out.splitlines()
    assert re.match(r"\d{4}-\d\d-\d\d: .*Python 3", head)
    assert table[2:] == [
        "| T1 64 B | messages/s | 6 | 0% | it | 3 | 2.00 | >= 3 | MISSED |",
        "|  |  |  |  | gone | missing |  | >= 1 | not judged |",
        "| T1 64 B | messages/s | 6 | 0% | it | 3 | 2.00 |  |  |",
    ]


def test_the_machine_is_described_and_not_named() -> None:
    line = machine_line()

    assert "cores" in line
    assert "Python 3." in line
    assert "/" not in line
    assert socket.gethostname() not in line


@pytest.mark.parametrize("name", SUITES)
def test_the_figures_of_a_suite_differ_and_their_musts_name_contestants(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("zmq", reason="needs pyzmq, of the extra")
    monkeypatch.setattr("benchmarks.machines.refusal", lambda: "")  # for any user
    monkeypatch.setattr("benchmarks.rivals.Rival.obstacle", "")  # and any packages
    monkeypatch.setattr("benchmarks.large.importlib.util.find_spec", bool)
    contests, _ = load(name)(Effort())

    rows = [row for contest in contests for row in contest.rows]
    assert len({(row.figure, row.case) for row in rows}) == len(rows)
    for contest in contests:
        for row in contest.rows:
            assert {*row.must} <= {*contest.contestants, *row.own}
