"""The common part of the verbs for a live bus: their options, and how they join it.

A verb joins as a slave, so that it never becomes master, unless it stands for the
programs of a recording.
"""

from __future__ import annotations

import functools
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import click

from bus.api.membership import open_bus
from bus.cli.exits import ERROR, USAGE, fail, one_line
from bus.cli.queries import CONNECT_S_MIN, find_master
from bus.cli.run_directory import access_to, is_served, remedy, served_buses, user_id
from bus.cli.target import Target
from bus.errors import AccessDeniedError
from bus.features.machines.machine_keys import MachineKeys
from bus.features.machines.network import Network
from bus.model.address import check_bus_name, check_machine_name, fresh_name
from bus.model.config import BusConfig
from bus.model.registration import Role
from bus.process.run_directory import run_base
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus.api.bus import Bus
    from bus.kernel.trace import Journal

__all__ = [
    "joined",
    "live_options",
    "parsed",
    "served",
    "unserved",
]


def live_options(
    default_s: float | None, *, bus: str | None = "bus1"
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options common to all verbs for a live bus.

    The verb receives them as a `Target`, its first argument.

    default_s: the default of ``--timeout``, in seconds; None for no limit.
    bus: the default of ``--bus``; None if the verb can do without a bus. The name in
      the target is "" then.
    """
    shown = "for ever" if default_s is None else f"{default_s:g}"
    options = (
        click.option(
            "--bus",
            "bus_name",
            default=bus,
            show_default=bus is not None,
            metavar="NAME",
            callback=parsed(_legal(check_bus_name)),
            help="Name of the bus.",
        ),
        click.option(
            "--machine",
            metavar="NAME",
            callback=parsed(_legal(check_machine_name)),
            help="Machine name that its processes use.  [default: that of the keys in"
            " --network, else the host's name]",
        ),
        click.option(
            "--owner",
            metavar="USER",
            callback=parsed(user_id),
            help="User who owns the bus and is trusted.  [default: you]",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            default=None if default_s is None else str(default_s),
            callback=parsed(_seconds),
            metavar="SECONDS",
            help=f"How long to wait.  [default: {shown}]",
        ),
        click.option(
            "--network",
            metavar="FILE",
            callback=parsed(Network.read),
            help="TOML file of the links with other machines.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    )

    def decorated(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def run(
            *args: Any,
            bus_name: str | None,
            machine: str | None,
            owner: int | None,
            timeout_s: float | None,
            network: Network | None,
            as_json: bool,
            **kwargs: Any,
        ) -> None:
            with one_line():
                place = bus_name or "", machine
                target = Target(*place, as_json, timeout_s, owner, network)
                verb(target, *args, **kwargs)

        decorated_run: Callable[..., None] = run
        for option in reversed(options):
            decorated_run = option(decorated_run)
        return decorated_run

    return decorated


def parsed(parse: Callable[[str], Any]) -> Callable[..., Any]:
    """Return a click callback that parses a text; a failure is a usage error.

    parse: raises TypeError, ValueError, OSError or RecursionError for an invalid text.
    """

    def read(_: object, __: object, text: str | None) -> Any:
        if text is None:
            return None
        try:
            return parse(text)
        except (TypeError, ValueError) as error:
            raise click.BadParameter(str(error)) from None
        except OSError as error:
            fact = f"cannot read {error.filename or text}: {error.strerror or error}"
            raise click.BadParameter(fact) from None
        except RecursionError:
            raise click.BadParameter("is nested too deeply") from None

    return read


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < _sync.WAIT_S_MAX:
        raise ValueError(f"{text!r} is not a number of seconds")
    return seconds


def _legal(check: Callable[[str], None]) -> Callable[[str], str]:
    def legal(name: str) -> str:
        check(name)
        return name

    return legal


@contextmanager
def joined(
    target: Target,
    *,
    patient: bool = False,
    role: Role = Role.SLAVE,
    journal: Journal | None = None,
) -> Iterator[Bus]:
    """Join a bus for the duration of a block; a context manager.

    patient: True if the bus may have no process yet.
    role: the role of this process; a slave unless it stands for a program.
    journal: as for `open_bus`.
    """
    try:
        certified = _certified_machine(target.network)
    except ValueError as error:
        fail(str(error), USAGE)
    if not patient:
        _check_served(target)
    config = BusConfig(access=access_to(target))
    if target.timeout_s is not None:
        longest = min(config.connect_timeout_s, target.timeout_s)
        wait_s = max(CONNECT_S_MIN, longest)
        config = attrs.evolve(config, connect_timeout_s=wait_s)
    process = fresh_name("cli")
    machine = target.machine or certified
    try:
        bus = open_bus(
            target.bus,
            role=role,
            process=process,
            machine=machine,
            config=config,
            network=target.network,
            journal=journal,
        )
    except ValueError as error:
        fail(str(error), ERROR)  # the text includes the remedy
    except AccessDeniedError as error:
        if machine is None and error.fact.startswith("machine "):
            fail(f"{error}; give the machine name of that bus with --machine")
        raise
    with bus:
        if not patient:
            find_master(bus, 0.0)
        yield bus


def _certified_machine(network: Network | None) -> str | None:
    """Return the machine that the keys of a network name; None without keys.

    Raises:
        OSError, AccessDeniedError, ValueError: see `MachineKeys`.
    """
    if network is None or network.keys is None:
        return None
    return MachineKeys(network.keys).machine


def served(target: Target) -> bool:
    """Return True if a bus has a process; exit if its run directory cannot be used."""
    try:
        return is_served(target)
    except (AccessDeniedError, ValueError) as error:
        _fail_with_remedy(target, error)
    except OSError as error:
        if error.filename is None:
            # From `RunDirectory`; the text includes the remedy.
            fail(str(error.strerror), ERROR)
        fact = f"{error.filename or run_base()}: {error.strerror}"
        where = f"cannot join bus {target.bus!r}: {fact}"
        fail(f"{where}; {remedy(target, error)}", ERROR)


def _fail_with_remedy(
    target: Target, error: AccessDeniedError | ValueError
) -> NoReturn:
    """Print why the run directory cannot hold the bus, and the remedy; exit."""
    fail(f"{error}; {remedy(target, error)}", ERROR)


def unserved(target: Target) -> str:
    """Return a message that no program has opened a bus; "" if one has.

    The message names the folder that was searched, and the buses that run.
    """
    if served(target):
        return ""
    fact = f"no program of bus {target.bus!r} runs: looked in {run_base() / target.bus}"
    options = ", ".join(f"--bus {name}" for name in served_buses())
    return f"{fact}; buses that run: {options}" if options else fact


def _check_served(target: Target) -> None:
    """Exit unless a bus has a process."""
    if message := unserved(target):
        start = f"start one that calls open_bus({target.bus!r})"
        fail(f"{message}; {start}, or give the --bus and BUS_RUN_DIR of one that runs")
