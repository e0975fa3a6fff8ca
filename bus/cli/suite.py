"""Runs the conformance suite with pytest for ``bus conformance``.

The suite is run from its installed path, with a configuration of its own: the user's
pytest configuration is for the user's tests. pytest's exit codes and usage errors are
mapped to those of `bus`. This module is imported only when the verb runs, since pytest
is an extra.
"""

from __future__ import annotations

import importlib.util
import os
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import pytest

from specs.conformance.level import LEVEL_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

__all__ = ["run_suite"]

_DONE, _FAILED, _USAGE, _ERROR = 0, 1, 2, 4

# pytest.ExitCode; anything else (interrupted, internal error, nothing run) is an error.
_EXIT_CODES: Final = {0: _DONE, 1: _FAILED, 4: _USAGE}

_PLUGIN: Final = "queuebroker.testing.plugin"


class _Refusal:
    """A pytest plugin that reports usage errors in the form of `bus`."""

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_main(self) -> Generator[None, int, int]:
        try:
            return (yield)
        except pytest.UsageError as error:
            click.echo(f"bus: {error}", err=True)
            return pytest.ExitCode.USAGE_ERROR

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        # Hides the line "no tests ran in ... s".
        if exitstatus == pytest.ExitCode.USAGE_ERROR:
            session.config.option.verbose = -2


def run_suite(level: str, subject: str, pytest_args: Sequence[str]) -> int:
    """Test all clauses that an implementation offers; return the exit code.

    subject: ``FILE:factory`` or ``module:factory``.
    """
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
        # Modules loaded before pytest are not rewritten by it, and need not be.
        *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
        "--disable-warnings",
        "--no-header",
        "-rN",
        "-q",
        *pytest_args,
    ]
    return _EXIT_CODES.get(int(pytest.main(arguments, [_Refusal()])), _ERROR)


def _plugin() -> str:
    """Return the name of the plugin's entry point, or its module if it has none.

    If pytest has loaded the entry point, it refuses the plugin by another name, as
    registered twice.
    """
    for entry in metadata.entry_points(group="pytest11"):
        if entry.value == _PLUGIN:
            return entry.name
    return _PLUGIN
