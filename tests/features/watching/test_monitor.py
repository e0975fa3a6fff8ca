"""``bus monitor``: the frames on the links of a live bus."""

from __future__ import annotations

import json
import re
import signal
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from bus.features.watching import monitor_verb
from bus.features.watching.monitor_verb import _line
from specs.clauses import clause
from tests.cli.verbs import program, verb
from tests.process.real import Far
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

RUN: dict[str, Any] = {
    "from": "x",
    "to": "y",
    "kind": "command_response",
    "count": 1,
    "bytes": 1,
}
RUN |= {"hop": 2, "wants_reply": False, "failed": False}
MONITORED = "(bus._node.comm.watcher is not None)"


@contextmanager
def monitoring(
    *processes: Far, options: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """Run the verb as a program, once it monitors some processes."""
    with program("monitor", *options) as running:
        try:
            for each in processes:
                until(partial(each, MONITORED), f"{each.name} is listened to")
            yield running
        finally:
            running.kill()


def interrupted(running: subprocess.Popen[str]) -> tuple[str, str]:
    """Interrupt a program; return the rest of its output and of its errors."""
    running.send_signal(signal.SIGINT)
    return running.communicate(timeout=LIMIT_S)


@pytest.mark.deep
@clause("OPEN-12")
def test_a_message_is_one_line_of_its_sender_and_one_of_its_receiver(
    alpha: Far, beta: Far
) -> None:
    with monitoring(alpha, beta, options=("--type", "MSG", "--count", "4")) as running:
        beta("bus.call('echo', 'abc')")
        lines, complaints = running.communicate(timeout=LIMIT_S)

    assert (running.returncode, complaints) == (0, "")
    # The two processes are polled in turn; each line begins with its time.
    words = [line.partition(" ")[2] for line in sorted(lines.splitlines())]
    asked = "command _script1 -> echo, 4 bytes, hop 0, wants an answer"
    answered = "command response echo -> _script1, 4 bytes, hop 0"
    assert [each.partition(" MSG ")[0].strip() for each in words] == [
        "beta --> alpha",
        "alpha <-- beta",
        "alpha --> beta",
        "beta <-- alpha",
    ]
    assert [each.partition(": ")[2] for each in words] == [
        *(asked, asked),
        *(answered, answered),
    ]


@pytest.mark.deep
@clause("OPEN-12")
def test_json_is_a_line_for_each_frame_and_names_the_process(
    alpha: Far, beta: Far
) -> None:
    options = ("--process", "beta", "--type", "msg", "--json", "--count", "2")
    with monitoring(beta, options=options) as running:
        assert not alpha(MONITORED)
        beta("bus.call('echo', 'abc')")
        lines, complaints = running.communicate(timeout=LIMIT_S)

    assert (running.returncode, complaints) == (0, "")
    first, second = map(json.loads, lines.splitlines())
    assert (first["process"], first["direction"], first["other"]) == (
        "beta",
        "out",
        "alpha",
    )
    assert (second["direction"], second["type"]) == ("in", "MSG")
    [run] = second["runs"]
    assert run == {
        "from": "echo",
        "to": "_script1",
        "kind": "command_response",
        "count": 1,
        "bytes": 4,
        "hop": 0,
        "wants_reply": False,
        "failed": False,
    }


@pytest.mark.deep
@clause("OPEN-12")
def test_an_interrupt_ends_the_monitor_and_monitoring_in_every_process(
    alpha: Far, beta: Far
) -> None:
    with monitoring(alpha, beta) as running:
        assert running.stdout is not None
        beta("bus.call('echo', 'abc')")
        assert any("  MSG " in line for line in iter(running.stdout.readline, ""))
        _, complaints = interrupted(running)

    assert (running.returncode, complaints) == (0, "")
    for each in (alpha, beta):
        until(partial(each, f"not {MONITORED}"), "nothing is noted")


@pytest.mark.deep
def test_processes_that_come_later_are_listened_to(alpha: Far) -> None:
    with monitoring(alpha, options=("--type", "HELLO", "--type", "MSG")) as running:
        assert running.stdout is not None
        with Far("beta") as beta:
            beta.started()
            until(lambda: beta(MONITORED), "beta is listened to")
            beta("bus.call('echo', 'abc')")
            lines = sorted(running.stdout.readline() for _ in range(5))
        interrupted(running)

    assert "alpha <-- beta  HELLO identity=beta (slave, pid " in lines[0]
    assert "beta --> alpha  MSG " in lines[1]


@pytest.mark.deep
@pytest.mark.usefixtures("alpha")
def test_it_ends_when_its_time_is_over() -> None:
    result = verb("monitor", "--timeout", "0.3", "--type", "RELEASE")
    assert (result.exit_code, result.output) == (0, "")

    result = verb("monitor", "--timeout", "1", "--type", "BYE", "--count", "1")
    assert (result.exit_code, result.stdout) == (124, "")
    assert result.stderr == "bus: received 0 of 1 frames before the timeout\n"


@pytest.mark.usefixtures("alpha")
def test_a_process_that_is_not_there_is_one_line() -> None:
    result = verb("monitor", "--process", "nobody")

    line = "bus: bus 'bus1' has no process 'nobody'\n"
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", line)


@pytest.mark.deep
def test_an_unresponsive_process_is_named_once(
    beta: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_verb, "_ANSWER_S", 0.2)
    beta.signal(signal.SIGSTOP)
    result = verb("monitor", "--timeout", "1.5")
    beta.signal(signal.SIGCONT)

    assert result.exit_code == 0
    [line] = result.stderr.splitlines()
    # Or the time left when beta was found to hold the name.
    words = r"bus: cannot query beta: no answer from 'beta': waited for 0\.[12]\d* s"
    assert re.fullmatch(words, line)


@pytest.mark.parametrize(
    ("reported", "line"),
    [
        ({"left_out": 7}, "alpha: 7 more frames"),
        (
            {"direction": "in", "other": "", "type": "BYE", "facts": {}},
            "alpha <-- ?  BYE",
        ),
        (
            {
                "direction": "out",
                "other": "far/beta",
                "type": "ACK",
                "facts": {
                    "epoch": 1795385786779621280,
                    "last": 1234567890,
                    "missing": [[1, 2], [4, 5]],
                    "taken": {"echo": 17, "b": 3},
                },
            },
            "alpha --> far/beta  ACK epoch=779621280 last=1234567890"
            " missing=[1, 2], [4, 5] taken=echo to 17, b to 3",
        ),
        (
            {
                "direction": "out",
                "other": "beta",
                "type": "SEARCH",
                "facts": {"id": "alpha?1795385786779621280", "name": "a\x1bb"},
            },
            r"alpha --> beta  SEARCH id=alpha?779621280 name=a\x1bb",
        ),
        (
            {"direction": "in", "other": "b", "type": "MSG"}
            | {"first": 9, "floor": 8, "runs": []},
            "alpha <-- b  MSG no message below 8 will be resent",
        ),
        (
            {"direction": "in", "other": "b", "type": "MSG", "first": 9, "floor": 8}
            | {"runs": [{**RUN, "count": 2}, {**RUN, "failed": True}, {"more": 5}]},
            "alpha <-- b  MSG 9 to 16: 2 command responses x -> y, 1 byte, hop 2;"
            " command response x -> y, 1 byte, hop 2, failed; 5 more messages",
        ),
    ],
)
def test_a_frame_is_one_line(reported: dict[str, Any], line: str) -> None:
    at = {"process": "alpha", "at_ns": 1_700_000_000_123_456_789}

    assert _line(at | reported) == f"22:13:20.123456Z {line}"
