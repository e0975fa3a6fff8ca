"""The common part of the verbs for a live bus: options, joining, queries, errors.

A verb joins as a slave, so that it never becomes master. It queries the master for the
processes of the machine, and then each process about itself (`bus.api.inspector`). Each
error is one line and an exit code: 124 for a timeout, 4 if the run directory cannot
hold a bus, else 1.
"""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

import attrs
import click

from bus.address import Address, check_bus_name, check_machine_name, fresh_name
from bus.api.inspector import inspector_of
from bus.api.membership import open_bus
from bus.cli.place import access_to, is_served, remedy, user_id
from bus.cli.target import Target
from bus.config import BusConfig
from bus.errors import (
    AccessDeniedError,
    BusError,
    CommandTimeoutError,
    UnresolvedError,
)
from bus.journal.wording import printable
from bus.links.run_directory import run_base
from bus.registration import Visibility
from bus.role import Role
from queuebroker import _sync
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bus.api.bus import Bus
    from bus.message import Response

__all__ = [
    "FAILED",
    "FORBIDDEN",
    "TIMED_OUT",
    "Answers",
    "ask",
    "fail",
    "has_name",
    "is_here",
    "joined",
    "live_options",
    "look_around",
    "one_line",
    "others",
    "parsed",
    "pause",
    "served",
    "silence",
    "to_json",
    "unserved",
]

FAILED: Final = 1
FORBIDDEN: Final = 4  # by the system; see the exit codes in `bus.cli`
TIMED_OUT: Final = 124
_ANSWER_S: Final = 10.0  # for each answer, if the verb itself has no timeout
_CONNECT_S_MIN: Final = 1.0  # for the master, even if the timeout is shorter
_POLL_S: Final = 0.05  # between two checks for a master


def parsed(parse: Callable[[str], Any]) -> Callable[..., Any]:
    """Return a click callback that parses a text; a failure is a usage error.

    parse: raises ValueError or RecursionError for an invalid text.
    """

    def read(_: object, __: object, text: str | None) -> Any:
        if text is None:
            return None
        try:
            return parse(text)
        except (ValueError, RecursionError) as error:
            raise click.BadParameter(str(error)) from None

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


def live_options(
    default_s: float | None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options common to all verbs for a live bus.

    The verb receives them as a `Target`, its first argument.

    default_s: the default of ``--timeout``, in seconds; None for no limit.
    """
    shown = "for ever" if default_s is None else f"{default_s:g}"
    options = (
        click.option(
            "--bus",
            "bus_name",
            default="bus1",
            show_default=True,
            metavar="NAME",
            callback=parsed(_legal(check_bus_name)),
            help="Name of the bus.",
        ),
        click.option(
            "--machine",
            metavar="NAME",
            callback=parsed(_legal(check_machine_name)),
            help="Machine name that its processes use.  [default: the host's name]",
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
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    )

    def decorated(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def run(
            *args: Any,
            bus_name: str,
            machine: str | None,
            owner: int | None,
            timeout_s: float | None,
            as_json: bool,
            **kwargs: Any,
        ) -> None:
            with one_line():
                target = Target(bus_name, machine, as_json, timeout_s, owner)
                verb(target, *args, **kwargs)

        decorated_run: Callable[..., None] = run
        for option in reversed(options):
            decorated_run = option(decorated_run)
        return decorated_run

    return decorated


@contextmanager
def one_line() -> Iterator[None]:
    """Print an error of the bus in one line, and exit; a context manager."""
    try:
        yield
    except CommandTimeoutError as error:
        fail(str(error), TIMED_OUT)
    except BusError as error:
        fail(str(error))


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Print an error message in one line on stderr, and exit with a code."""
    click.echo(f"bus: {printable(message)}", err=True)
    sys.exit(code)


@contextmanager
def joined(target: Target, *, patient: bool = False) -> Iterator[Bus]:
    """Join a bus as a slave for the duration of a block; a context manager.

    patient: True if the bus may have no process yet.
    """
    if not patient:
        _check_served(target)
    config = BusConfig(access=access_to(target))
    if target.timeout_s is not None:
        longest = min(config.connect_timeout_s, target.timeout_s)
        wait_s = max(_CONNECT_S_MIN, longest)
        config = attrs.evolve(config, connect_timeout_s=wait_s)
    process = fresh_name("cli")
    try:
        bus = open_bus(
            target.bus,
            role=Role.SLAVE,
            process=process,
            machine=target.machine,
            config=config,
        )
    except ValueError as error:
        fail(str(error), FORBIDDEN)  # the text includes the remedy
    except AccessDeniedError as error:
        if target.machine is None and error.fact.startswith("machine "):
            fail(f"{error}; give the machine name of that bus with --machine")
        raise
    with bus:
        if not patient:
            _master(bus, 0.0)
        yield bus


def served(target: Target) -> bool:
    """Return True if a bus has a process; exit if its run directory cannot be used."""
    try:
        return is_served(target)
    except (AccessDeniedError, ValueError) as error:
        _fail_with_remedy(target, error)
    except OSError as error:
        if error.filename is None:
            # From `RunDirectory`; the text includes the remedy.
            fail(str(error.strerror), FORBIDDEN)
        fact = f"{error.filename or run_base()}: {error.strerror}"
        where = f"cannot join bus {target.bus!r}: {fact}"
        fail(f"{where}; {remedy(target, error)}", FORBIDDEN)


def _fail_with_remedy(
    target: Target, error: AccessDeniedError | ValueError
) -> NoReturn:
    """Print why the run directory cannot hold the bus, and the remedy; exit."""
    fail(f"{error}; {remedy(target, error)}", FORBIDDEN)


def unserved(target: Target) -> str:
    """Return a message that a bus has no process, with its folder; "" if it has one."""
    if served(target):
        return ""
    return f"bus {target.bus!r} has no process: looked in {run_base() / target.bus}"


def _check_served(target: Target) -> None:
    """Exit unless a bus has a process."""
    if message := unserved(target):
        fail(message)


# Queries.


@attrs.frozen
class Answers:
    """The answers of the queried processes.

    told: each answer, a map that describes its process.
    missing: the processes that did not answer, each with the reason.
    """

    told: list[Mapping[str, Any]]
    missing: dict[str, BusError]

    def complaints(self) -> list[str]:
        """Return one line for each process that did not answer, with the reason."""
        return [
            f"cannot query {process}: {printable(str(error))}"
            for process, error in self.missing.items()
        ]

    def complain(self) -> None:
        """Print the lines of `complaints` on stderr."""
        for line in self.complaints():
            click.echo(f"bus: {line}", err=True)

    def end(self) -> None:
        """Print the missing answers; exit if there are any."""
        self.complain()
        self.end_quietly()

    def end_quietly(self) -> None:
        """Exit if an answer is missing; the caller has printed them."""
        if any(isinstance(each, CommandTimeoutError) for each in self.missing.values()):
            sys.exit(TIMED_OUT)
        if self.missing:
            sys.exit(FAILED)


def look_around(target: Target, bus: Bus) -> Answers:
    """Query every other process of the machine about itself, the master first."""
    master, told = _ask_master(target, bus)
    rest = ask(target, bus, _slaves(master, told, bus))
    return Answers([told, *rest.told], rest.missing)


def others(target: Target, bus: Bus) -> list[str]:
    """Return every other process of the machine, the master first.

    Only the master is queried.
    """
    master, told = _ask_master(target, bus)
    return [master, *_slaves(master, told, bus)]


def has_name(target: Target, bus: Bus, name: str) -> bool:
    """Return True if the master of a bus knows a public name.

    The master has at least one second to answer, even if the timeout is shorter.

    name: a name or an address.
    """
    address = Address.parse(name)
    if not is_here(bus, address):
        return False
    wait_s = max(_CONNECT_S_MIN, _answer_s(target))
    _, told = _ask_master(attrs.evolve(target, timeout_s=wait_s), bus)
    return address.module in told["users"]


def is_here(bus: Bus, address: Address) -> bool:
    """Return True if an address is on the bus and the machine that a verb joined."""
    return address.machine in {None, bus.machine} and address.bus in {None, bus.name}


def _ask_master(target: Target, bus: Bus) -> tuple[str, Mapping[str, Any]]:
    """Return the master's name, and its answer.

    If the master is lost, query the next one as soon as there is one.
    """
    until = _sync.monotonic() + _answer_s(target)
    while True:
        master = _master(bus, until)
        answers = ask(target, bus, [master])
        if not answers.missing:
            return master, answers.told[0]
        error = answers.missing[master]
        is_late = isinstance(error, CommandTimeoutError)
        if _known_master(bus) == master if is_late else _sync.monotonic() >= until:
            raise error
        pause(_POLL_S)


def _slaves(master: str, told: Mapping[str, Any], bus: Bus) -> list[str]:
    """Return the other processes in the master's answer, without this one."""
    return sorted(
        each
        for each in told["processes"]
        # The master keeps a process that has just left, such as another run of a verb,
        # a little longer than its names.
        if each not in {master, bus.process} and inspector_of(each) in told["users"]
    )


def ask(target: Target, bus: Bus, processes: Iterable[str]) -> Answers:
    """Query processes about themselves, all at once."""
    names = {inspector_of(each): each for each in processes}
    answers = Answers([], {})
    if not names:
        return answers
    timeout_s = _answer_s(target)
    thread = bus.here()
    heard: dict[str, Response] = {}

    def note(response: Response) -> None:
        assert response.responder is not None
        heard[names[response.responder.module]] = response

    asker = bus.register("asker", thread=thread, visibility=Visibility.PRIVATE)
    asker.command(list(names), on_response=note, timeout=timeout_s)
    while len(heard) < len(names):
        thread.poll(None)
    asker.deregister()
    for process in names.values():
        response = heard[process]
        if response.error is None:
            answers.told.append(_without(response.payload, bus.process))
        else:
            answers.missing[process] = silence(process, response.error)
    return answers


def _answer_s(target: Target) -> float:
    """Return the timeout of each query, in seconds."""
    return _ANSWER_S if target.timeout_s is None else target.timeout_s


def _without(told: Mapping[str, Any], asker: str) -> Mapping[str, Any]:
    """Remove the links and relays that exist only because of the query."""
    kept = {
        kind: [each for each in told[kind] if each["process"] != asker]
        for kind in ("links", "relays")
    }
    return {**told, **kept}


def silence(process: str, error: BusError) -> BusError:
    """Return the error to report for a process that does not answer.

    The process exists, since the master knows its name. So a name that was not
    resolved in time is a timeout as well.
    """
    if isinstance(error, UnresolvedError):
        # With a timeout of 0 the waiting time may be slightly negative.
        return CommandTimeoutError(process, max(0.0, error.waited_s))
    if isinstance(error, CommandTimeoutError):
        return CommandTimeoutError(process, error.timeout_s)
    return error


def _master(bus: Bus, until: float) -> str:
    """Return the master's name; wait until there is one, or exit at the deadline.

    until: the deadline, on the clock of `_sync.monotonic`.
    """
    while (master := _known_master(bus)) is None:
        if _sync.monotonic() >= until:
            where = run_base() / bus.name
            fail(f"the master of bus {bus.name!r} does not answer: {where}", TIMED_OUT)
        pause(_POLL_S)
    return master


def _known_master(bus: Bus) -> str | None:
    """Return the master's name; None if there is no master at the moment."""
    comm = bus._comm
    assert comm is not None
    remote = comm.remote
    stands, master = bus._exchange.look(
        lambda: (remote.stands, remote.topology.master())
    )
    if not stands:
        return None
    assert isinstance(master.key[1], str)
    return master.key[1]


# Output.


def to_json(value: Any) -> str:
    """Return a value as one line of JSON; bytes as ``{"base64": ...}``.

    Characters are escaped if stdout cannot encode them, or if they are unprintable and
    might control a terminal.
    """
    text = json.dumps(_plain(value), allow_nan=False, ensure_ascii=False)
    if text.isascii():
        return text
    return "".join(c if _is_carried(c) else json.dumps(c)[1:-1] for c in text)


def _is_carried(character: str) -> bool:
    if character.isascii():
        return True
    try:
        character.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return False
    return character.isprintable()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        from base64 import b64encode  # noqa: PLC0415 # bytes are rare

        return {"base64": b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    return value


def pause(seconds: float) -> None:
    """Sleep; an interrupt ends it early."""
    _sync.park(taken_lock(), lambda: False, _sync.monotonic() + seconds)
