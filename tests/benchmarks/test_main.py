"""The command: suites by name, JSON, --check, and the table of the README."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING

import pytest

from benchmarks import suites
from benchmarks.__main__ import main
from benchmarks.contest import ROUNDS_MIN, Contest
from benchmarks.machine import machine_line
from benchmarks.suites import Effort
from tests.kit.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def _use(
    monkeypatch: pytest.MonkeyPatch, must: Mapping[str, float], *missing: str
) -> list[Effort]:
    """Replace all suites by one of a single contest: ours 6, the rival 3."""
    efforts: list[Effort] = []

    def suite(effort: Effort) -> tuple[list[Contest], list[str]]:
        efforts.append(effort)
        contest = Contest(
            "T1", "64 B", "m/s", "higher", lambda: 6.0, {"it": lambda: 3.0}, must
        )
        return [contest], list(missing)

    def load(name: str) -> suites.Suite:
        assert name == "threads"
        return suite

    monkeypatch.setattr(suites, "load", load)
    return efforts


def test_a_run_prints_machine_and_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _use(monkeypatch, {"it": 2.0}, "pyzmq is not installed: left out")

    assert main(["threads"]) == 0

    said = capsys.readouterr().out
    assert machine_line() in said
    assert "pyzmq is not installed: left out" in said
    row = re.sub(r" +", " ", said.splitlines()[-1])
    assert row == "T1 64 B m/s 6 0% it 3 2.00 >= 2 met"


def test_json_is_a_list_of_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _use(monkeypatch, {"it": 2.0})
    file = tmp_path / "t.json"

    assert main(["threads", "--json", str(file)]) == 0

    (only,) = json.loads(file.read_text())
    assert only["figure"] == "T1"
    assert only["ratios"] == {"it": 2.0}
    assert only["pass"] is True


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
    monkeypatch.setattr(
        suites, "load", lambda _: lambda _: ([], ["left out: not permitted"])
    )

    assert main(["threads", "--check"]) == 1
    assert main(["threads"]) == 0
    assert "left out: not permitted" in capsys.readouterr().out


def test_quick_is_less_work_and_ends_within_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    efforts = _use(monkeypatch, {})

    main(["threads", "--quick"])
    main(["threads"])

    quick, full = efforts
    assert quick.limit_s < 60 < full.limit_s
    assert ROUNDS_MIN <= quick.rounds <= full.rounds
    assert quick.round_s < full.round_s
    assert quick.amount(1_000) < full.amount(1_000) == 1_000


def _use_three(monkeypatch: pytest.MonkeyPatch, measure: Callable[[], float]) -> None:
    """Replace all suites by three contests: the second measures by a function."""

    def contest(case: str, ours: Callable[[], float]) -> Contest:
        return Contest("T1", case, "m/s", "higher", ours, {"it": lambda: 3.0})

    contests = [
        contest("first", lambda: 6.0),
        contest("second", measure),
        contest("third", lambda: 8.0),
    ]
    monkeypatch.setattr(suites, "load", lambda _: lambda _: (contests, []))


def test_contests_for_which_no_time_is_left_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(100.0)
    monkeypatch.setattr("benchmarks.__main__.time.monotonic", clock)

    def slow() -> float:
        clock.now += 60.0
        return 7.0

    _use_three(monkeypatch, slow)

    assert main(["threads", "--quick"]) == 0

    said = capsys.readouterr().out
    assert "left out by --quick, for lack of time: T1 third" in said
    assert re.findall(r"T1 (\w+) +m/s", said) == ["first", "second"]


def test_an_interrupt_prints_and_writes_the_figures_measured_so_far(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = iter([5.0, 7.0])

    def interrupted() -> float:
        for value in values:
            return value
        raise KeyboardInterrupt

    _use_three(monkeypatch, interrupted)
    file = tmp_path / "t.json"

    assert main(["threads", "--json", str(file)]) == 130

    said = capsys.readouterr().out
    assert "interrupted: these are the figures measured by then" in said
    assert [(each["case"], each["ours"]) for each in json.loads(file.read_text())] == [
        ("first", 6.0),
        ("second", 7.0),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "no suite is called 'nonsense'; there are users, threads"),
        ([], "the following arguments are required: name"),
        (["threads", "--fast"], "unrecognized arguments: --fast"),
        (["table"], "the following arguments are required: FILE"),
        (["table", "/no/such/file"], "cannot read /no/such/file: No such file"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_file_that_cannot_be_written_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _use(monkeypatch, {})

    assert main(["threads", "--json", str(tmp_path / "gone" / "t.json")]) == 2

    assert "cannot write" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("text", ["{", "3", "[3]", '[{"figure": "T1"}]', '{"a": 1}'])
def test_a_table_of_another_file_is_one_line(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)

    assert main(["table", str(file)]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("not a file of figures")


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
        "| T1 64 B | m/s | 6 | 0% | it | 3 | 2.00 | >= 3 | MISSED |",
        "|  |  |  |  | gone | missing |  | >= 1 | not judged |",
        "| T1 64 B | m/s | 6 | 0% | it | 3 | 2.00 |  |  |",
    ]


def test_the_machine_is_described_and_not_named() -> None:
    line = machine_line()

    assert "cores" in line
    assert "Python 3." in line
    assert "/" not in line
    assert socket.gethostname() not in line


# Single sends between processes: a system call each, which is cheaper from C.
# Round trips by size and the frames of a camera: measured beside others, nothing owed.
REPORTED_ONLY = {"W1", "M3", "M4"}


@pytest.mark.parametrize("name", suites.SUITES)
def test_every_suite_gives_contests_with_musts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.machines.refusal", lambda: "")  # for any user
    contests, _ = suites.load(name)(Effort.of(quick=True))

    assert contests
    assert len({(one.figure, one.case) for one in contests}) == len(contests)
    owed = {one.figure for one in contests if one.must}
    assert {one.figure for one in contests} - owed <= REPORTED_ONLY
