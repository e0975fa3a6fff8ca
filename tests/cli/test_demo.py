"""``bus demo`` on the command line, with the small checker: output and exit codes."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import attrs
import pytest
from click.testing import CliRunner, Result

from bus import Role, open_bus
from bus.cli import main
from bus.demo import checks
from bus.demo.faults import DEEDS, FAULTS
from bus.demo.files import FileList
from bus.demo.inventory import Inventory, serial_inventory
from bus.journal import results
from bus.journal.checker import check
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from bus.journal.writer import Journal
from bus.pipeline import session
from bus.pipeline.folder import claimed
from tests.kit.systems import needs_unix_sockets, needs_users, require_unix_sockets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bus.pipeline.folder import OutFolder


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine without Java."""
    monkeypatch.setattr(session, "missing", lambda: "no Java found: install it")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create some files."""
    root = tmp_path / "files"
    root.mkdir()
    for number in range(12):
        (root / f"{number}").write_bytes(b"x" * (number // 2))
    return root


def _demo(*arguments: str | Path) -> Result:
    """Run the demo, by default with workers in threads."""
    if "--processes" in arguments:
        require_unix_sockets()
    else:
        arguments = (*arguments, "--processes", "1")
    return CliRunner().invoke(main, ["demo", *map(str, arguments)])


def test_all_is_well_and_says_so(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    ran = _demo(folder, "--out", out)

    assert ran.exit_code == 0, ran.output
    assert "found 12 files, 30 bytes, 6 duplicates in 6 groups" in ran.output
    assert "the pass is equal" in ran.output
    assert "its receipts, and all messages on the bus" in ran.output
    # Twelve files are assigned and answered, and reported by notifications.
    [b1] = [line.split() for line in ran.output.splitlines() if line[:3] == "B1 "]
    assert int(b1[-3]) > 24
    assert "no report: no Java found: install it" in ran.output
    assert json.loads((out / "verdicts.json").read_text())["verdict"] == "PASS"
    assert (out / "violations.jsonl").read_text() == ""
    assert list((out / "journal").rglob("*.qbj"))


@pytest.mark.deep
def test_by_default_a_worker_is_killed_one_leaves_and_a_fault_is_caught(
    folder: Path, tmp_path: Path
) -> None:
    ran = CliRunner().invoke(
        main, ["demo", str(folder), "--out", str(tmp_path / "out")]
    )

    assert ran.exit_code == 0, ran.output
    lines = ran.output.splitlines()
    assert any(line.startswith("worker/1 was killed; reported for ") for line in lines)
    assert any(line.startswith("worker/2 disconnected in the m") for line in lines)
    assert any("that takes heartbeats, timeouts" in line for line in lines)
    verdicts = next(i for i, line in enumerate(lines) if line.startswith("J1 "))
    fault = next(i for i, line in enumerate(lines) if "with a planted fault" in line)
    assert verdicts < fault
    assert lines[fault + 1].startswith("  Q2 FAIL: message 1 of worker/1 -> collector")
    assert lines[fault + 2] == "  found by Q2"


def test_on_windows_the_workers_are_in_threads_by_default(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queuebroker._net.HAS_UNIX", False)
    arguments = ("demo", folder, "--out", tmp_path / "out")
    ran = CliRunner().invoke(main, list(map(str, arguments)))
    assert ran.exit_code == 0
    assert ran.stdout.splitlines()[1].startswith("1 process on bus demo, with workers ")


def test_a_name_that_the_output_cannot_carry_is_escaped(tmp_path: Path) -> None:
    """As on Windows, where a pipe has the code page of the system."""
    folder = tmp_path / "日本"
    folder.mkdir()
    (folder / "1").write_bytes(b"x")
    arguments = ("demo", folder, "--out", tmp_path / "out", "--processes", "1")
    ran = CliRunner(charset="cp437").invoke(main, list(map(str, arguments)))
    assert ran.exit_code == 0, ran.exception
    assert "\\u65e5\\u672c" in ran.stdout


def test_a_fault_that_the_check_does_not_find_fails_the_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.demo.threads.plant_fault", lambda *_: None)

    ran = _demo(folder, "--out", tmp_path / "out")

    assert ran.output.splitlines()[-2] == "  NOT FOUND"
    assert ran.exit_code == 1


class Spark:
    """Stands in for Spark: notes the output at its start, and gives some verdicts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, verdict: Verdict) -> None:
        self.ran = 0
        self._verdict = verdict
        monkeypatch.setattr(session, "missing", lambda: None)
        monkeypatch.setattr(checks, "run_in", self._run_in)

    def _run_in(
        self, folder: OutFolder, journals: Path, *, progress: Callable[[str], None]
    ) -> results.Result:
        self.ran += 1
        assert json.loads(folder.verdicts.read_text())["verdict"] == "PASS"
        progress("checking")
        found = check(open_journals(journals))
        verdicts = [
            attrs.evolve(each, verdict=self._verdict) for each in found.verdicts
        ]
        summary = attrs.evolve(
            found.summary, verdicts=tuple(verdicts), report=folder.report
        )
        results.write(
            summary,
            [],
            [],
            verdicts_path=folder.verdicts,
            violations_path=folder.violations,
        )
        return summary


def test_spark_checks_again_after_the_verdicts_and_must_agree(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = Spark(monkeypatch, Verdict.FAIL)

    ran = _demo(folder, "--out", tmp_path / "out")

    assert (spark.ran, ran.exit_code) == (1, 1)
    lines = ran.output.splitlines()
    begun = next(
        i for i, line in enumerate(lines) if line.startswith("checking the re")
    )
    assert begun > next(i for i, line in enumerate(lines) if line.startswith("B5 "))
    assert lines[begun + 1] == "Spark: DIFFERENT VERDICTS"


def test_no_spark_skips_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = Spark(monkeypatch, Verdict.PASS)

    ran = _demo(folder, "--out", tmp_path / "out", "--no-spark")
    planted = _demo(
        *(folder, "--out", tmp_path / "out", "--no-spark", "--plant", "reorder")
    )

    assert (spark.ran, ran.exit_code, planted.exit_code) == (0, 0, 1)
    assert "Spark" not in ran.output


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_planted_fault_ends_with_one_and_names_the_message(
    folder: Path, tmp_path: Path, fault: str
) -> None:
    ran = _demo(folder, "--out", tmp_path / "out", "--plant", fault)

    assert ran.exit_code == 1, ran.output
    assert "message 1 of worker/1 -> collector port 2" in ran.output
    [line] = (tmp_path / "out" / "violations.jsonl").read_text().splitlines()
    assert json.loads(line)["seq"] == 1


@pytest.mark.deep
def test_a_fault_is_planted_between_processes_too(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    ran = _demo(folder, "--out", out, "--processes", "3", "--plant", "duplicate")

    assert ran.exit_code == 1, ran.output
    assert "planted fault: duplicate, between worker/2 and coll" in ran.output
    assert "message 1 of worker/2 -> collector port 2" in ran.output
    assert "planted fault: duplicate, found by Q3" in ran.output


def test_a_planted_fault_is_named_first_and_the_rule_that_found_it_last(
    folder: Path, tmp_path: Path
) -> None:
    ran = _demo(folder, "--out", tmp_path / "out", "--plant", "duplicate")

    lines = ran.output.splitlines()
    begun, found = (
        lines.index(line) for line in lines if line.startswith("planted fault: ")
    )
    assert lines[begun] == (
        "planted fault: duplicate, between worker/1 and collector, port 2:"
        " one message is received twice"
    )
    assert lines[found] == "planted fault: duplicate, found by Q3"
    assert begun < lines.index("found 12 files, 30 bytes, 6 duplicates in 6 groups")
    assert found > next(i for i, line in enumerate(lines) if " FAIL: " in line)


def test_every_fault_has_a_description() -> None:
    assert DEEDS.keys() == FAULTS.keys()


def test_a_planted_fault_that_no_rule_finds_fails_the_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.demo.threads.plant_fault", lambda *_: None)

    ran = _demo(folder, "--out", tmp_path / "out", "--plant", "lost")

    assert "planted fault: lost, NOT FOUND" in ran.output
    assert ran.exit_code == 1


@pytest.mark.deep
def test_the_demo_reports_its_processes_and_their_fates(
    folder: Path, tmp_path: Path
) -> None:
    ran = _demo(folder, "--out", tmp_path / "out", "--processes", "4")

    assert ran.exit_code == 0, ran.output
    lines = ran.output.splitlines()
    assert lines[1] == (
        "4 processes on bus demo: worker/1 will be killed, worker/2 will disconnect"
    )
    killed = "worker/1 was killed; reported for "
    reported = [line for line in lines if line.startswith(killed)]
    assert reported
    for line in reported:
        assert ": peer lost (started, " in line or ": in doubt (not ack" in line
        assert line.endswith(" did the file instead")
    assert "the pass is equal" in ran.output
    verdicts = json.loads((tmp_path / "out" / "verdicts.json").read_text())
    assert verdicts["verdict"] == "PASS"


@pytest.mark.deep
def test_the_demo_reports_that_it_spares_its_only_worker(
    folder: Path, tmp_path: Path
) -> None:
    ran = _demo(folder, "--out", tmp_path / "out", "--processes", "2")

    assert ran.exit_code == 0, ran.output
    only = "the only worker is not killed and does not disconnect\n"
    assert only in ran.output
    assert "was killed" not in ran.output


@pytest.mark.parametrize("arguments", [(), ("--processes", "2")])
def test_a_second_demo_at_a_time_is_one_line_with_the_remedy(
    folder: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    with open_bus("demo", role=Role.MASTER):
        ran = _demo(folder, "--out", tmp_path / "out", *arguments)

    assert ran.exit_code == 4
    begun, last = ran.output.splitlines()
    assert begun.startswith("indexing ")
    assert last.startswith("bus: cannot open bus 'demo': another demo is running on it")
    assert last.endswith("; wait for it, or set BUS_RUN_DIR to another directory")


def _files(out: Path) -> dict[str, bytes]:
    """Return each file below a folder, with its content."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file()
    }


@needs_users
def test_a_refused_run_leaves_the_results_of_an_earlier_one(
    folder: Path, tmp_path: Path, own_run_directory: Path
) -> None:
    out = tmp_path / "out"
    _demo(folder, "--out", out)
    before = _files(out)

    with open_bus("demo", role=Role.MASTER):
        second = _demo(folder, "--out", out)
    own_run_directory.chmod(0o755)
    open_to_others = _demo(folder, "--out", out)

    assert (second.exit_code, open_to_others.exit_code) == (4, 4)
    assert "is open to others: mode 0755" in open_to_others.output
    assert _files(out) == before
    assert len(list((out / "journal").glob("*/*"))) == 1


def test_a_run_that_is_refused_leaves_nothing_in_a_new_folder(
    folder: Path, tmp_path: Path
) -> None:
    absent, empty = tmp_path / "absent", tmp_path / "empty"
    empty.mkdir()

    with open_bus("demo", role=Role.MASTER):
        for out in (absent, empty):
            assert _demo(folder, "--out", out).exit_code == 4

    assert not absent.exists()
    assert list(empty.iterdir()) == []


def test_a_folder_in_which_another_is_at_work_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    """Regardless of the run directory of the other run: this one is on no bus."""
    out = tmp_path / "out"
    _demo(folder, "--out", out)
    before = _files(out)

    with claimed(out):
        ran = _demo(folder, "--out", out)

    assert (ran.exit_code, ran.output) == (
        4,
        f"bus: cannot write to {out}: another run is writing there; wait for it, or"
        " name another with --out\n",
    )
    assert _files(out) == before
    assert _demo(folder, "--out", out).exit_code == 0


@pytest.mark.parametrize("other", [False, True], ids=["gone", "replaced"])
def test_a_run_with_its_own_journal_missing_does_not_pass(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: bool
) -> None:
    out = tmp_path / "out"

    def meddle(files: FileList) -> Inventory:
        shutil.rmtree(out / "journal")
        if other:
            Journal(out / "journal").close()
        return serial_inventory(files)

    monkeypatch.setattr("bus.demo.run.serial_inventory", meddle)

    ran = _demo(folder, "--out", out)

    assert ran.exit_code == 4, ran.output
    wanted = (
        "bus: cannot check the run: its journal is missing from " if other else "bus: "
    )
    assert ran.output.splitlines()[-1].startswith(wanted)
    assert "PASS" not in ran.output


@pytest.mark.deep
def test_a_run_with_the_journal_of_one_process_missing_does_not_pass(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def meddle(files: FileList) -> Inventory:
        own = f"{os.getpid()}-*"
        [other] = set(out.glob("journal/*/*")) - set(out.glob(f"journal/*/{own}"))
        shutil.rmtree(other)
        return serial_inventory(files)

    monkeypatch.setattr("bus.demo.run.serial_inventory", meddle)

    ran = _demo(folder, "--out", out, "--processes", "2")

    assert ran.exit_code == 4, ran.output
    assert ran.output.splitlines()[-1] == (
        "bus: cannot check the run: 2 processes took part, and"
        f" {out / 'journal'} holds 1 journal"
    )


@needs_unix_sockets
@pytest.mark.parametrize("arguments", [(), ("--processes", "2")])
def test_the_path_of_a_run_directory_that_is_too_long_is_one_line(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.setenv("BUS_RUN_DIR", str(tmp_path / ("x" * 90)))

    ran = _demo(folder, "--out", tmp_path / "out", *arguments)

    assert ran.exit_code == 4
    [line] = ran.stderr.splitlines()
    assert line.startswith("bus: cannot open bus 'demo': run directory must leave room")


@pytest.mark.parametrize("arguments", [(), ("--processes", "2")])
def test_where_no_run_directory_can_be_made_the_setting_is_named(
    folder: Path,
    tmp_path: Path,
    own_run_directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    place = own_run_directory / "no"  # its parent is missing, too
    monkeypatch.setenv("BUS_RUN_DIR", str(place))

    ran = _demo(folder, "--out", tmp_path / "out", *arguments)

    assert (ran.exit_code, ran.stderr) == (
        4,
        f"bus: cannot open bus 'demo': cannot make the run directory {place} of"
        " bus 'demo': No such file or directory; set BUS_RUN_DIR, or"
        " BusConfig(run_directory=...), to a writable folder\n",
    )


def test_the_demo_does_not_index_its_own_results(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    runs = [_demo("."), _demo(".")]

    for ran in runs:
        assert ran.exit_code == 0, ran.output
        assert "found 12 files, 30 bytes, " in ran.output


def test_no_inventory_is_taken_of_where_the_results_go(folder: Path) -> None:
    before = _files(folder)

    ran = _demo(folder, "--out", folder)

    assert ran.exit_code == 4
    assert ran.output.startswith(f"bus: cannot index {folder}: it is, or is in, ")
    assert _files(folder) == before


def test_one_file_is_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "only").write_bytes(b"x")

    ran = _demo(folder, "--out", tmp_path / "out")

    assert ran.output.startswith(f"indexing 1 file of {folder}\n")
    assert "found 1 file, 1 byte, 0 duplicates in 0 groups" in ran.output


def test_files_that_could_not_be_read_are_counted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = FileList.read

    def refuse(files: FileList, index: int) -> bytes:
        if files.paths[index] == "3":
            raise PermissionError(13, "Permission denied")
        return read(files, index)

    monkeypatch.setattr(FileList, "read", refuse)

    ran = _demo(folder, "--out", tmp_path / "out")

    assert ran.exit_code == 0, ran.output
    assert "found 11 of 12 files (1 could not be read), 29 bytes" in ran.output
    assert "bus: cannot read 3: Permission denied" in ran.output


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    ran = _demo(tmp_path / "nowhere", "--out", tmp_path / "out")

    assert ran.exit_code == 4
    assert ran.output == (
        f"bus: cannot index {tmp_path / 'nowhere'}: it does not exist\n"
    )
    assert not (tmp_path / "out").exists()


def test_an_interrupted_run_ends_as_every_verb_does(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bus.demo.run.take_inventory", interrupted)

    ran = _demo(folder, "--out", tmp_path / "out")

    assert (ran.exit_code, ran.stderr) == (4, "bus: interrupted\n")


def test_a_folder_of_results_is_used_again(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    _demo(folder, "--out", out, "--plant", "lost")

    ran = _demo(folder, "--out", out)

    assert ran.exit_code == 0, ran.output
    assert (out / "violations.jsonl").read_text() == ""


def test_a_folder_that_is_not_ours_is_refused(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "precious"
    out.mkdir()
    (out / "letter").write_text("dear")

    ran = _demo(folder, "--out", out)

    assert ran.exit_code == 4
    assert ran.output.startswith(f"bus: cannot write to {out}: it is not empty")
    assert len(ran.output.splitlines()) == 1
    assert [path.name for path in out.iterdir()] == ["letter"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--plant", "gremlin"),
        ("--seconds", "-1"),
        ("--seconds", "soon"),
        ("--seconds", "nan"),
        ("--seconds", "inf"),
        ("--processes", "0"),
        ("--processes", "65"),
        ("--processes", "some"),
        ("--processes", "3", "--plant", "half"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(
    tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    ran = _demo(*arguments)

    assert ran.exit_code == 2
    assert "Traceback" not in ran.output
    assert list(tmp_path.iterdir()) == []
