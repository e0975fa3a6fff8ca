"""``bus conformance FILE:factory``: the channel contract against any implementation.

Runs the suite of ``specs.conformance`` by its installed path, with a configuration of
its own: what stands in the user's pytest configuration is meant for the user's tests.
pytest's exit codes are turned into those of `bus`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib import metadata
from pathlib import Path

import click

__all__ = ["conformance"]

_DONE, _FAILED, _USAGE, _ERROR = 0, 1, 2, 4

# pytest.ExitCode; anything else (interrupted, internal error, nothing run) is an error.
_EXIT_CODES = {0: _DONE, 1: _FAILED, 4: _USAGE}

_PLUGIN = "queuebroker.testing.plugin"


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option(
    "--level",
    type=click.Choice(["quick", "full"]),
    default="quick",
    show_default=True,
    help="How many schedules to try.",
)
@click.argument("subject", metavar="FILE:factory")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def conformance(level: str, subject: str, pytest_args: tuple[str, ...]) -> None:
    """Test an implementation of the channel contract, clause by clause.

    FILE:factory (or module:factory) names a function without arguments that returns
    an object with broker(name). What follows it goes to pytest, such as -x or
    -k QB-DISC. Ends with 0 if all clauses hold that the implementation offers, 1 if
    some do not.
    """
    if importlib.util.find_spec("pytest") is None:
        click.echo(
            "bus: cannot run conformance: pytest is missing, pip install pytest",
            err=True,
        )
        sys.exit(_ERROR)
    sys.exit(_run(level, subject, pytest_args))


def _run(level: str, subject: str, pytest_args: tuple[str, ...]) -> int:
    import pytest  # noqa: PLC0415 - an extra; the other verbs do without it

    from specs.conformance.level import LEVEL_VARIABLE  # noqa: PLC0415 - likewise

    os.environ[LEVEL_VARIABLE] = level
    suite = importlib.util.find_spec("specs.conformance")
    assert suite is not None
    assert suite.origin is not None
    arguments = [
        str(Path(suite.origin).parent),
        f"--conformance={subject}",
        *("-p", _plugin()),
        *("-p", "no:cacheprovider"),
        *("-c", os.devnull),
        f"--rootdir={Path.cwd()}",
        "--import-mode=importlib",
        # What is loaded before pytest is not rewritten by it, and need not be.
        *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
        "--disable-warnings",
        "--no-header",
        "-rN",
        "-q",
        *pytest_args,
    ]
    return _EXIT_CODES.get(int(pytest.main(arguments)), _ERROR)


def _plugin() -> str:
    """The plugin by the name under which pytest knows it already, if it does.

    By another name it would be registered twice, which pytest refuses.
    """
    for entry in metadata.entry_points(group="pytest11"):
        if entry.value == _PLUGIN:
            return entry.name
    return _PLUGIN
