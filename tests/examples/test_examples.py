"""Each example runs in a fresh interpreter and prints the expected text, no warning."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / "examples"

_PRINTS = {
    "echo.py": ["is anybody there?"],
    "echo_asyncio.py": ["a coroutine was here", "and so was a thread"],
    "ping_pong.py": [f"{('ping', 'pong')[i % 2]} {i + 1}" for i in range(10)],
    "send_file.py": ["send_file.py: {size} bytes, as they were sent"],
    "many_clients.py": [
        *(f"client-{i} came 3 times" for i in range(5)),
        "cannot accept on port 80: broker 'server' is closed",
    ],
    "good_bye.py": [
        "left is disconnected",
        "right is half-disconnected with 2 unread",
        "right dropped 1",
        "right received one last thing",
        "right received good-bye",
        "right is disconnected",
        "right: cannot send: 'right' port 1 was disconnected by 'left'",
    ],
    "first_of_two.py": [
        "ann: rent",
        "bob: bill",
        "ann: tax",
        "ann: love",
        "everybody has hung up",
    ],
    "echo_between_processes.py": ["is anybody there?"],
    "hello_bus.py": ["6"],
    "http_house.py": ['200 {{"heat":true}}', '200 {{"heat":false}}', "404 Not Found"],
    "ticket_office.py": [
        "seats sold: 1 2 3 4 5",
        "on display: 1 2 3 4 5",
        "3 customers came too late",
    ],
    "weather_service.py": [
        "north 64.4 66.2 87.8",
        "south 75.2 91.4 78.8",
        "too warm: north 31, south 33",
    ],
    "greenhouse.py": [
        "here: control logger sensor",
        "log: 18 27 31 24 17",
        "window: opens at 31 and closes at 17",
        "exit codes: 0 0 0",
    ],
    "moving_task.py": [
        "counted from 1 to 600 in 600 calls",
        "lived in one two one two one two",
        "exit codes: 0 0",
    ],
    "house.py": [
        "cellar is here: True",
        "kitchen shows 20",
        "kitchen shows 60",
        "cellar is here: False",
        "nobody has the name ism://cellar/boiler",
        "cellar is here: True",
        "kitchen shows 20",
        "kitchen shows 65",
        "exit codes: 0 -9 0",
    ],
    "ticker_with_nng.py": [
        "broker sees: ACME 17.20",
        "broker sees: ACME 17.35",
        "broker sees: BOLT 4.10",
        "display sees: ACME 17.20",
        "display sees: ACME 17.35",
        "display sees: BOLT 4.10",
        "exchange sees: buy 100 BOLT",
        "display sees: buy 100 BOLT",
        "exchange sees: display 7 is on",
        "broker sees: display 7 is on",
        "exchange: sent 3 messages to a peer of another library",
        "exchange: sent 3 messages to a peer of this package",
    ],
    "two_buses_and_a_device.py": [
        "  ann     bob                cem     dee",
        "   |       |                  |       |",
        "===+=======+===[ device ]=====+=======+===",
        "     left                       right",
        "",
        "ann receives from bob, cem, dee",
        "bob receives from ann, cem, dee",
        "cem receives from ann, bob, dee",
        "dee receives from ann, bob, cem",
        "the device received 2 messages from the left",
        "the device received 2 messages from the right",
        "messages that arrived twice: 0",
    ],
    "typed_readings.py": [
        "no reading: roof 21.7",
        "roof: 3 readings, 22.5 degrees on average",
    ],
}

_SHOWN = re.compile(r"^```text\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


def _steps_on_the_page() -> list[str]:
    """Return what the page about the blocks shows of `control_blocks.py`."""
    page = _FOLDER.parent / "docs" / "explanation" / "control-blocks.md"
    shown = _SHOWN.findall(page.read_text(encoding="utf-8"))
    return "\n\n".join(shown).splitlines()


_PRINTS["control_blocks.py"] = [*_steps_on_the_page(), ""]

_NEEDS = {"ticker_with_nng.py": "pynng", "http_house.py": "starlette"}

# How many frames the viewers miss depends on the machine.
_VARIES = {"camera.py"}

# tests/conformance tests it against the contract instead: it prints nothing itself.
_ELSEWHERE = {"naive_broker.py"}


@pytest.mark.deep
@pytest.mark.parametrize("name", sorted(_PRINTS))
def test_an_example_prints_its_expected_output(name: str) -> None:
    path = _FOLDER / name
    needed = _NEEDS.get(name)
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}, of the extra test")

    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    # On a busy machine asyncio's debug mode logs slow callbacks; that is not a fault.
    slow = [line for line in ran.stderr.splitlines() if "Executing <" in line]
    assert ran.stderr.splitlines() == slow
    expected = [line.format(size=path.stat().st_size) for line in _PRINTS[name]]
    assert ran.stdout.splitlines() == expected
    assert ran.returncode == 0


# Commands that run another one on a machine with a limit.
_LIMITS = {
    "no limit": [],
    "64 descriptors": ["sh", "-c", 'ulimit -n 64 && exec "$@"', "sh"],
    "full /dev/shm": [
        *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c"),
        "mount -t tmpfs -o size=4k none /dev/shm && echo >/dev/shm/full"
        ' && ! echo 2>/dev/null >/dev/shm/another && exec "$@"',
        "sh",
    ],
}


@pytest.mark.deep
@pytest.mark.parametrize("limit", _LIMITS)
def test_each_viewer_of_the_camera_knows_how_many_frames_it_missed(limit: str) -> None:
    prefix = _LIMITS[limit]
    if (
        "unshare" in prefix
        and subprocess.run([*prefix, "true"], check=False).returncode
    ):
        pytest.skip("needs a mount namespace of its own")
    path = str(_FOLDER / "camera.py")
    camera = [sys.executable, "-W", "error", path, "--seconds", "1"]

    ran = subprocess.run(
        [*prefix, *camera],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    first, memory, *reports, last = ran.stdout.splitlines()
    assert first == "camera: 30 frames of 4 MiB"
    assert re.fullmatch(r"camera: [1-9]\d* of 90 went by shared memory", memory)
    found = [
        re.fullmatch(r"(\w+): (\d+) seen, (\d+) missed, 0 wrong", each)
        for each in reports
    ]
    viewers = [each.groups() for each in found if each is not None]
    assert [each[0] for each in viewers] == ["hall", "door", "slow"]
    for _, seen, missed in viewers:
        assert int(seen) + int(missed) == 30
    assert int(viewers[2][2]) > 10
    assert last == "exit codes: 0 0 0"
    assert ran.stderr == ""


def test_no_example_is_forgotten() -> None:
    present = {path.name for path in _FOLDER.glob("*.py")}

    assert present == set(_PRINTS) | _ELSEWHERE | _VARIES
