"""How verbs come to a live bus: what they are told, whom they ask, how they fail.

A verb joins as a slave, so that it never becomes master, asks the master who is there,
and then each process about itself (`bus.inspector`). What a user or a bus does wrong is
one line and an exit code: 1, or 124 if time is up, or 4 if no bus can be where it is.
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
from bus.api.membership import open_bus
from bus.cli.place import access_to, is_served, remedy, user_id
from bus.config import BusConfig
from bus.core.routing_table import Visibility
from bus.errors import (
    AccessDeniedError,
    BusError,
    CommandTimeoutError,
    UnresolvedError,
)
from bus.inspector import inspector_of
from bus.journal.wording import printable
from bus.links.run_directory import run_base
from bus.role import Role
from queuebroker import _sync
from queuebroker.parking import taken_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bus.api.bus import Bus
    from bus.message import Response

__all__ = [
    "FAILED",
    "FORBIDDEN",
    "TIMED_OUT",
    "Answers",
    "Target",
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
FORBIDDEN: Final = 4  # by the system, as `bus.cli` says of all that this forbids
TIMED_OUT: Final = 124
_ANSWER_S: Final = 10.0  # for an answer, where the verb itself may go on for ever
_CONNECT_S_MIN: Final = 1.0  # for the master, however short the time is
_LOOK_S: Final = 0.05  # between two looks who is master


@attrs.frozen
class Target:
    """Which bus is meant, and how to speak of it.

    bus, machine: their names; None for that of the host.
    as_json: whether programs read what is printed.
    timeout_s: in seconds; None for ever.
    owner: whose bus it is, a user of the system; None for whoever runs the verb.
    """

    bus: str
    machine: str | None
    as_json: bool
    timeout_s: float | None
    owner: int | None = None


def parsed(parse: Callable[[str], Any]) -> Callable[..., Any]:
    """Make what click calls to have a text read; it is a mistake in usage if it cannot.

    parse: raises ValueError then, or RecursionError.
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
    """Give a verb the options of all that use a live bus; it gets a `Target` first.

    default_s: how long it waits unless it is told; None for ever.
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
            help="Which bus.",
        ),
        click.option(
            "--machine",
            metavar="NAME",
            callback=parsed(_legal(check_machine_name)),
            help="What its processes call this machine.  [default: the host's name]",
        ),
        click.option(
            "--owner",
            metavar="USER",
            callback=parsed(user_id),
            help="Whose bus it is, and whom to trust.  [default: yours]",
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
    """Say in one line what the bus has against it, and end."""
    try:
        yield
    except CommandTimeoutError as error:
        fail(str(error), TIMED_OUT)
    except BusError as error:
        fail(str(error))


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Say why it cannot be done, and end."""
    click.echo(f"bus: {printable(message)}", err=True)
    sys.exit(code)


@contextmanager
def joined(target: Target, *, patient: bool = False) -> Iterator[Bus]:
    """Join a bus as a slave, until the end of the block.

    patient: whether it is well that there is no bus yet.
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
        fail(str(error), FORBIDDEN)  # its text has the remedy
    except AccessDeniedError as error:
        if target.machine is None and error.fact.startswith("machine "):
            fail(f"{error}; --machine says what it is called")
        raise
    with bus:
        if not patient:
            _master(bus, 0.0)
        yield bus


def served(target: Target) -> bool:
    """Whether somebody is on a bus; end if no bus can be where it would be."""
    try:
        return is_served(target)
    except (AccessDeniedError, ValueError) as error:
        _no_place(target, error)
    except OSError as error:
        if error.filename is None:
            fail(str(error.strerror), FORBIDDEN)  # from `RunDirectory`, with the remedy
        fact = f"{error.filename or run_base()}: {error.strerror}"
        where = f"there can be no bus {target.bus!r}: {fact}"
        fail(f"{where}; {remedy(target, error)}", FORBIDDEN)


def _no_place(target: Target, error: AccessDeniedError | ValueError) -> NoReturn:
    """Say why no bus can be in its run directory, and what to do; end."""
    fail(f"{error}; {remedy(target, error)}", FORBIDDEN)


def unserved(target: Target) -> str:
    """Say that nobody is on a bus, and where it was looked for; "" if somebody is."""
    if served(target):
        return ""
    return f"nobody is on bus {target.bus!r}: looked in {run_base() / target.bus}"


def _check_served(target: Target) -> None:
    """End unless somebody is on a bus."""
    if nobody := unserved(target):
        fail(nobody)


# Whom to ask.


@attrs.frozen
class Answers:
    """What processes tell of themselves, and of which there is no answer, and why."""

    told: list[Mapping[str, Any]]
    missing: dict[str, BusError]

    def complaints(self) -> list[str]:
        """Say who has not answered, and why, a line each."""
        return [
            f"{process} does not tell: {printable(str(error))}"
            for process, error in self.missing.items()
        ]

    def complain(self) -> None:
        """Say who has not answered, apart from what the others have."""
        for line in self.complaints():
            click.echo(f"bus: {line}", err=True)

    def end(self) -> None:
        """Say who has not answered; end, if anybody has not."""
        self.complain()
        self.end_quietly()

    def end_quietly(self) -> None:
        """End, if anybody has not answered; that was said before."""
        if any(isinstance(each, CommandTimeoutError) for each in self.missing.values()):
            sys.exit(TIMED_OUT)
        if self.missing:
            sys.exit(FAILED)


def look_around(target: Target, bus: Bus) -> Answers:
    """Ask every other process of the machine about itself, the master first."""
    master, told = _ask_master(target, bus)
    rest = ask(target, bus, _slaves(master, told, bus))
    return Answers([told, *rest.told], rest.missing)


def others(target: Target, bus: Bus) -> list[str]:
    """Return every other process of the machine, the master first; ask only that."""
    master, told = _ask_master(target, bus)
    return [master, *_slaves(master, told, bus)]


def has_name(target: Target, bus: Bus, name: str) -> bool:
    """Whether somebody on a bus has a public name, as its master says.

    name: or an address. The master gets a second, however short the time is.
    """
    address = Address.parse(name)
    if not is_here(bus, address):
        return False
    wait_s = max(_CONNECT_S_MIN, _answer_s(target))
    _, told = _ask_master(attrs.evolve(target, timeout_s=wait_s), bus)
    return address.module in told["users"]


def is_here(bus: Bus, address: Address) -> bool:
    """Whether an address is one of the bus and the machine that a verb has joined."""
    return address.machine in {None, bus.machine} and address.bus in {None, bus.name}


def _ask_master(target: Target, bus: Bus) -> tuple[str, Mapping[str, Any]]:
    """Return what the master is called, and what it tells.

    If it is lost another one is asked, as soon as there is one.
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
        pause(_LOOK_S)


def _slaves(master: str, told: Mapping[str, Any], bus: Bus) -> list[str]:
    """Return the other processes that the master has told of."""
    return sorted(
        each
        for each in told["processes"]
        # Who has just left in order, such as another one who looks, is known a little
        # longer than its names are.
        if each not in {master, bus.process} and inspector_of(each) in told["users"]
    )


def ask(target: Target, bus: Bus, processes: Iterable[str]) -> Answers:
    """Ask processes about themselves, all at once."""
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
    """Return how long an answer is waited for, in seconds."""
    return _ANSWER_S if target.timeout_s is None else target.timeout_s


def _without(told: Mapping[str, Any], asker: str) -> Mapping[str, Any]:
    """Leave out what is there only because somebody looks."""
    kept = {
        kind: [each for each in told[kind] if each["process"] != asker]
        for kind in ("links", "relays")
    }
    return {**told, **kept}


def silence(process: str, error: BusError) -> BusError:
    """Say that a process does not answer; its name is known, so it is there."""
    if isinstance(error, UnresolvedError):
        # Which may be a little below 0 where nothing was to be waited for.
        return CommandTimeoutError(process, max(0.0, error.waited_s))
    if isinstance(error, CommandTimeoutError):
        return CommandTimeoutError(process, error.timeout_s)
    return error


def _master(bus: Bus, until: float) -> str:
    """Return what the master is called; wait until there is one, or time is up.

    until: on the clock of `_sync.monotonic`.
    """
    while (master := _known_master(bus)) is None:
        if _sync.monotonic() >= until:
            where = run_base() / bus.name
            fail(f"the master of bus {bus.name!r} does not answer: {where}", TIMED_OUT)
        pause(_LOOK_S)
    return master


def _known_master(bus: Bus) -> str | None:
    """Return what the master is called; None if there is none just now."""
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


# What is printed.


def to_json(value: Any) -> str:
    """Write something as one line of JSON; bytes as ``{"base64": ...}``.

    What the output cannot carry, or a terminal would obey, is escaped.
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
        from base64 import b64encode  # noqa: PLC0415 # mostly nobody sends bytes

        return {"base64": b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    return value


def pause(seconds: float) -> None:
    """Wait, unless it is interrupted."""
    _sync.park(taken_lock(), lambda: False, _sync.monotonic() + seconds)
