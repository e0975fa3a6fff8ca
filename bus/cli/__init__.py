"""The command ``bus``: one table of verbs, each imported on first use.

``bus --help`` must respond at once, so a verb's module is imported only to run it, and
its line of help stands in the table. Exit codes are the same for every verb: 0 done or
all PASS, 1 failed or any FAIL, 2 usage, 3 only UNKNOWN, 4 error, 124 timed out. A
user's mistake is reported in one line, never as a traceback.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import attrs
import click

from bus.errors import BusError
from queuebroker._files import escape_output
from queuebroker.errors import QueueBrokerError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["main"]

ERROR: Final = 4
_OURS: Final = ("bus", "queuebroker", "specs")


@attrs.frozen
class Verb:
    """The location of a verb ("module:command"), and its line of help.

    extra: the extra that has the packages of the verb.
    """

    target: str
    summary: str
    extra: str = "all"


_COMMANDS: Final = "Send a command; call prints the answer."
_ACTIVITY: Final = "Show the activity in the terminal, in a browser."
_RECORDINGS: Final = "Record notifications, and send them again."

VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "demo": Verb("bus.demo.verb:demo", "Index a folder, and check the record."),
        "tree": Verb(
            "bus.features.watching.verb:tree",
            "Show the processes and tasks of a live bus.",
        ),
        "list": Verb("bus.features.watching.verb:list_names", "List the public names."),
        "top": Verb("bus.features.watching.verb:top", _ACTIVITY),
        "web": Verb("bus.web.verb:web", _ACTIVITY, "web"),
        "metrics": Verb(
            "bus.features.metrics.verb:metrics",
            "Serve the metrics of a bus to Prometheus.",
            "metrics",
        ),
        "monitor": Verb(
            "bus.features.watching.monitor_verb:monitor",
            "Show the frames on the links.",
        ),
        "machines": Verb(
            "bus.features.machines.verb:machines",
            "Show the other machines, and their links.",
        ),
        "shm": Verb(
            "bus.features.memory.verb:shm", "Show the shared memory of each process."
        ),
        "route": Verb(
            "bus.features.watching.route_verb:route", "Show how a name is reached."
        ),
        "call": Verb("bus.cli.talk:call", _COMMANDS),
        "send": Verb("bus.cli.talk:send", _COMMANDS),
        "listen": Verb("bus.cli.talk:listen", "Print the notifications of tasks."),
        "socket": Verb(
            "bus.pattern.verb:socket", "Exchange lines with nanomsg and NNG."
        ),
        "record": Verb("bus.cli.record:record", _RECORDINGS),
        "replay": Verb("bus.cli.replay:replay", _RECORDINGS),
        "wait-for": Verb("bus.cli.talk:wait_for", "Wait until a task has this name."),
        "bench": Verb("bus.cli.bench:bench", "Measure commands between two processes."),
        "doctor": Verb("bus.cli.doctor:doctor", "Check that a bus can run."),
        "keys": Verb(
            "bus.features.machines.keys_verb:keys",
            "Make and show keys for several machines.",
            "net",
        ),
        "check": Verb("bus.cli.check:check", "Check recorded traffic."),
        "journal": Verb(
            "bus.cli.journal:journal", "List, show, copy and compare journals."
        ),
        "pipeline": Verb("bus.cli.pipeline:pipeline", "Check journals with Spark."),
        "conformance": Verb(
            "bus.cli.conformance:conformance", "Test your own broker, clause by clause."
        ),
    }
)


class LazyGroup(click.Group):
    """A click group with the commands of `VERBS`."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        if sys.stdout is None:  # closed by the parent process
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 # to the end
        escape_output()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # the help cannot be written
            _fail_by_system(error)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS and not ctx.resilient_parsing:
            from difflib import get_close_matches  # noqa: PLC0415 # rarely needed

            if near := " or ".join(map(repr, get_close_matches(args[0], VERBS))):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near}?")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002 - click's
        verb = VERBS.get(name)
        if verb is None:
            return None
        module, _, attribute = verb.target.partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing in _OURS:
                raise
            from bus.requirements import install  # noqa: PLC0415 - for errors only

            hint = install(verb.extra)
            _fail(f"cannot run {name}: {missing} is not installed; run {hint}")
        except Exception as error:
            from bus.requirements import explain  # noqa: PLC0415 - for errors only

            try:
                explain(error)
            except ImportError as cause:
                _fail(f"cannot run {name}: {cause}")
            raise
        assert isinstance(command, click.Command)
        return command

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs and little else: all of it fits a terminal of 24 lines."""
        # Verbs that belong together share a summary, and so a line.
        names: dict[str, list[str]] = {}
        for name, verb in VERBS.items():
            names.setdefault(verb.summary, []).append(name)
        formatter.write_usage(ctx.command_path, "[-h] [--version] VERB [ARGS]...")
        formatter.indent()
        formatter.write_dl([(", ".join(each), line) for line, each in names.items()])
        formatter.write_text("bus VERB -h explains a verb, with an example.")
        formatter.dedent()

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _with_suggestion(error) from None
        except BrokenPipeError:
            _discard_output()  # the reader has closed the pipe
            sys.exit(ERROR)
        except KeyboardInterrupt:
            _fail("interrupted")
        except (BusError, QueueBrokerError) as error:
            _fail(str(error))
        except OSError as error:
            _fail_by_system(error)


def _with_suggestion(error: click.UsageError) -> click.UsageError:
    """Add ``--bus NAME`` to the complaint about an argument that may be a bus."""
    verb = error.ctx and error.ctx.command
    takes_bus = verb and any("--bus" in each.opts for each in verb.params)
    extra = re.fullmatch(r"Got unexpected extra argument \((\S+)\)", error.message)
    if not (takes_bus and extra):
        return error
    hint = f"{error.message}. Did you mean --bus {extra[1]}?"
    return click.UsageError(hint, error.ctx)


def _discard_output() -> None:
    """Redirect stdout, so that the flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail_by_system(error: OSError) -> NoReturn:
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
    where = f"{error.filename}: " if error.filename else ""
    _fail(f"{where}{error.strerror or error}")


def _fail(message: str) -> NoReturn:
    click.echo(f"bus: {message}", err=True)
    sys.exit(ERROR)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="queuebroker", prog_name="bus")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Inspect a live bus, send messages on it, and check recorded traffic."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
