"""``python -m queuebroker.testing``: its output and exit codes."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from queuebroker.testing.command import main

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLOCK = """
    from threading import Lock, Thread

    left, right = Lock(), Lock()

    def forward():
        with left, right:
            pass

    def backward():
        with right, left:
            pass

    def program():
        print("something that nobody wants to read a thousand times")
        Thread(target=forward, name="forward").start()
        Thread(target=backward, name="backward").start()

    print("neither this")

    def alone():
        forward()

    def given_a_run(run):
        run.spawn(forward)
        run.spawn(backward)

    def wants_more(run, one, other):
        pass

    nothing = 3
    """


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Write a file into the current folder; return its name."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> str:
        Path(name).write_text(inspect.cleandoc(text) + "\n", encoding="utf-8")
        return name

    return write


@pytest.fixture
def file(write: Callable[[str, str], str]) -> str:
    return write("forks.py", DEADLOCK)


def test_the_command_reports_a_fault_and_exits_with_1(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([file])

    out, err = capsys.readouterr()
    assert code == 1
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "deadlock: no thread can continue: forward, backward"
    assert any(re.search(r"forward +takes left +forks\.py:6", line) for line in lines)
    assert lines[-1].startswith("replay with: python -m queuebroker.testing forks.py")
    assert "nobody wants to read" not in out


def test_the_printed_command_replays_the_fault(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([file])
    story = capsys.readouterr().out
    (command,) = re.findall(r"replay with: python -m queuebroker\.testing (.+)", story)

    code = main(command.split())

    again = capsys.readouterr().out
    assert code == 1
    assert again == (
        f"neither this\nsomething that nobody wants to read a thousand times\n{story}"
    )


@pytest.mark.parametrize("form", ["[0, 0, 0, 0, 1]", "0,0,0,0,1", "0, 0, 0, 0, 1"])
def test_choices_are_taken_as_a_story_writes_them(file: str, form: str) -> None:
    assert main([file, "--replay", form]) == 1


def test_the_command_reports_a_schedule_that_holds(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([file, "--replay", "0"])

    assert code == 0
    assert capsys.readouterr().out.endswith("forks.py held under this schedule\n")


def test_a_program_that_holds_is_one_line_and_the_exit_code_is_0(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([f"{file}:alone", "--seed", "5", "--schedules", "9"])

    assert code == 0
    assert capsys.readouterr() == (
        "forks.py:alone held in 10 schedules, all up to 2 preemptions,"
        " and within lines in 10 schedules, all up to 1 preemption (seed 5)\n",
        "",
    )


def test_the_bound_is_that_of_both_searches(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([f"{file}:alone", "--bound", "0", "--schedules", "2", "--seed", "5"])

    assert code == 0
    assert capsys.readouterr().out == (
        "forks.py:alone held in 3 schedules, all up to 0 preemptions,"
        " and within lines in 3 schedules, all up to 0 preemptions (seed 5)\n"
    )


def test_a_program_may_take_the_run(file: str) -> None:
    assert main([f"{file}:given_a_run"]) == 1


def test_a_seed_with_an_index_is_one_run(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([f"{file}:alone", "--seed", "5:2"])

    assert code == 0
    assert capsys.readouterr().out == (
        "forks.py:alone held in 1 schedule, and within lines in 1 schedule (seed 5:2)\n"
    )


UNGUARDED = """
    from threading import Thread

    votes = 0

    def vote():
        global votes
        votes += 1

    def program():
        voters = [Thread(target=vote, name=name) for name in ("Ann", "Bob")]
        for voter in voters:
            voter.start()
        for voter in voters:
            voter.join()
        print("counted")
        assert votes == 2, votes
    """


def test_the_command_finds_an_unguarded_update_within_a_line(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = write("votes.py", UNGUARDED)

    assert main([file, "--seed", "1"]) == 1

    story = capsys.readouterr().out
    assert "exception: main raised AssertionError: 1" in story
    assert "Ann is stopped here; Bob goes on" in story
    (command,) = re.findall(r"replay with: python -m queuebroker\.testing (.+)", story)
    assert " --replay bytecode:0," in command
    assert main(command.split()) == 1
    assert capsys.readouterr().out == f"counted\n{story}"


def test_a_file_may_only_import_its_program(write: Callable[[str, str], str]) -> None:
    write("votes.py", UNGUARDED)

    assert main([write("main.py", "from votes import program"), "--seed", "1"]) == 1


@pytest.mark.deep
def test_global_variables_are_new_in_every_run(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(
        "counts.py",
        """
        import dataclasses
        from threading import Condition, Thread

        @dataclasses.dataclass
        class State:
            total: int = 0

        state, changed = State(), Condition()

        def count():
            with changed:
                state.total += 1
                changed.notify_all()

        def program():
            assert state.total == 0
            for _ in range(2):
                Thread(target=count).start()
            with changed:
                changed.wait_for(lambda: state.total == 2)
        """,
    )

    assert main([file]) == 0, capsys.readouterr().out


def test_modules_beside_the_file_are_explored_with_it(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    write("beside.py", DEADLOCK)
    file = write("main.py", "from beside import program")
    path, modules = list(sys.path), set(sys.modules)

    assert main([file]) == 1

    out = capsys.readouterr().out
    assert "deadlock: no thread can continue: forward, backward" in out
    assert "beside.py:6" in out
    assert sys.path == path
    assert {"beside", "__explored__"} & (set(sys.modules) - modules) == set()


def test_the_command_reports_an_uncontrolled_program_and_exits_with_1(
    write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(
        "wires.py",
        """
        import socket

        def program():
            socket.create_connection(("localhost", 1))
        """,
    )

    assert main([file]) == 1
    assert "socket.socket cannot be explored" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "the following arguments are required: FILE[:program]"),
        (["forks.py", "--bound", "-1"], "'-1' is no number"),
        (["forks.py", "--bound=x"], "'x' is no number of 0 or more"),
        (["forks.py", "--schedules=1.5"], "'1.5' is no number of 1 or more"),
        (["forks.py", "--schedules=0"], "'0' is no number of 1 or more"),
        (["forks.py", "--seed=today"], "'today' is no number, nor number:number"),
        (["forks.py", "--replay=a,b"], "'a,b' are no numbers with commas between"),
        (["forks.py", "--faster"], "unrecognized arguments: --faster"),
        (["missing.py"], "cannot read missing.py: No such file or directory"),
        (["."], "cannot read .: "),  # a directory; Windows: permission denied
        (["forks.py:missing"], "forks.py:missing does not exist"),
        (["forks.py:nothing"], "forks.py:nothing is no function"),
        (["forks.py:wants_more"], "takes other arguments than none or a run"),
        (["broken.py"], "cannot execute broken.py: SyntaxError"),
        (["leaves.py"], "cannot execute leaves.py: SystemExit: 3"),
        (["raises.py"], "cannot execute raises.py: LookupError: two lines"),
    ],
)
def test_wrong_usage_is_one_line_and_the_exit_code_is_2(
    write: Callable[[str, str], str],
    file: str,
    arguments: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("broken.py", "def program(:")
    write("leaves.py", "raise SystemExit(3)")
    write("raises.py", r"raise LookupError('two\nlines')")

    code = main(arguments)

    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("queuebroker.testing: ")
    assert complaint in err
    assert len(err.splitlines()) == 1


NEVER_RUN = """
    async def program():
        assert False

    def generator(run):
        assert False
        yield

    called = lambda: program()
    """


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("program", "never.py:program"),
        ("generator", "never.py:generator"),
        ("called", "program"),  # the run notices once it has returned
    ],
)
@pytest.mark.parametrize("options", [[], ["--replay", "0"]], ids=["explore", "replay"])
@pytest.mark.filterwarnings("error")
def test_a_program_that_would_not_run_is_wrong_usage(
    write: Callable[[str, str], str],
    capsys: pytest.CaptureFixture[str],
    name: str,
    reported: str,
    options: list[str],
) -> None:
    file = write("never.py", NEVER_RUN)

    assert main([f"{file}:{name}", *options]) == 2

    assert capsys.readouterr() == (
        "",
        f"queuebroker.testing: {reported} must be a plain function: calling a coroutine"
        " function or a generator runs nothing of it\n",
    )


def test_the_command_leaves_an_object_in_place_of_a_module_alone(
    write: Callable[[str, str], str],
) -> None:
    """It may be any object, and only modules are treated as modules."""
    write(
        "beside.py",
        """
        import sys

        class Settings:
            __file__ = __file__
            answer = 42

        sys.modules[__name__] = Settings()
        """,
    )
    file = write(
        "main.py",
        """
        import beside

        def program():
            assert beside.answer == 42
        """,
    )

    assert main([file, "--schedules", "3"]) == 0


def test_under_a_debugger_it_says_so(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before 3.12 a thread can have one trace function, and the debugger uses it."""
    threading.settrace(lambda *_: None)
    try:
        code = main([f"{file}:alone", "--schedules", "3"])
    finally:
        threading.settrace(None)

    said = capsys.readouterr().err
    if sys.version_info >= (3, 12):
        assert (code, said) == (0, "")
    else:
        assert code == 2
        assert said.startswith("queuebroker.testing: cannot stop at each bytecode")
        assert len(said.splitlines()) == 1


def test_a_seed_of_any_search_is_taken(file: str) -> None:
    assert main([f"{file}:alone", "--seed", "5:pct:2"]) == 0


def test_it_is_a_command(file: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "queuebroker.testing", file],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )

    assert ran.returncode == 1
    assert ran.stdout.startswith("deadlock: no thread can continue: forward, backward")
    assert ran.stderr == ""
    assert not Path("__pycache__").exists()
