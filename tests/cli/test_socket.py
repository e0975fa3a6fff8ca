"""``bus socket listen|dial|join``: lines are messages, and messages are lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from bus.cli import main
from bus.pattern import BusSocket, PairSocket, SocketConfig
from queuebroker._net import unused_port
from specs.clauses import clause
from tests.cli.verbs import CODE
from tests.kit.systems import needs_terminal
from tests.pattern.nodes import fresh_url
from tests.processes import import_path, start
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start ``bus socket`` as a program of its own; kill it if the test fails."""
    with start(CODE, "socket", *arguments) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def say(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Close stdin, and wait for the end; return exit code, output and complaints."""
    answer, complaints = process.communicate(timeout=LIMIT_S)
    return process.returncode, answer, complaints


def address_of(process: subprocess.Popen[str]) -> str:
    """Return the address that a listener prints."""
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("bus: listening at "), line
    return line.split()[-1]


@pytest.fixture
def socket(url: str) -> Iterator[BusSocket]:
    """Yield a bus socket that listens within the machine."""
    with BusSocket() as node:
        node.listen(url)
        yield node


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Give the address of `socket`."""
    return fresh_url("local", tmp_path)


@pytest.mark.deep
@clause("BP-1")
def test_two_programs_talk_in_lines() -> None:
    with program("listen", "tcp://127.0.0.1:0") as there:
        with program("dial", address_of(there)) as here:
            say(here, "hello\n")
            assert line_of(there) == "hello\n"
            say(there, "and you\n\n")
            assert line_of(here) == "and you\n"
            assert line_of(here) == "\n"  # an empty line is a message, too

            assert ended(here) == (0, "", "")
        assert ended(there) == (0, "", "")


@pytest.mark.deep
@clause("BP-19")
def test_all_lines_of_a_file_arrive_in_order(url: str) -> None:
    """More than the queue to a peer holds; the last one lacks the end of a line."""
    lines = [f"line {number} {'x' * 100}" for number in range(5000)]
    text = "\n".join(lines)
    count = str(len(lines))
    with program("listen", url, "--count", count) as there:
        address = address_of(there)
        with program("dial", address) as here:
            answer, complaints = here.communicate(text, timeout=LIMIT_S)
        assert (here.returncode, answer, complaints) == (0, "", "")
        code, answer, complaints = ended(there)

    assert (code, complaints) == (0, "")
    assert answer.splitlines() == lines


@pytest.mark.deep
def test_at_the_end_of_stdin_the_program_ends_unless_it_counts(
    socket: BusSocket, url: str
) -> None:
    with program("dial", url, "--count", "2") as here:
        say(here, "last")
        assert here.stdin is not None
        here.stdin.close()
        here.stdin = None
        assert socket.receive(LIMIT_S) == b"last"
        for number in range(3):
            socket.send(b"%d" % number)
        assert ended(here) == (0, "0\n1\n", "")


@pytest.mark.deep
def test_lines_that_are_there_are_sent_before_the_last_message_is_printed(
    socket: BusSocket, url: str
) -> None:
    with program("dial", url, "--count", "1") as here:
        say(here, "question\n")
        assert socket.receive(LIMIT_S) == b"question"
        socket.send(b"answer")
        assert line_of(here) == "answer\n"
        assert here.wait(LIMIT_S) == 0  # though stdin goes on


FORMS = [
    ((), b"plain", "plain"),
    ((), "Grüße\t\x1b[2J\n".encode(), "Grüße\\t\\x1b[2J\\n"),
    ((), b"\xff", "\\xff"),
    (("--hex",), b"\x00\xff", "00ff"),
    (("--raw",), "a\tü\x1b".encode(), "a\tü\x1b"),
    (("--json",), "ü".encode(), '{"message": "ü"}'),
    (("--json",), b"\xff\n", '{"message": {"base64": "/wo="}}'),
]


@pytest.mark.deep
@pytest.mark.parametrize(("form", "body", "line"), FORMS)
def test_a_message_is_printed_as_one_line(
    form: tuple[str, ...], body: bytes, line: str, socket: BusSocket, url: str
) -> None:
    with program("dial", url, "--count", "1", *form) as here:
        assert socket.wait_for_peers(1, LIMIT_S)
        socket.send(body)
        answer = ended(here)

    assert answer == (0, f"{line}\n", "")
    if form == ("--json",):
        json.loads(answer[1])


@pytest.mark.deep
def test_with_hex_lines_are_digits_and_wrong_ones_are_reported(
    socket: BusSocket, url: str
) -> None:
    with program("dial", url, "--hex") as here:
        say(here, "00 ff\nxyz\n0a\n")
        code, _, complaints = ended(here)

    assert [socket.receive(LIMIT_S) for _ in range(2)] == [b"\0\xff", b"\n"]
    assert code == 1
    assert complaints == "bus: not sent, since it is not hexadecimal: 'xyz'\n"


@pytest.mark.deep
@pytest.mark.parametrize(("option", "version"), [("--pair", 0), ("--pair1", 1)])
def test_a_pair_talks_with_one_peer(option: str, version: int, url: str) -> None:
    with PairSocket(version=version) as pair, program("listen", option, url) as there:
        pair.dial(address_of(there))
        pair.send(b"ping", LIMIT_S)
        assert line_of(there) == "ping\n"
        say(there, "pong")
        assert ended(there) == (0, "", "")
        assert pair.receive(LIMIT_S) == b"pong"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--json", "--hex"), "--hex cannot be combined with --json"),
        (("--raw", "--json"), "--raw cannot be combined with --json"),
        (("--pair", "--pair1"), "--pair cannot be combined with --pair1"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    options: tuple[str, str], problem: str, url: str
) -> None:
    result = CliRunner().invoke(main, ["socket", "dial", url, *options])

    assert result.exit_code == 2
    assert problem in result.stderr


# NNG keeps threads and descriptors of a process, so it has one of its own.
_PYNNG = """
    import sys, pynng
    with pynng.Bus0(recv_timeout=30_000) as node:
        node.dial(sys.argv[1])
        print(node.recv().decode(), flush=True)
        node.send(b"from there")
        input()
"""


@pytest.mark.deep
def test_a_pynng_program_takes_part(url: str) -> None:
    with program("listen", url) as there, start(_PYNNG, address_of(there)) as node:
        say(there, "from here\n")
        assert line_of(node) == "from here\n"
        assert line_of(there) == "from there\n"
        assert ended(there) == (0, "", "")
        assert node.communicate("\n", timeout=LIMIT_S) == ("", "")


@pytest.mark.deep
def test_the_programs_of_a_multicast_group_talk() -> None:
    port = unused_port(datagrams=True)
    group = ("join", f"udp-mcast://239.255.7.3:{port}", "--source", "127.0.0.1")
    with program(*group, "--count", "1") as here, program(*group) as there:
        # A datagram sent before the other joins reaches nobody.

        def has_ended() -> bool:
            say(there, "hello\n")
            return here.poll() is not None

        until(has_ended, "it came")
        assert ended(here) == (0, "hello\n", "")
        assert ended(there) == (0, "", "")


# Ends and errors.


@pytest.mark.deep
def test_without_a_peer_the_timeout_is_the_end(url: str) -> None:
    with program("listen", url, "--timeout", "0.1") as here:
        assert ended(here) == (
            124,
            "",
            f"bus: listening at {url}\nbus: no peer has connected: waited for 0.1 s\n",
        )


@pytest.mark.deep
def test_without_a_listener_the_reason_is_printed(url: str) -> None:
    with program("dial", url, "--timeout", "1") as here:
        code, answer, complaint = ended(here)
    assert (code, answer) == (124, "")
    assert complaint.startswith(
        "bus: no peer has connected: waited for 1 s; the last attempt failed: "
    )
    assert any(each in complaint for each in ("No such file", "refused"))
    assert len(complaint.splitlines()) == 1


@pytest.mark.deep
@pytest.mark.usefixtures("socket")
def test_too_few_messages_before_the_timeout(url: str) -> None:
    with program("dial", url, "--timeout", "1", "--count", "2") as here:
        assert ended(here) == (
            124,
            "",
            "bus: received 0 of 2 messages before the timeout\n",
        )


@pytest.mark.deep
def test_an_interrupt_is_a_regular_end(socket: BusSocket, url: str) -> None:
    with program("dial", url) as here:
        assert socket.wait_for_peers(1, LIMIT_S)
        socket.send(b"x")
        assert line_of(here) == "x\n"
        here.send_signal(signal.SIGINT)
        assert ended(here) == (0, "", "")


@pytest.mark.deep
@clause("BP-4")
def test_messages_that_a_peer_does_not_read_are_reported(url: str) -> None:
    """The program ends nevertheless, in time."""
    config = SocketConfig(receive_messages=1)
    with BusSocket(config) as node, program("listen", url, "--timeout", "3") as there:
        node.dial(address_of(there))
        assert node.wait_for_peers(1, LIMIT_S)
        with node._node.lock:  # its transport waits
            answer, complaints = there.communicate("x\n" * 9, timeout=LIMIT_S)
    assert (there.returncode, answer) == (1, "")
    assert complaints == "bus: 9 messages not sent: a peer does not read\n"


@needs_terminal
@clause("BP-5")
def test_a_user_who_types_sees_at_once_that_no_peer_is_left(url: str) -> None:
    import pty  # noqa: PLC0415 # not on Windows
    import termios  # noqa: PLC0415 # likewise

    terminal, stdin = pty.openpty()
    # Else the echo of lines that nobody reads fills the terminal, and a write blocks.
    mode = termios.tcgetattr(stdin)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(stdin, termios.TCSANOW, mode)
    try:
        with subprocess.Popen(
            [sys.executable, "-c", CODE, "socket", "listen", url],
            stdin=stdin,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": import_path()},
        ) as there:
            assert there.stderr is not None
            reports = there.stderr
            with BusSocket() as node:
                node.dial(address_of(there))
                reported = "bus: connected; type lines to send, Ctrl-D to end\n"
                assert reports.readline() == reported
                os.write(terminal, b"x\n")
                assert node.receive(LIMIT_S) == b"x"
            with Threads() as threads:
                # The loss may still be unnoticed for the first lines.
                end = "dropped: no peer\n"
                line = threads.start(
                    lambda: next(each for each in reports if each.endswith(end))
                )
                until(lambda: bool(os.write(terminal, b"y\n")) and line.done, "told")
            os.write(terminal, b"\4")  # Ctrl-D
            assert there.wait(LIMIT_S) == 1
    finally:
        os.close(terminal)
        os.close(stdin)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("listen",), "Missing argument 'URL'."),
        (("dial", "nowhere"), "address of a socket must begin with one of inproc://"),
        (
            ("dial", "inproc://x"),
            "'inproc://x' must begin with abstract:// or ipc://",
        ),
        (("dial", "udp-mcast://239.1.2.3:7"), "must begin with abstract://"),
        (("join", "tcp://127.0.0.1:7"), "must begin with udp-mcast://"),
        (("dial", "tcp://host"), "tcp address must have the form tcp://host:port"),
        (("dial", "tcp://h:1", "--count", "0"), "Invalid value for '--count'"),
        (("dial", "tcp://h:1", "--timeout", "nan"), "Invalid value for '--timeout'"),
    ],
)
def test_wrong_usage_is_reported(arguments: tuple[str, ...], complaint: str) -> None:
    result = CliRunner().invoke(main, ["socket", *arguments])

    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr


@pytest.mark.usefixtures("socket")
def test_an_address_in_use_is_one_line(url: str) -> None:
    with program("listen", url) as there:
        code, answer, complaints = ended(there)
    assert (code, answer) == (4, "")
    assert complaints == (
        f"bus: cannot listen at {url}: Address already in use; choose another address,"
        " or close the other listener\n"
    )


def test_a_reader_that_closes_the_output_ends_the_program(
    socket: BusSocket, url: str
) -> None:
    with program("dial", url) as here:
        assert socket.wait_for_peers(1, LIMIT_S)
        assert here.stdout is not None
        here.stdout.close()
        here.stdout = None
        socket.send(b"x")
        assert here.wait(LIMIT_S) == 4
        assert here.stderr is not None
        assert here.stderr.read() == ""
