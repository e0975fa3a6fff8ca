"""A bus on macOS and on Windows, by programs without the calls that these lack.

Linux stands in for them: see `queuebroker._platform`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Final

import pytest

from bus.support import CAPABILITIES, FACILITIES
from tests.processes import import_path

if TYPE_CHECKING:
    from pathlib import Path

_STAND_INS: Final = {"Linux": "", "macOS": "posix", "Windows": "windows"}

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux stands in for other systems"
)


def run(system: str, *command: str) -> str:
    """Return the output of a Python program on a system; it must end without error."""
    environment = {
        **os.environ,
        "PYTHONPATH": import_path(),
        "QUEUEBROKER_PORTABLE": _STAND_INS[system],
    }
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_code(system: str, code: str, *arguments: str) -> str:
    """Run a program that is given as text."""
    return run(system, "-c", textwrap.dedent(code), *arguments)


@pytest.mark.parametrize("system", FACILITIES)
def test_the_table_names_the_parts_that_each_system_has(system: str) -> None:
    found = run_code(
        system,
        """
        from bus.support import here
        print(*sorted(each.name for each in here()))
        """,
    )
    assert found.split() == sorted(each.name for each in FACILITIES[system])


def test_the_table_has_the_missing_capabilities_of_each_system() -> None:
    lacking = {
        system: {each.name for each in CAPABILITIES if each.on(has) != "yes"}
        for system, has in FACILITIES.items()
    }
    assert lacking == {
        "Linux": set(),
        "macOS": {"long messages in shared memory"},
        "Windows": {
            "sockets at a path (`ipc://`)",
            "a bus between processes of a machine",
            "commands for a live bus: `bus call`, `bus list`, `bus record` and others",
            "`bus.pattern` over `ipc`",
            "long messages in shared memory",
            "access lists by user and group (`AccessList`)",
        },
    }


@pytest.mark.parametrize("system", FACILITIES)
def test_the_doctor_lists_the_missing_capabilities(system: str) -> None:
    found = json.loads(run(system, "-m", "bus", "doctor", "--json"))
    facts = [each["fact"] for each in found if each["what"] == "system"]
    expected = [
        f"{each.name}: {each.on(FACILITIES[system])}"
        for each in CAPABILITIES
        if each.on(FACILITIES[system]) != "yes"
    ]
    assert facts == expected


_ASKS: Final = """
import os, sys
from bus import open_bus
with open_bus() as bus:
    long = os.urandom(1 << 20)
    answer = bus.call("echo", long)
    assert type(answer) is memoryview
    assert answer == long
"""


def test_processes_of_a_machine_exchange_long_messages_on_macos() -> None:
    run_code(
        "macOS",
        """
        import subprocess, sys
        from bus import open_bus
        with open_bus() as bus:
            bus.register("echo", on_command=lambda message: message.payload)
            subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
            assert bus.inspect().shared_memory is None
        """,
        _ASKS,
    )


def test_tasks_of_one_process_exchange_messages_on_windows() -> None:
    answer = run_code(
        "Windows",
        """
        from bus import open_bus
        with open_bus() as bus:
            bus.register("double", on_command=lambda message: 2 * message.payload)
            print(bus.call("double", 21))
        """,
    )
    assert answer == "42\n"


_FIRST_USES: Final = {
    "a slave": "bus.open_bus('other', role=bus.Role.SLAVE)",
    "a second process": (
        "subprocess.run([sys.executable, '-c', 'import bus; bus.open_bus()'],"
        " check=True, stderr=1)"
    ),
    "a broker": "SocketQueueBroker('here', listen='ipc:///tmp/here')",
    "a bus socket": "BusSocket().listen('ipc:///tmp/here')",
    "a command": "subprocess.run([*BUS, 'list'], check=True, stderr=1)",
    "the demo": (
        "subprocess.run([*BUS, 'demo', '--processes', '4', '--no-spark'], check=True,"
        " stderr=1)"
    ),
}


@pytest.mark.parametrize("use", _FIRST_USES)
def test_the_first_use_of_a_unix_socket_names_the_missing_part(use: str) -> None:
    answer = run_code(
        "Windows",
        f"""
        import subprocess, sys
        import bus
        from bus.pattern import BusSocket
        from queuebroker.sockets import SocketQueueBroker
        BUS = [sys.executable, "-m", "bus"]
        with bus.open_bus():
            try:
                {_FIRST_USES[use]}
            except (OSError, subprocess.CalledProcessError) as error:
                print(error)
        """,
    )
    lacking = "UNIX sockets, which this system lacks", "this system has no UNIX sockets"
    assert any(each in answer for each in lacking)


def test_messages_are_printed_while_no_line_is_typed_on_windows() -> None:
    """It waits for sockets alone, and the standard input is none."""
    answer = run_code(
        "Windows",
        """
        import subprocess, sys
        from bus.pattern import BusSocket
        with BusSocket() as node:
            url = node.listen("tcp://127.0.0.1:0").url
            command = [sys.executable, "-m", "bus", "socket", "dial", url]
            pipe = subprocess.PIPE
            with subprocess.Popen(command, stdin=pipe, stdout=pipe) as verb:
                node.wait_for_peers(1, 30)
                node.send(b"first")
                print(verb.stdout.readline().decode())
                verb.stdin.write(b"second")
                verb.stdin.close()
                print(node.receive(30).decode())
        """,
    )
    assert answer.split() == ["first", "second"]


_OTHER_MACHINE: Final = """
import sys
from bus import Network, open_bus
network = Network(listen="127.0.0.1:0", peers=[sys.argv[1]])
with open_bus(machine="b", network=network) as bus:
    bus.wait_for("ism://a/double", timeout=30)
    print(bus.call("ism://a/double", 21, timeout=30))
"""


@pytest.mark.deep
def test_processes_are_machines_of_their_own_on_windows(tmp_path: Path) -> None:
    answer = run_code(
        "Windows",
        """
        import os, subprocess, sys
        from bus import Network, open_bus
        from queuebroker import _net
        _, code, folder = sys.argv
        place = f"127.0.0.1:{_net.unused_port()}"
        with open_bus(machine="a", network=Network(listen=place)) as bus:
            bus.register("double", on_command=lambda message: 2 * message.payload)
            other = {**os.environ, "BUS_RUN_DIR": folder}
            subprocess.run([sys.executable, "-c", code, place], check=True, env=other)
        """,
        _OTHER_MACHINE,
        str(tmp_path),
    )
    assert answer == "42\n"


def test_the_doctor_takes_a_running_bus_for_no_fault_on_windows(tmp_path: Path) -> None:
    """It cannot join the bus, so the listener may be that bus or another program."""
    states = run_code(
        "Windows",
        """
        import json, subprocess, sys
        from pathlib import Path
        from bus import Network, open_bus
        from queuebroker import _net
        place = f"127.0.0.1:{_net.unused_port()}"
        file = sys.argv[1]
        Path(file).write_text(f'listen = "{place}"')
        doctor = sys.executable, "-m", "bus", "doctor", "--json", "--network", file
        with open_bus(machine="a", network=Network(listen=place)):
            found = json.loads(subprocess.run(doctor, stdout=subprocess.PIPE).stdout)
        about = "bus", "listen"
        print(*(each["state"] for each in found if each["what"].startswith(about)))
        """,
        str(tmp_path / "network.toml"),
    )
    assert states == "warn warn\n"


@pytest.mark.deep
def test_a_recording_is_replayed_by_a_machine_of_its_own_on_windows(
    tmp_path: Path,
) -> None:
    answer = run_code(
        "Windows",
        """
        import os, subprocess, sys
        from pathlib import Path
        from threading import Event
        from bus import Network, open_bus
        from bus.journal.writer import Journal
        from queuebroker import _net
        folder = Path(sys.argv[1])
        with Journal(folder / "rec", payloads=True) as journal:
            with open_bus(journal=journal) as bus:
                bus.register("log").subscribe("clock", print)
                bus.register("clock").notify("tick")
        place = f"127.0.0.1:{_net.unused_port()}"
        settings = f'listen = "127.0.0.1:0"\\npeers = ["{place}"]\\n'
        (folder / "network").write_text(settings)
        came = Event()
        with open_bus(machine="a", network=Network(listen=place)) as bus:
            reader = bus.register("reader")
            reader.subscribe("ism://b/clock", lambda message: came.set())
            options = "--machine", "b", "--network", str(folder / "network")
            command = [sys.executable, "-m", "bus", "replay", str(folder / "rec")]
            other = {**os.environ, "BUS_RUN_DIR": str(folder / "run")}
            subprocess.run([*command, *options], check=True, env=other)
            print("came", came.wait(10))
        """,
        str(tmp_path),
    )
    assert answer.endswith("came True\n")


@pytest.mark.deep
def test_the_demo_in_threads_is_recorded_and_checked_on_windows(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_bytes(bytes(1000 * number))
    options = "--no-spark", "--out", str(tmp_path / "out")
    shown = run("Windows", "-m", "bus", "demo", *options, str(tmp_path))
    assert "the pass is equal" in shown
    assert "found by Q2" in shown
    journal = str(tmp_path / "out" / "journal")
    assert "PASS" in run("Windows", "-m", "bus", "check", journal)


def test_a_run_that_fails_leaves_no_folder_on_windows(tmp_path: Path) -> None:
    """It removes no file that is open."""
    run_code(
        "Windows",
        """
        import os, sys
        from pathlib import Path
        from bus.pipeline.folder import claimed
        out, remove = Path(sys.argv[1], "out"), os.unlink

        def unlink(path):
            opened = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")]
            if any(os.path.realpath(each) == str(path) for each in opened):
                raise PermissionError(13, "another process uses it", str(path))
            remove(path)

        os.unlink = unlink
        try:
            with claimed(out):
                raise InterruptedError
        except InterruptedError:
            pass
        assert not out.exists()
        """,
        str(tmp_path.resolve()),
    )


@pytest.mark.parametrize("system", FACILITIES)
def test_a_file_has_one_writer_at_a_time_and_the_bytes_that_it_wrote(
    system: str, tmp_path: Path
) -> None:
    run_code(
        system,
        """
        import os, sys
        from pathlib import Path
        from queuebroker import _files
        folder = Path(sys.argv[1])
        flags = os.O_RDWR | os.O_CREAT | _files.BINARY
        one, other = (os.open(folder / "file", flags) for _ in range(2))

        _files.allocate(one, 3 << 20)
        text = b"a\\r\\n\\x1a"
        assert _files.pwrite(one, text, 1 << 20) == len(text)
        _files.sync(one)
        assert os.fstat(other).st_size == 3 << 20
        assert _files.pread(other, len(text), 1 << 20) == text

        def is_locked(descriptor):
            try:
                _files.lock(descriptor)
            except BlockingIOError:
                return True
            return False

        at = os.lseek(one, 7, os.SEEK_SET)
        _files.lock(one)
        assert os.lseek(one, 0, os.SEEK_CUR) == at
        assert is_locked(other)
        assert _files.pread(other, len(text), 1 << 20) == text
        os.close(one)
        assert not is_locked(other)

        one, other = (os.open(*_files.to_lock(folder)) for _ in range(2))
        _files.lock(one)
        assert is_locked(other)
        _files.sync_folder(folder)
        """,
        str(tmp_path),
    )
