"""Each fault is found at once, and the chapter about them shows the real output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from queuebroker.testing.command import main

_ROOT = Path(__file__).parents[2]
_FOLDER = _ROOT / "examples" / "faults"
_CHAPTER = _ROOT / "docs" / "how-to" / "find-races.md"

_LINES_MAX = 20

# File, start of its story, and the schedules within which it must be found.
_FAULTS = {
    "lost_wakeup.py": ("lost wake-up: reader sleeps, main notified it too early", 20),
    "deadlock_by_lock_order.py": ("deadlock: no thread can continue: Plato, Zeno", 10),
    "check_then_act.py": ("exception: Ann raised AssertionError: {'balance': -40}", 10),
    "if_for_while.py": ("exception: Ann raised IndexError: pop from empty list", 200),
    "notify_for_notify_all.py": ("lost wake-up: Bob sleeps, its predicate", 20),
}

_TOLD = re.compile(
    r"^```console\n\$ python -m queuebroker\.testing (\S+\.py)\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@pytest.fixture(autouse=True)
def in_their_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to the folder of the chapter's reader, so that places are short."""
    monkeypatch.chdir(_FOLDER)


def test_no_fault_is_forgotten() -> None:
    present = {path.name for path in _FOLDER.glob("*.py")}

    assert present == set(_FAULTS)
    assert [name for name, _ in _TOLD.findall(_CHAPTER.read_text())] == list(_FAULTS)


@pytest.mark.parametrize("name", _FAULTS)
def test_a_fault_fits_on_a_screen(name: str) -> None:
    lines = (_FOLDER / name).read_text(encoding="utf-8").splitlines()

    assert len(lines) <= _LINES_MAX
    assert [line for line in lines if "queuebroker" in line] == []


@pytest.mark.parametrize("name", _FAULTS)
def test_a_fault_is_found_within_a_few_schedules(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    begins, schedules = _FAULTS[name]

    code = main([name, "--schedules", str(schedules), "--seed", "1"])

    story = capsys.readouterr().out
    assert code == 1
    assert story.startswith(begins)
    assert "seed:" not in story  # the exhaustive search has found it, not luck


@pytest.mark.parametrize("name", _FAULTS)
def test_the_chapter_shows_the_story_that_the_command_prints(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = dict(_TOLD.findall(_CHAPTER.read_text(encoding="utf-8")))

    main([name])

    assert capsys.readouterr().out == output[name]


@pytest.mark.parametrize("name", _FAULTS)
def test_the_command_at_the_end_of_a_story_repeats_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = dict(_TOLD.findall(_CHAPTER.read_text(encoding="utf-8")))
    (command,) = re.findall(
        r"^replay with: python -m queuebroker\.testing (.+)$",
        output[name],
        re.MULTILINE,
    )

    assert main(command.split()) == 1

    assert capsys.readouterr().out == output[name]


# The corrections in the chapter: text, and its replacement.
_CURES = {
    "lost_wakeup.py": (
        "    if empty:\n        with box:\n            box.wait()\n",
        "    with box:\n        box.wait_for(lambda: letters)\n",
    ),
    "deadlock_by_lock_order.py": (
        "(right_fork, left_fork)",
        "(left_fork, right_fork)",
    ),
    "check_then_act.py": (
        "    if enough:\n        with lock:\n            account",
        "        if enough:\n            account",
    ),
    "if_for_while.py": ("if not bread", "while not bread"),
    "notify_for_notify_all.py": ("hall.notify()", "hall.notify_all()"),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", _CURES)
def test_the_advice_of_the_chapter_cures_the_fault(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = _CURES[name]
    text = (_FOLDER / name).read_text(encoding="utf-8")
    assert text.count(before) == 1
    (tmp_path / name).write_text(text.replace(before, after), encoding="utf-8")

    code = main([str(tmp_path / name), "--schedules", "400", "--seed", "1"])

    assert code == 0, capsys.readouterr().out
