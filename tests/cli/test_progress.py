"""The progress of a verb: transient text, hidden without a terminal, and kept lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bus.cli.text import Progress
from bus.demo.files import FileList
from bus.demo.messages import Damaged, HungUp, Linked, PassDone, Rescued, Took
from bus.demo.verb import Ticker
from bus.demo.worker_group import FAR, NEAR

if TYPE_CHECKING:
    import pytest

FILES = FileList(Path(), "files", ("a", "b\n"))


class Reported(Progress):
    """Stores its output."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.kept: list[str] = []

    def show(self, text: str) -> None:
        self.said.append(text)

    def print_line(self, line: str) -> None:
        self.kept.append(line)


def test_only_kept_lines_are_written_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for stderr in (False, True):
        with Progress(stderr=stderr) as progress:
            progress.show("working")
            progress.print_line("a line")

        shown = capsys.readouterr()
        assert (shown.out, shown.err) == (
            ("", "a line\n") if stderr else ("a line\n", "")
        )


def test_nothing_moves_where_stderr_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr", None)

    with Progress(stderr=True) as progress:
        progress.show("working")
        progress.print_line("a line")


def test_a_pass_is_counted_from_its_beginning() -> None:
    progress = Reported()
    ticker = Ticker(FILES, progress)

    for event in (Took(1, 0, 10**6), Took(1, 1, 10**6), PassDone(1), Took(2, 0, 10**6)):
        ticker.tell(event)

    assert progress.said == [
        "pass 1: 1 of 2 files, 1.0 MB",
        "pass 1: 2 of 2 files, 2.0 MB",
        "pass 2: 1 of 2 files, 1.0 MB",
    ]


def test_a_worker_that_disconnected_is_named_with_its_file() -> None:
    progress = Reported()

    ticker = Ticker(FILES, progress)
    for _ in range(2):
        ticker.tell(HungUp("worker/1", 1, 1))

    line, otherwise, again = progress.kept
    assert otherwise.startswith("  no message was lost; without the bus, that takes ")
    assert again == line  # without the explanation
    assert line.startswith(r"worker/1 disconnected in the middle of b\n: ")
    assert "drained 1 message after that" in line


def test_a_file_that_arrived_damaged_is_reported() -> None:
    progress = Reported()

    Ticker(FILES, progress).tell(Damaged("worker/2"))

    assert progress.kept == [
        "a file from worker/2 arrived damaged: worker/2 sends it again"
    ]


def test_a_file_that_two_workers_did_counts_once() -> None:
    progress = Reported()
    ticker = Ticker(FILES, progress)

    for event in (Took(1, 1, 10**6), Took(1, 1, 10**6)):
        ticker.tell(event)

    assert progress.said == ["pass 1: 1 of 2 files, 1.0 MB"] * 2


def test_a_lost_worker_was_killed_or_cut_off() -> None:
    progress = Reported()
    for two_machines in (False, True):
        ticker = Ticker(FILES, progress, two_machines=two_machines)
        ticker.tell(Rescued("worker/3", 0, "in doubt", "worker/1"))
    ticker.tell(Rescued("worker/3", 0, "peer lost", "worker/3"))

    reported = [
        line for line in progress.kept if not line.startswith("  the bus reports ")
    ]
    assert len(progress.kept) == len(reported) + 2  # once by each ticker
    assert reported == [
        "worker/3 was killed; reported for a: in doubt (not acknowledged); worker/1"
        " did the file instead",
        "worker/3 was cut off; reported for a: in doubt (not acknowledged); worker/1"
        " did the file instead",
        "worker/3 was cut off; reported for a: peer lost (started, not answered);"
        " worker/3 did the file again",
    ]


def test_each_step_of_an_outage_is_a_line() -> None:
    progress = Reported()
    ticker = Ticker(FILES, progress, two_machines=True)

    for event, seconds in (
        ("cut", 0.0),
        ("lost", 3.14),
        ("healed", 4),
        ("restored", 1),
    ):
        ticker.tell(Linked(event, seconds))

    assert progress.kept == [
        f"the link between {NEAR} and {FAR} is cut: no byte passes, nothing closes",
        f"after 3.1 s of silence, {NEAR} reports each worker in {FAR} lost",
        "after 4.0 s, the link is whole again",
        f"1.0 s later, {NEAR} reports each worker in {FAR} again",
    ]
