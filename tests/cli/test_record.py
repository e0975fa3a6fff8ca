"""``bus record``: the notifications of a live bus become a journal."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from bus.journal.checker import check
from bus.journal.messages import read_messages
from bus.journal.reader import open_journals
from tests.cli.verbs import program, verb
from tests.kit.systems import needs_unix_sockets
from tests.process.real import Far
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


# Waits until the recorder subscribes, then sends.
NOTIFY = """[
    made.update(task=bus.register({name!r})),
    made['task'].wait_for_subscribers(1, {limit}),
    [made['task'].notify(each) for each in {payloads!r}],
] and None"""


def notify(far: Far, name: str, payloads: Sequence[object]) -> None:
    """Let a new task notify, once it has a subscriber."""
    far(NOTIFY.format(name=name, limit=LIMIT_S, payloads=payloads))


@pytest.mark.deep
def test_a_recording_has_each_notification_under_its_senders_name(
    alpha: Far, beta: Far, tmp_path: Path
) -> None:
    """The checker has no complaint about it."""
    sent = [b"bytes" * 30, {"celsius": 17.5, "tags": ["a", None]}, "x" * 100_000]

    arguments = ("sensor/*", "clock", "--out", f"{tmp_path}", "--count", "5", "--json")
    with program("record", *arguments) as recording:
        notify(alpha, "sensor/a", sent)
        notify(beta, "clock", [1, 2])
        answer, complaints = recording.communicate(timeout=LIMIT_S)

    assert (recording.returncode, complaints) == (0, "")
    facts = json.loads(answer)
    assert (facts["notifications"], facts["senders"], facts["lost"]) == (5, 2, 0)
    recorded = [(m.kind, m.sender, m.payload()) for m in read_messages(tmp_path)]
    frozen = [sent[0], {"celsius": 17.5, "tags": ("a", None)}, sent[2]]
    expected = [("sensor/a", each) for each in frozen] + [("clock", 1), ("clock", 2)]
    assert recorded == [("notification", *each) for each in expected]
    assert check(open_journals(tmp_path)).verdict == "PASS"


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_recording_with_exit_code_0(
    alpha: Far, tmp_path: Path, number: signal.Signals
) -> None:
    with program("record", "--out", f"{tmp_path}") as recording:
        notify(alpha, "clock", [1])
        until(lambda: any(read_messages(tmp_path)), "it has recorded")
        recording.send_signal(number)
        answer, complaints = recording.communicate(timeout=LIMIT_S)

    assert (recording.returncode, complaints) == (0, "")
    assert answer.startswith("recorded 1 notification of 1 task, 1 byte, in ")
    assert answer.endswith("; lost: 0\n")


@pytest.mark.deep
def test_notifications_that_a_recorder_cannot_take_are_counted_as_lost(
    alpha: Far, tmp_path: Path
) -> None:
    count = 20_000
    alpha("made.update(clock=bus.register('clock'))")
    clock = "made['clock']"

    with program("record", "--out", f"{tmp_path}", "--json") as recording:
        alpha(f"{clock}.wait_for_subscribers(1, {LIMIT_S})")
        recording.send_signal(signal.SIGSTOP)
        alpha(f"[{clock}.notify(b'x' * 1000) for _ in range({count})] and None")
        recording.send_signal(signal.SIGCONT)
        in_transit = (
            "sum(each.notifications.in_transit for each in bus.inspect().peers)"
        )
        until(lambda: alpha(f"{in_transit} + bus.inspect().notifying.unread") == 0, "")
        recording.send_signal(signal.SIGINT)
        answer, _ = recording.communicate(timeout=LIMIT_S)

    facts = json.loads(answer)
    assert facts["lost"] > 0
    assert facts["notifications"] + facts["lost"] == count
    last = list(read_messages(tmp_path))[-1]
    assert last.mid == count  # the lost ones keep their numbers


def test_a_recording_ends_when_its_time_is_over(alpha: Far, tmp_path: Path) -> None:
    alpha("made.update(clock=bus.register('clock'))")

    result = verb("record", "--out", tmp_path, "--timeout", "0.1")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("recorded 0 notifications of 0 tasks, 0 bytes, in ")


@needs_unix_sockets
@pytest.mark.usefixtures("own_run_directory")
def test_a_recorder_without_a_bus_waits_for_no_confirmation(tmp_path: Path) -> None:
    result = verb("record", "--out", tmp_path, "--timeout", "0.1")

    [line] = result.stderr.splitlines()
    assert line.startswith("bus: no program of bus 'bus1' runs: ")
    assert line.endswith("; waiting")
    assert result.exit_code == 0


@pytest.mark.deep
def test_a_recording_may_begin_before_the_bus(
    own_run_directory: Path, tmp_path: Path
) -> None:
    with program("record", "--out", f"{tmp_path}", "--count", "1") as recording:
        until((own_run_directory / "bus1").is_dir, "it waits")
        with Far("alpha", role="master") as far:
            notify(far.started(), "clock", [1])
            answer, complaints = recording.communicate(timeout=LIMIT_S)

    assert (recording.returncode, complaints.count("\n")) == (0, 1)
    assert complaints.endswith("; waiting\n")
    assert answer.startswith("recorded 1 notification ")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--out", "file"), "is a file"),
        (("--out", "folder", "--max-bytes", "9"), "max_bytes must be >= "),
        (("--out", "folder", "a*"), "a segment with a star must be '*' or '**'"),
    ],
)
def test_an_argument_that_cannot_be_used_is_explained(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    complaint: str,
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)

    result = verb("record", *options)

    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr
