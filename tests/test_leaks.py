"""The fixture finds every thread, descriptor and file that a test leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from queuebroker._platform import SYSTEM
from tests.leaks import Snapshot
from tests.support import Threads

_HERE = Path(__file__).parent

# One test leaves one of each kind behind; its neighbours must not be blamed. Its file
# is in a folder of its own: tests that run meanwhile see every file in /dev/shm.
_LEAKY = """
import os, threading
from pathlib import Path
import pytest

held = threading.Event()

def test_clean(): pass
def test_leaky():
    threading.Thread(target=held.wait, name="straggler", daemon=True).start()
    os.open("/dev/null", os.O_RDONLY)
    Path("{shm}/bus-leaked").touch()
@pytest.mark.spark
def test_exempt(): os.open("/dev/zero", os.O_RDONLY)
def test_clean_again(): pass
def test_exception_in_a_thread():
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
"""


def test_nothing_new_is_no_leak() -> None:
    assert Snapshot.take().leaks() == []


def test_a_thread_that_is_ending_is_waited_for() -> None:
    before = Snapshot.take()
    go = threading.Event()

    def release_later() -> None:
        go.wait()

    with Threads() as threads:
        threads.start(release_later)
        assert [one for one in before.leaks(settle_s=0.01) if "release_later" in one]
        go.set()
        assert before.leaks() == []


@pytest.mark.skipif(SYSTEM == "windows", reason="no list of open descriptors here")
def test_a_descriptor_opened_in_the_place_of_another_is_seen() -> None:
    first = os.open(os.devnull, os.O_RDONLY)
    before = Snapshot.take()
    os.close(first)
    second = os.open("/dev/zero", os.O_RDONLY)
    try:
        assert second == first
        assert before.leaks(settle_s=0) == [f"descriptor {second} -> /dev/zero is open"]
    finally:
        os.close(second)


def test_shared_memory_held_by_another_process_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "bus-held"
    before = Snapshot.take(tmp_path)
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD.format(path=path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == b"held\n"
            shared = [one for one in before.leaks(settle_s=0) if str(path) in one]
            assert shared == []
        finally:
            holder.stdin.close()
    assert holder.returncode == 0

    assert before.leaks(settle_s=0) == [f"{path} is left"]


def test_a_file_of_another_library_is_not_ours(tmp_path: Path) -> None:
    before = Snapshot.take(tmp_path)
    (tmp_path / "11402.zenoh").touch()
    assert before.leaks(settle_s=0) == []
    (tmp_path / "psm_1a2b").touch()
    assert before.leaks(settle_s=0) == [f"{tmp_path}/psm_1a2b is left"]


_HOLD = """
import sys
with open("{path}", "wb"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.deep
def test_the_fixture_fails_exactly_the_tests_that_leak(tmp_path: Path) -> None:
    shm = tmp_path / "shm"
    shm.mkdir()
    outcomes = _run(tmp_path, shm, _LEAKY.format(shm=shm))

    # The leak fails the teardown, so the test itself has passed before.
    assert {line.split(" - ")[0] for line in outcomes} == {
        "PASSED tests/test_leaky.py::test_clean",
        "PASSED tests/test_leaky.py::test_leaky",
        "ERROR tests/test_leaky.py::test_leaky",
        "PASSED tests/test_leaky.py::test_exempt",
        "PASSED tests/test_leaky.py::test_clean_again",
        "FAILED tests/test_leaky.py::test_exception_in_a_thread",
    }
    reported = "\n".join(outcomes)
    assert "thread 'straggler' runs" in reported
    assert "/dev/null is open" in reported
    assert f"{shm}/bus-leaked is left" in reported


def _run(root: Path, shm: Path, text: str) -> list[str]:
    """Run a test file under our own conftest and settings; return its outcomes.

    shm: the folder that the conftest takes for /dev/shm.
    """
    tests = root / "tests"
    # All helpers, since the conftest may import any of them.
    shutil.copytree(
        _HERE, tests, ignore=shutil.ignore_patterns("test_*.py", "__pycache__")
    )
    snapshot = tests / "leaks" / "snapshot.py"
    ours = snapshot.read_text().replace('Path("/dev/shm")', f"Path({str(shm)!r})")
    assert str(shm) in ours
    snapshot.write_text(ours)
    shutil.copy(_HERE.parent / "pyproject.toml", root)
    file = tests / "test_leaky.py"
    file.write_text(text)
    answer = subprocess.run(
        # By its name: a search of the folder would load every conftest.
        [*(sys.executable, "-m", "pytest", "-n0", "-rA", "--tb=no", "-q"), file],
        cwd=root,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
        timeout=100,
        env={**os.environ, "COLUMNS": "400", "TEST_DEEP": "1"},  # with the exempt test
    )
    words = ("PASSED", "FAILED", "ERROR")
    lines = [line for line in answer.stdout.splitlines() if line.startswith(words)]
    assert lines, answer.stdout
    return lines
