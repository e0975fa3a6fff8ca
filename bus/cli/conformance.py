"""``bus conformance FILE:factory``: the channel contract against any implementation."""

from __future__ import annotations

import importlib.util
import sys

import click

__all__ = ["conformance"]

_ERROR = 4


# Unknown options, and arguments after the subject, are pytest's. The options of this
# verb may stand on either side of the subject.
@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example: bus conformance my_broker.py:factory",
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
    an object with broker(name). Further arguments are passed to pytest, such as -x or
    -k QB-DISC. Exits with 0 if all clauses hold that the implementation offers, with 1
    if some do not.
    """
    if importlib.util.find_spec("pytest") is None:
        click.echo(
            "bus: cannot run conformance: pytest is not installed; run"
            " pip install pytest",
            err=True,
        )
        sys.exit(_ERROR)
    from bus.cli.suite import run_suite  # noqa: PLC0415 - needs pytest, an extra

    sys.exit(run_suite(level, subject, pytest_args))
