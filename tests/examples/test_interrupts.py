"""Ctrl-C ends the programs of the docs that run until then, quietly and in order."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.site import Site
from tests.processes import import_path
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
_BLOCK = re.compile(r"^```\n(from .*?|import .*?)^```$", re.MULTILINE | re.DOTALL)
# Background jobs of a shell ignore interrupts, and their children would, too.
_HEAD = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
_AGAIN_S = 10.0  # much longer than it takes to close a bus
# Reached only if the interrupt has left no traceback.
_TAIL = "print(bus)\n"


def programs(page: str) -> list[str]:
    """Return the programs of a page that open the bus of a machine."""
    found = _BLOCK.findall((_HOW_TO / page).read_text(encoding="utf-8"))
    return [each for each in found if "open_bus(" in each]


def start(folder: Path, program: str) -> subprocess.Popen[str]:
    """Start a program of a page in a folder, with its run directory there."""
    return subprocess.Popen(
        [sys.executable, "-u", "-c", _HEAD + program + _TAIL],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": import_path(),
            "BUS_RUN_DIR": str(folder / "run"),
        },
    )


@pytest.fixture
def house() -> Iterator[dict[str, Path]]:
    """Yield a folder for each laptop, with keys and settings for this host."""
    # A short path, since the length of a socket path is limited.
    with tempfile.TemporaryDirectory(prefix="bus") as folder:
        yield furnish(Path(folder))


def furnish(top: Path) -> dict[str, Path]:
    site = Site(top)
    ports = dict(zip(("kitchen", "cellar"), site.ports.values(), strict=True))
    folders = {}
    for name, port in ports.items():
        folder = top / name
        folder.mkdir(0o700)
        shutil.copytree(site.issue(name), folder / f"{name}.keys")
        (folder / "network.toml").write_text(
            f'listen = "127.0.0.1:{port}"\n'
            f"peers = {[f'127.0.0.1:{each}' for each in ports.values()]}\n"
            f'keys = "{name}.keys"\n'
        )
        folders[name] = folder
    return folders


def interrupt(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Interrupt a program, which closes its bus; return its exit code and its log.

    A signal that arrives between the interpreter's last check for signals and the sleep
    of the thread is handled only after the next one: a user presses Ctrl-C again.
    """
    process.send_signal(signal.SIGINT)
    try:
        answer, log = process.communicate(timeout=_AGAIN_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        answer, log = process.communicate(timeout=LIMIT_S)
    assert answer.endswith(" closed>\n"), log
    return process.returncode, log


def complaints(log: str) -> list[str]:
    """Return the lines of a log, but for the machine's own address among the peers."""
    return [each for each in log.splitlines() if "this machine" not in each]


@pytest.mark.deep
def test_the_programs_of_two_laptops_end_quietly(house: dict[str, Path]) -> None:
    """Each dials the other and itself: both have the same list of peers."""
    boiler, kitchen = programs("two-laptops.md")
    with (
        start(house["cellar"], boiler) as far,
        start(house["kitchen"], kitchen) as near,
    ):
        try:
            assert far.stdout is not None
            assert near.stdout is not None
            assert far.stdout.readline() == "switched to: on\n"
            # On a busy host, calls may fail before the machines are linked.
            assert "{'boiler': 'on'}\n" in near.stdout
            near_code, near_log = interrupt(near)
            far_code, far_log = interrupt(far)
            assert (near_code, far_code) == (0, 0)
            assert complaints(near_log) == complaints(far_log) == []
        finally:
            near.kill()
            far.kill()


@pytest.mark.deep
def test_the_programs_that_wait_for_commands_end_quietly(
    house: dict[str, Path],
) -> None:
    listening = programs("connect-machines.md")[0]
    settings = 'Network(listen="192.168.1.7", keys="cellar.keys")'
    assert settings in listening
    program = listening.replace(settings, 'Network.read("network.toml")')
    assert "    main.run()\n" in program
    program = program.replace("    main.run()", "    print(1)\n    main.run()")
    with start(house["cellar"], program) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "1\n"
            code, log = interrupt(process)
            assert (code, complaints(log)) == (0, [])
        finally:
            process.kill()
