"""``bus replay``: the messages of a recording are sent again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from bus.cli import replay as replays
from bus.journal.imported import ImportedJournal
from bus.journal.messages import read_messages
from bus.journal.writer import Journal
from bus.model.payload import encode
from bus.testing import memory_bus
from tests.cli.verbs import CODE, MACHINE, program, read, verb
from tests.processes import import_path
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from pathlib import Path

    from bus.api.task import Task
    from tests.process.real import Far

PAYLOADS = [b"bytes", {"celsius": 17.5}, "text", [1, [2]]]


def record(folder: Path, *, keep: bool | str = True) -> None:
    """Record four notifications of each of two tasks, and commands to two tasks."""
    with Journal(folder, payloads=keep) as journal, memory_bus(journal=journal) as bus:
        here = bus.here()
        senders = [bus.register(name, thread=here) for name in ("clock", "sensor")]
        reader = bus.register("reader", thread=here, on_command=lambda _: None)
        reader.subscribe("**", lambda _: None)
        bus.register("missing", thread=here, on_command=lambda _: None)
        for payload in PAYLOADS:
            for sender in senders:
                sender.notify(payload)
        for name in ("reader", "missing", "clock"):
            senders[1].command(name, "do")
        while here.poll(0.0):
            pass


def listen(far: Far) -> None:
    """Let a task of another process collect all notifications."""
    far("[made.update(got=[], ear=bus.register('ear'))] and None")
    far(
        "made['ear'].subscribe('**', lambda message: made['got'].append("
        "[message.sender.module, message.payload])) and None"
    )


def pairs(folder: Path) -> list[tuple[str, Any]]:
    """Return the senders and the payloads of the recorded notifications."""
    kinds = ("notification",)
    found = read_messages(folder, kinds=kinds)
    return [(each.sender, each.payload()) for each in found]


@pytest.mark.deep
@pytest.mark.usefixtures("alpha")
def test_a_recording_of_a_replay_has_the_same_messages(tmp_path: Path) -> None:
    record(tmp_path / "a")
    arguments = ("--out", f"{tmp_path / 'b'}", "--count", "8")

    with program("record", *arguments) as recording:
        until(lambda: "recorder" in verb("tree").stdout, "it has subscribed")
        result = verb("replay", tmp_path / "a", "--rate", "max")
        recording.communicate(timeout=LIMIT_S)

    assert (result.exit_code, result.stderr) == (0, "")
    line = "replayed 8 notifications of 2 tasks, 68 bytes, in "
    assert result.stdout.startswith(line)
    assert result.stdout.endswith(" s, as fast as possible\n")
    assert pairs(tmp_path / "b") == pairs(tmp_path / "a")


def test_a_name_in_use_is_refused_before_anything_is_sent(
    alpha: Far, tmp_path: Path
) -> None:
    record(tmp_path)
    alpha("counter('sensor')")
    listen(alpha)

    refused = verb("replay", tmp_path)
    assert alpha("made['got']") == []
    options = ("--rename", "sensor=copy", "--only", "sensor", "--rate", "max")
    renamed = verb("replay", tmp_path, *options)

    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "'sensor'" in refused.stderr
    assert refused.stderr.endswith(
        "; stop that task, or replay with --rename sensor=NEW\n"
    )
    assert (renamed.exit_code, renamed.stderr) == (0, "")
    until(lambda: len(alpha("made['got']")) == len(PAYLOADS), "all have arrived")
    assert {sender for sender, _ in alpha("made['got']")} == {"copy"}


def test_commands_go_to_the_tasks_that_have_the_names_now(
    alpha: Far, tmp_path: Path
) -> None:
    """A task that is replayed itself gets none; a failure is counted and shown."""
    record(tmp_path)
    alpha("counter('reader')")
    options = ("--commands", "--rate", "max", "--timeout", "1")

    result = verb("replay", tmp_path, *options, "--json")

    assert result.exit_code == 1
    assert result.stderr.startswith("bus: the first command that failed: ")
    assert "'missing'" in result.stderr
    facts = json.loads(result.stdout)
    counts = [facts[key] for key in ("notifications", "commands", "answered", "failed")]
    assert counts == [8, 2, 1, 1]
    assert facts["skipped"] == {"to a replayed task": 1}
    assert alpha("made['reader'].got") == ["do"]


@pytest.mark.usefixtures("alpha")
def test_messages_that_cannot_be_sent_are_counted_and_skipped(tmp_path: Path) -> None:
    record(tmp_path / "some", keep="sensor")
    record(tmp_path / "none", keep=False)

    facts = read("replay", tmp_path / "some", "--rate", "max")
    refused = verb("replay", tmp_path / "none")

    assert facts["notifications"] == facts["no_subscriber"] == 4
    assert facts["skipped"] == {"without a whole payload": 4}
    assert refused.exit_code == 1
    assert "no message to send (8 without a whole payload); record" in refused.stderr


def test_a_sender_that_registers_during_the_replay_is_counted_and_skipped(
    alpha: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recording is written meanwhile."""
    record(tmp_path)
    listen(alpha)
    registered = replays._registered

    def recording_more(*arguments: Any) -> dict[str, Task]:
        with ImportedJournal(tmp_path, program="", begin_ns=0) as journal:
            journal.add(0, "notification", "late", encoded=encode("x"))
        return registered(*arguments)

    monkeypatch.setattr(replays, "_registered", recording_more)
    result = verb("replay", tmp_path, "--rate", "max")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("replayed 8 notifications of 2 tasks, ")
    assert "skipped: 1 of a task that was not recorded when" in result.stdout


@pytest.mark.deep
def test_a_replay_at_full_rate_waits_for_its_subscribers(
    beta: Far, tmp_path: Path
) -> None:
    """The bus itself would drop the notifications that they have not taken."""
    count = 10_000
    with (
        Journal(tmp_path, payloads=True) as journal,
        memory_bus(journal=journal) as bus,
    ):
        clock = bus.register("clock", thread=bus.here())
        bus.register("reader", thread=bus.here()).subscribe("clock", lambda _: None)
        for number in range(count):
            clock.notify(b"%d" % number)  # bytes are sent the fastest
            bus.here().poll(0.0)
    beta("made.update(got=[], ear=bus.register('ear'))")
    take = "lambda message: made['got'].append(int(message.payload))"
    beta(f"made['ear'].subscribe('clock', {take}, capacity={count}) and None")

    facts = read("replay", tmp_path, "--rate", "max")

    assert (facts["notifications"], facts["lost"]) == (count, 0)
    until(lambda: beta("len(made['got'])") == count, "all have arrived")
    assert beta(f"made['got'] == list(range({count}))")


@pytest.mark.deep
def test_a_replay_opens_the_bus_and_waits_for_a_subscriber(tmp_path: Path) -> None:
    """It begins without one when the time is over."""
    record(tmp_path)
    alone = verb("replay", tmp_path, "--rate", "max", "--timeout", "0")

    with program("replay", f"{tmp_path}", "--rate", "max") as replaying:
        until(lambda: verb("list").exit_code == 0, "it has opened the bus")
        heard = verb("listen", "**", "--count", "8").stdout.splitlines()
        answer, complaints = replaying.communicate(timeout=LIMIT_S)

    assert alone.exit_code == 0
    assert alone.stderr.endswith("; the replay opens it\n")
    assert "; 8 had no subscriber" in alone.stdout
    assert (replaying.returncode, len(heard)) == (0, 8)
    assert complaints.endswith("; the replay opens it\n")
    assert "no subscriber" not in answer


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--rate", "-1"), "'-1' is not a rate; give a number above 0, or max"),
        (("--rate", "0"), "'0' is not a rate"),
        (("--rate", "nan"), "'nan' is not a rate"),
        (("--only", "d"), "no message to send; choose another with --since"),
        (("--rename", "a"), "'a' is not of the form OLD=NEW"),
        (("--rename", "a=//"), "module name must match "),
        (("--rename", "a=b", "--rename", "a=c"), "'a' has two new names; give one"),
        (("--rename", "a=b"), "cannot rename 'a': no sender has that name; senders: c"),
        (("--step",), "--step needs a terminal"),
    ],
)
def test_an_option_that_cannot_be_used_is_explained(
    tmp_path: Path, options: tuple[str, ...], complaint: str
) -> None:
    record(tmp_path)

    result = verb("replay", tmp_path, *options)

    assert result.exit_code in {1, 2}
    assert complaint in result.stderr


@pytest.mark.deep
@pytest.mark.parametrize("last", [b"q", b"\3"], ids=["q", "Ctrl-C"])
def test_keys_send_one_message_each_and_the_terminal_is_restored(
    alpha: Far, tmp_path: Path, last: bytes
) -> None:
    import pty  # noqa: PLC0415 # not on Windows
    import termios  # noqa: PLC0415 # likewise

    record(tmp_path)
    listen(alpha)

    def arrived(count: int) -> None:
        until(lambda: len(alpha("made['got']")) == count, f"{count} have arrived")

    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    take_terminal = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
    command = [sys.executable, "-c", f"{take_terminal}\n{CODE}", "replay", *MACHINE]
    try:
        with subprocess.Popen(
            [*command, f"{tmp_path}", "--step", "--loop"],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": import_path()},
        ) as replaying:
            until(lambda: termios.tcgetattr(theirs) != before, "it reads keys")
            for count, key in enumerate((b".", b"\x1b[C", b"."), 1):
                os.write(ours, key)
                arrived(count)
            os.write(ours, last)
            answer, complaints = replaying.communicate(timeout=LIMIT_S)
        after = termios.tcgetattr(theirs)
    finally:
        os.close(ours)
        os.close(theirs)

    assert (replaying.returncode, complaints) == (0, "")
    assert answer.startswith("replayed 3 notifications of 2 tasks, ")
    assert after == before
