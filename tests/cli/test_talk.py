"""``bus call``, ``send``, ``listen``, ``wait-for``: a verb acts as a task."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.cli.verbs import MACHINE, ended_by_notifying, program, read, verb
from tests.kit.systems import needs_unix_sockets
from tests.process.real import Far
from tests.processes import start
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_unix_sockets

SILENT = "bus.register('silent') and None"


@pytest.mark.deep
@pytest.mark.usefixtures("beta")
@pytest.mark.parametrize("name", ["echo", "far", "ism://bus1@machine/far"])
def test_a_call_prints_the_answer_as_json(name: str) -> None:
    payload = {"a": [1, 2.5, None, True], "b": "Straße"}

    result = verb("call", name, json.dumps(payload))

    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == payload
    assert read("call", name, '"x"') == "x"


@pytest.mark.usefixtures("alpha")
def test_text_is_printed_as_it_is_where_the_output_can_carry_it() -> None:
    """Characters that a terminal would obey are still escaped."""
    assert verb("call", "echo", '"ü€\U0001f600"').stdout == '"ü€\U0001f600"\n'
    assert verb("call", "echo", '"ü\\u009b\\u202e"').stdout == '"ü\\u009b\\u202e"\n'


@pytest.mark.deep
@pytest.mark.usefixtures("alpha")
def test_text_is_escaped_where_the_output_cannot_carry_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The output is still JSON."""
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")

    with program("call", "echo", '"ü\U0001f600"') as calling:
        output = calling.communicate(timeout=LIMIT_S)

    assert output == ('"\\u00fc\\ud83d\\ude00"\n', "")


def test_call_prints_values_that_json_cannot_express(alpha: Far) -> None:
    array = "__import__('array').array('h', [1, -2])"
    answer = f"{{'a': {array}, 'b': b'\\x00\\xff', 'n': float('nan'), 't': (1, 2)}}"
    alpha(f"bus.register('odd', on_command=lambda _: {answer}) and None")

    assert read("call", "odd") == {
        "a": [1, -2],
        "b": {"base64": "AP8="},
        "n": "nan",
        "t": [1, 2],
    }


def test_a_task_that_fails_is_one_line(alpha: Far) -> None:
    alpha("bus.register('bad', on_command=lambda _: 1 // 0) and None")

    result = verb("call", "bad", "1")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("bus: 'bad' failed: ZeroDivisionError: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.deep
def test_a_task_that_does_not_answer_is_a_timeout(alpha: Far) -> None:
    alpha(SILENT)

    result = verb("call", "silent", "1", "--timeout", "2")

    assert (result.exit_code, result.stdout) == (124, "")
    assert result.stderr == "bus: no answer from 'silent': waited for 2 s\n"


@pytest.mark.deep
@pytest.mark.usefixtures("alpha")
@pytest.mark.parametrize("name", ["call", "send"])
def test_a_name_that_no_task_has_is_one_line(name: str) -> None:
    result = verb(name, "nobody", "1", "--timeout", "0.3")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "bus: cannot deliver to 'nobody': no task has that name: waited for 0.3 s; "
        "check the name, or start the program that registers it\n"
    )


@pytest.mark.deep
@pytest.mark.parametrize("name", ["call", "send"])
@pytest.mark.parametrize("to", ["far", "ism://bus1@machine/far"])
def test_a_hung_process_is_a_timeout_and_not_an_unknown_name(
    beta: Far, name: str, to: str
) -> None:
    beta.signal(signal.SIGSTOP)
    result = verb(name, to, "1", "--timeout", "0.5")
    beta.signal(signal.SIGCONT)

    assert (result.exit_code, result.stdout) == (124, "")
    assert result.stderr == f"bus: no answer from {to!r}: waited for 0.5 s\n"


@pytest.mark.deep
@pytest.mark.usefixtures("beta")
@pytest.mark.parametrize("name", ["call", "send"])
def test_a_name_of_another_machine_is_unresolved_here(name: str) -> None:
    result = verb(name, "ism://bus1@other/far", "1", "--timeout", "0.1")

    assert (result.exit_code, result.stdout) == (1, "")
    assert "'ism://bus1@other/far': no task has that name: " in result.stderr
    assert result.stderr.endswith("both machines have opened the bus with a network\n")


@pytest.mark.usefixtures("alpha")
@pytest.mark.parametrize("name", ["call", "send"])
def test_a_payload_that_cannot_be_sent_is_one_line(name: str) -> None:
    result = verb(name, "echo", '"\\ud800"')

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "bus: cannot send payload: str holds a lone surrogate: at 0; send it as bytes,"
        " value.encode(errors='surrogatepass')\n"
    )


@pytest.mark.deep
def test_send_returns_after_the_task_has_taken_the_command(
    alpha: Far, beta: Far
) -> None:
    for number in range(3):
        result = verb("send", "far", number)
        assert (result.exit_code, result.output) == (0, "")
    assert read("send", "echo", "[1]") == {"sent": "echo"}

    assert beta("made['far'].got") == [0, 1, 2]
    assert alpha("made['echo'].got") == [[1]]


@pytest.mark.deep
def test_a_command_sent_to_a_task_that_does_not_read_stays_unread(alpha: Far) -> None:
    alpha(SILENT)

    result = verb("send", "silent", "7", "--timeout", "2")

    assert (result.exit_code, result.output) == (0, "")
    [shelf] = [
        task
        for process in read("tree")["processes"]
        for thread in process["threads"]
        for task in thread["tasks"]
        if task["name"] == "silent"
    ]
    assert shelf["commands"]["unread"] == 1


@pytest.mark.deep
def test_listen_prints_one_line_for_each_notification(beta: Far) -> None:
    beta("made.update({'clock/a': bus.register('clock/a')})")

    with program("listen", "clock/*", "--count", "2") as listening:
        answer = ended_by_notifying(listening, beta, "clock/a")
    assert answer == 'clock/a {"from": "clock/a"}\n' * 2
    assert listening.returncode == 0

    with program("listen", "clock/a", "--json", "--count", "1") as listening:
        [line] = ended_by_notifying(listening, beta, "clock/a").splitlines()
    assert json.loads(line) == {
        "sender": "ism://bus1@machine/clock/a",
        "gap": 0,
        "payload": {"from": "clock/a"},
    }


@pytest.mark.deep
def test_listen_ends_quietly_when_its_output_is_closed(beta: Far) -> None:
    """As the verbs do that print once."""
    beta("made.update(clock=bus.register('clock'))")

    with program("listen", "clock") as listening:
        assert listening.stdout is not None
        listening.stdout.close()
        listening.stdout = None
        assert ended_by_notifying(listening, beta, "clock") is None
    assert listening.returncode == 4


@pytest.mark.deep
def test_listening_that_cannot_write_is_one_line(beta: Far) -> None:
    """An error raised in a callback would not end the verb."""
    beta("made.update(clock=bus.register('clock'))")

    def over() -> bool:
        beta("made['clock'].notify(1)")
        return listening.poll() is not None

    code = """
        import sys
        sys.stdout = open("/dev/full", "w")
        from bus.cli import main
        main()
    """

    with start(code, "listen", *MACHINE, "clock", "--count", "2") as listening:
        until(over, "it has ended")
        _, complaints = listening.communicate(timeout=LIMIT_S)

    line = "bus: No space left on device\n"
    assert (listening.returncode, complaints) == (4, line)


@pytest.mark.deep
def test_listening_ends_at_an_interrupt_and_that_is_well(alpha: Far) -> None:
    alpha("made.update(clock=bus.register('clock'))")
    received: list[str] = []

    with program("listen", "clock") as listening:
        assert listening.stdout is not None
        assert listening.stderr is not None
        # It receives once the master has its subscription.
        remote = "bus._node.comm.remote"
        peers = f"len({remote}.subscribed_peers(made['clock']._entry))"
        until(lambda: alpha(peers) == 1, "it listens")
        alpha("made['clock'].notify(1)")
        received.append(listening.stdout.readline())
        listening.send_signal(signal.SIGINT)
        complaints = listening.stderr.read()

    assert received == ["clock 1\n"]
    assert (listening.returncode, complaints) == (0, "")


@pytest.mark.usefixtures("alpha")
def test_listening_ends_when_its_time_is_over() -> None:
    result = verb("listen", "echo", "--timeout", "0.1")
    assert (result.exit_code, result.output) == (0, "")

    result = verb("listen", "echo", "--timeout", "0.1", "--count", "1")
    assert (result.exit_code, result.stdout) == (124, "")
    line = "bus: received 0 of 1 notifications before the timeout\n"
    assert result.stderr == line


@pytest.mark.usefixtures("beta")
def test_wait_for_returns_at_once_for_a_registered_task() -> None:
    assert verb("wait-for", "far").stdout == "ism://bus1@machine/far\n"
    assert read("wait-for", "echo", "--timeout", LIMIT_S) == {
        "name": "echo",
        "address": "ism://bus1@machine/echo",
    }


@pytest.mark.deep
def test_a_name_is_waited_for_though_there_is_no_bus_yet(
    own_run_directory: Path,
) -> None:
    with program("wait-for", "late", "--timeout", str(LIMIT_S)) as waiting:
        until((own_run_directory / "bus1").is_dir, "it waits")
        with Far("alpha", role="master") as far:
            far.started()
            assert waiting.poll() is None
            far("counter('late')")
            answer, complaints = waiting.communicate(timeout=LIMIT_S)

    nobody = f"no program of bus 'bus1' runs: looked in {own_run_directory}/bus1"
    assert (waiting.returncode, complaints) == (0, f"bus: {nobody}; waiting\n")
    assert answer == "ism://bus1@machine/late\n"


@pytest.mark.parametrize("there", [False, True], ids=["no bus", "a bus"])
def test_wait_for_waits_no_longer_than_its_timeout(
    there: bool, request: pytest.FixtureRequest, own_run_directory: Path
) -> None:
    """If the name of the bus is mistyped, the error says that no process is on it."""
    nobody = f"no program of bus 'bus1' runs: looked in {own_run_directory}/bus1"
    reported = f"bus: {nobody}; waiting\nbus: {nobody}: waited for 0.2 s\n"
    if there:
        request.getfixturevalue("alpha")
        reported = (
            "bus: no task has the name 'nobody' on bus 'bus1': waited for 0.2 s\n"
        )

    result = verb("wait-for", "nobody", "--timeout", "0.2")

    assert (result.exit_code, result.stdout) == (124, "")
    assert result.stderr == reported
