"""The command ``bus``: a table of verbs, and one line for any error."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from bus import cli
from bus.cli import VERBS, Verb, main
from bus.errors import JournalError
from queuebroker.errors import UnknownBrokerError
from tests.journal.histories import clean, store
from tests.processes import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb ``boom`` that raises the exception of ``ERROR``."""

    @click.command()
    def boom() -> None:
        raise ERROR[0]

    monkeypatch.setattr(cli, "boom", boom, raising=False)
    monkeypatch.setattr(cli, "VERBS", {"boom": Verb("bus.cli:boom", "Fails.")})


ERROR: list[BaseException] = [RuntimeError()]


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_lists_every_verb_with_its_summary(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 0
    for name, each in VERBS.items():
        assert re.search(rf"^  (\S+, )?{name}[ ,]", result.output, re.MULTILINE)
        assert each.summary in result.output


def test_the_list_of_verbs_fits_a_terminal_of_80_by_24() -> None:
    """One line is left for the next prompt."""
    lines = CliRunner().invoke(main, ["--help"]).output.splitlines()

    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", ["journal", "keys", "pipeline", "socket"])
def test_no_line_of_help_is_cut_on_a_terminal_of_80_columns(name: str) -> None:
    output = CliRunner().invoke(main, [name, "--help"], terminal_width=80).output

    listed = output.partition("Commands:\n")[2]
    assert listed
    assert "..." not in listed


@pytest.mark.parametrize("name", VERBS)
def test_the_help_of_a_verb_ends_with_an_example_that_it_accepts(name: str) -> None:
    """`-h` prints it as ``--help`` does."""
    short, long = (CliRunner().invoke(main, [name, each]) for each in ("-h", "--help"))

    assert short.exit_code == 0
    assert short.output == long.output
    last = short.output.splitlines()[-1].strip()
    assert last.startswith(f"Example: bus {name}")
    parent = click.Context(main)
    words = shlex.split(last)[2:]
    while words:
        command = parent.command
        assert isinstance(command, click.Group)
        _, inner, rest = command.resolve_command(parent, words)
        assert inner is not None
        # A wrong option, value or number of arguments is a usage error.
        parent = inner.make_context(words[0], list(rest), parent=parent)
        words = rest if isinstance(inner, click.Group) else []


@pytest.mark.parametrize("name", ["tree", "list", "top", "monitor", "doctor"])
def test_an_argument_that_may_be_a_bus_is_taken_for_one(name: str) -> None:
    result = CliRunner().invoke(main, [name, "plant"])

    assert result.exit_code == 2
    assert result.stderr.endswith(
        "Got unexpected extra argument (plant). Did you mean --bus plant?\n"
    )


def test_the_table_names_commands_that_exist() -> None:
    for name in ("check", "journal"):
        module, _, attribute = VERBS[name].target.partition(":")
        assert isinstance(
            getattr(importlib.import_module(module), attribute), click.Command
        )


def test_an_unknown_verb_is_a_mistake_in_usage() -> None:
    result = CliRunner().invoke(main, ["frobnicate"])

    assert result.exit_code == 2
    assert result.stderr.endswith("Error: No such command 'frobnicate'.\n")


def test_a_mistyped_verb_is_guessed() -> None:
    """Click does so for groups whose commands are loaded."""
    result = CliRunner().invoke(main, ["tre"])

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(
        "Error: No such command 'tre'. Did you mean 'tree'?\n"
    )


@pytest.mark.deep
@pytest.mark.parametrize("arguments", [[], ["--help"], ["doctor"]])
def test_a_failed_write_to_stdout_is_one_line(arguments: list[str]) -> None:
    """Even for the help, which no verb writes; nothing more is printed at exit."""
    code = """
        import sys
        sys.stdout = open("/dev/full", "w")
        from bus.cli import main
        main()
    """

    exit_code, _, complaints = run(code, *arguments)

    assert (exit_code, complaints) == (4, "bus: No space left on device\n")


@pytest.mark.deep
@pytest.mark.parametrize("arguments", ["--help", "doctor"])
def test_output_to_a_closed_stdout_is_discarded(arguments: str) -> None:
    """The output is discarded; the exit code does not change."""
    command = f"exec {sys.executable} -m bus {arguments} >&-"

    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, check=False)

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.usefixtures("verb")
@pytest.mark.parametrize(
    ("error", "line"),
    [
        (JournalError("no journal in X"), "bus: no journal in X\n"),
        (UnknownBrokerError("no broker 'x'"), "bus: no broker 'x'\n"),
        (
            PermissionError(13, "Permission denied", "/x"),
            "bus: /x: Permission denied\n",
        ),
        (OSError("odd"), "bus: odd\n"),
        (KeyboardInterrupt(), "bus: interrupted\n"),
    ],
)
def test_an_expected_error_is_one_line_and_exit_code_4(
    error: BaseException, line: str
) -> None:
    ERROR[0] = error

    result = CliRunner().invoke(main, ["boom"])

    assert (result.exit_code, result.stderr, result.stdout) == (4, line, "")


@pytest.mark.usefixtures("verb")
def test_a_mistake_of_ours_is_not_hidden() -> None:
    ERROR[0] = RuntimeError("ours")

    result = CliRunner().invoke(main, ["boom"])

    assert result.exception is ERROR[0]


@pytest.mark.parametrize(
    ("verb", "module", "extra"),
    [("pipeline", "pyspark.sql", "all"), ("keys", "cryptography", "net")],
)
def test_a_verb_with_a_missing_library_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, verb: str, module: str, extra: str
) -> None:
    def fail(_: str) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("importlib.import_module", fail)

    result = CliRunner().invoke(main, [verb])

    assert result.exit_code == 4
    assert result.stderr == (
        f"bus: cannot run {verb}: {module.partition('.')[0]} is not installed; run"
        f' pip install ".[{extra}]" in a clone of queuebroker\n'
    )


def test_a_module_of_ours_that_is_missing_is_a_mistake_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli, "VERBS", {"gone": Verb("bus.cli.gone:gone", "Gone.")})

    result = CliRunner().invoke(main, ["gone"])

    assert isinstance(result.exception, ModuleNotFoundError)


@pytest.mark.deep
def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    store(clean(1, steps=3000), tmp_path)
    command = [sys.executable, "-m", "bus", "journal", "cat", str(tmp_path)]

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert " open\n" in process.stdout.readline()
        process.stdout.close()
        complaints = process.stderr.read()

    assert complaints == ""
    assert process.returncode in (0, 4)  # the pipe may have held all of it


def test_help_loads_no_verb() -> None:
    code = """
        import sys
        from bus.cli import main
        try:
            main(["--help"])
        finally:
            print(*sorted(name for name in sys.modules if name.startswith("bus")))
    """

    code_, answer, _ = run(code)

    loaded = answer.splitlines()[-1].split()
    assert code_ == 0
    assert [name for name in loaded if not name.startswith("bus.errors.")] == [
        *("bus", "bus.cli", "bus.errors")
    ]
