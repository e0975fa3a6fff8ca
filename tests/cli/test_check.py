"""``bus check``: verdicts for people and for programs, and the exit code."""

from __future__ import annotations

import itertools
import json
import shlex
import signal
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from bus.cli import main
from bus.cli.check import show_result
from bus.journal.results import Result
from bus.journal.rules import RULES, Verdict
from bus.journal.violation import Violation
from bus.journal.writer import Journal
from bus.model.events import BusOperation
from tests.cli.verbs import program
from tests.journal.bus_by_hand import BUS_BROKEN
from tests.journal.histories import Condition, History, clean, journal_id, plant, store
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result as Ran

    from tests.process.real import Far


def invoke(*arguments: str | Path) -> Ran:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def faulty(folder: Path, *faults: str) -> list[str]:
    """Store traffic with faults; return the required content of their lines."""
    history = clean(11, steps=300)
    keys = [plant(history, fault, Random(1)) for fault in faults]
    store(history, folder)
    return [f"message {key[2]} of " for key in keys if key]


def test_clean_traffic_passes_with_exit_code_0(tmp_path: Path) -> None:
    store(clean(1), tmp_path)

    result = invoke(tmp_path)

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split()[:4] == ["rule", "promise", "verdict", "checked"]
    assert [line.split()[0] for line in lines[1:]] == list(RULES)
    for line in lines[1:]:
        expected = " nothing to check " if line.startswith("B") else " PASS "
        assert expected in line
    assert "inspect:" not in result.stdout
    assert result.stderr == ""


def test_a_journal_that_holds_no_operation_has_exit_code_0(tmp_path: Path) -> None:
    """It was closed, as J1 requires; the other rules have nothing to check."""
    store(History(), tmp_path)

    result = invoke(tmp_path, "--json")

    assert result.exit_code == 0
    output = json.loads(result.stdout)
    assert output["verdict"] == "PASS"
    assert {each["rule"]: each["verdict"] for each in output["verdicts"]} == {
        rule: "PASS" if rule == "J1" else "nothing to check" for rule in RULES
    }


def test_a_violation_is_named_with_exit_code_1(tmp_path: Path) -> None:
    (expected,) = faulty(tmp_path, "duplicate")

    result = invoke(tmp_path)

    assert result.exit_code == 1
    (line,) = [each for each in result.stdout.splitlines() if expected in each]
    assert line.startswith("Q3 FAIL: ")
    assert "received 2 times" in line
    assert "client-" in line
    assert " -> " in line
    assert line.endswith(f"of journal {journal_id(0):016x})")


def test_a_violation_of_the_bus_names_message_sender_and_receiver(
    tmp_path: Path,
) -> None:
    _, _, history, (origin, _, _, destination) = BUS_BROKEN["delivered twice"]
    store(history, tmp_path)

    result = invoke(tmp_path)

    assert result.exit_code == 1
    way = f"command 1 of task-{origin} -> task-{destination}"
    assert f"B1 FAIL: {way}, registration {destination:016x}, delivered 2 times" in (
        result.stdout
    )


def test_an_incomplete_journal_is_unknown_with_exit_code_3(tmp_path: Path) -> None:
    store(clean(1), tmp_path, conditions={0: Condition(lost=5)})

    result = invoke(tmp_path)

    assert result.exit_code == 3
    assert "records of 1 journal are missing" in result.stdout
    assert "J1 UNKNOWN: 5 records could not be written" in result.stdout


def test_a_failed_rule_outweighs_unknown_ones(tmp_path: Path) -> None:
    history = clean(11, steps=300)
    plant(history, "reorder", Random(1))
    store(history, tmp_path, conditions={0: Condition(closed=False, sealed=False)})

    assert invoke(tmp_path).exit_code == 1


def test_no_more_violations_are_shown_than_asked_for(tmp_path: Path) -> None:
    faulty(tmp_path, "size", "duplicate", "port")

    result = invoke(tmp_path, "--limit", "1")

    assert result.stdout.count(" FAIL: ") == 1
    assert result.stdout.splitlines()[-2].endswith("more: --limit 3 shows all")


def test_the_last_line_is_the_command_that_shows_the_records(tmp_path: Path) -> None:
    folder = tmp_path / "of two words"
    (expected,) = faulty(folder, "duplicate")

    *_, look = invoke(folder).stdout.splitlines()

    said, *command = shlex.split(look)
    assert (said, command[:4]) == ("inspect:", ["bus", "journal", "cat", str(folder)])
    shown = CliRunner().invoke(main, command[1:]).stdout.splitlines()
    seq = f" seq {expected.split()[1]} "
    kinds = [line.split()[2] for line in shown if seq in f"{line} "]
    assert kinds.count("receive") == 2


@pytest.mark.parametrize(
    ("violation", "command"),
    [
        ({"rule": "J1", "journal": 1, "n": 9}, "bus journal ls 'a b'"),
        ({"rule": "Q1", "flow": 6, "n": 9}, "bus journal cat 'a b' --around 9"),
        (
            {"rule": "Q1", "flow": 6, "journal": 10, "n": 9},
            "bus journal cat 'a b' --around 000000000000000a:9",
        ),
        ({"rule": "Q1", "flow": 6}, "bus journal cat 'a b' --flow 0000000000000006"),
    ],
)
def test_a_violation_without_a_message_names_the_command_to_inspect_it(
    capsys: pytest.CaptureFixture[str], violation: dict[str, Any], command: str
) -> None:
    found = Violation(verdict=Verdict.FAIL, case="", explanation="", **violation)

    show_result(Result((), 1, (found,), ()), [found], "", "a b")

    assert capsys.readouterr().out.splitlines()[-1] == f"inspect: {command}"


def test_everything_as_json(tmp_path: Path) -> None:
    faulty(tmp_path, "duplicate")

    result = invoke(tmp_path, "--json")

    assert result.exit_code == 1
    output = json.loads(result.stdout)
    assert output["verdict"] == "FAIL"
    assert {each["rule"]: each["verdict"] for each in output["verdicts"]} == {
        rule: "FAIL"
        if rule == "Q3"
        else "nothing to check"
        if rule.startswith("B")
        else "PASS"
        for rule in RULES
    }
    (violation,) = output["violations"]
    assert violation["rule"] == "Q3"
    assert violation["journal"] == f"{journal_id(0):016x}"
    assert len(violation["flow"]) == 16
    assert output["journals"][0]["closed"] is True
    assert output["problems"] == []


def test_an_unreadable_file_is_reported_apart_from_the_result(tmp_path: Path) -> None:
    (path,) = store(clean(1), tmp_path)
    (path / "meta.jsonl").unlink()

    result = invoke(tmp_path, "--json")

    assert result.exit_code == 0
    problem = f"cannot read {path / 'meta.jsonl'}: No such file or directory"
    assert result.stderr == f"bus: {problem}\n"
    assert json.loads(result.stdout)["problems"] == [problem]


def test_a_damaged_file_is_one_line_with_its_byte(tmp_path: Path) -> None:
    (path,) = store(clean(1), tmp_path)
    (path / "seg-00000.qbj").write_bytes(b"nonsense" * 1000)

    result = invoke(tmp_path)

    assert result.exit_code == 1
    assert result.stderr == (
        f"bus: cannot read {path / 'seg-00000.qbj'}: not a journal segment:"
        " byte 0 reads b'nons', expected b'QBJ1'\n"
    )


@pytest.mark.parametrize("name", ["", "missing"])
def test_without_a_journal_there_is_one_line_and_exit_code_4(
    tmp_path: Path, name: str
) -> None:
    result = invoke(tmp_path / name)

    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("bus: ")
    assert str(tmp_path / name) in result.stderr


@pytest.mark.parametrize("arguments", [[], ["--limit", "-1", "x"], ["--nothing"]])
def test_wrong_arguments_are_exit_code_2(arguments: list[str]) -> None:
    result = invoke(*arguments)

    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_a_foreign_name_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    history = clean(11)
    for entry in history.entries:
        entry.task = entry.task and f"\x1b[2J{entry.task}\ud800"
        entry.peer = entry.peer and f"\x1b[2J{entry.peer}\ud800"
    plant(history, "duplicate", Random(1))
    store(history, tmp_path)

    result = invoke(tmp_path)

    assert result.exit_code == 1
    assert "\x1b" not in result.stdout
    assert r"\x1b[2Jclient-" in result.stdout


def test_the_command_itself_ends_with_the_verdict(tmp_path: Path) -> None:
    faulty(tmp_path, "lost")

    done = subprocess.run(
        [sys.executable, "-m", "bus", "check", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 1
    assert "Q5 FAIL: message " in done.stdout
    assert done.stderr == ""


@pytest.mark.deep
def test_a_violation_in_a_growing_journal_is_printed_and_notified(
    alpha: Far, tmp_path: Path
) -> None:
    alpha("made.update(got=[], ear=bus.register('ear'))")
    alpha(
        "made['ear'].subscribe('checker', lambda message: made['got'].append("
        "message.payload['rule'])) and None"
    )
    numbers = itertools.count(1)

    arguments = (str(tmp_path), "--follow", "--bus", "bus1")
    with Journal(tmp_path) as journal, program("check", *arguments) as following:
        recorder = journal._trace_sink()
        recorder.on_registered(1, "a")
        recorder.on_registered(2, "b")

        def notified() -> bool:
            number, delivered = next(numbers), BusOperation.DELIVER
            for each in (BusOperation.COMMAND, delivered, delivered):
                recorder.record(each, 1, number, 2, 0, 64)
            return bool(alpha("made['got']"))

        until(notified, "the violation was notified")
        assert set(alpha("made['got']")) == {"B1"}
        following.send_signal(signal.SIGTERM)
        printed, _ = following.communicate(timeout=LIMIT_S)

    assert following.returncode == 1
    assert printed.startswith("B1 FAIL: command 1 of a -> b, ")
    assert "\nB1    at most once " in printed


def test_a_bus_without_follow_is_a_mistake_in_usage(tmp_path: Path) -> None:
    result = invoke(tmp_path, "--bus", "plant")

    assert result.exit_code == 2
    assert "--bus, --timeout and the like need --follow" in result.stderr
