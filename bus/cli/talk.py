"""``bus call``, ``send``, ``listen``, ``wait-for``: act as a task of a live bus."""

from __future__ import annotations

import json
import math
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from bus.cli.exits import TIMED_OUT, fail
from bus.cli.live import joined, live_options, parsed, unserved
from bus.cli.queries import has_name
from bus.cli.text import to_json
from bus.errors import CommandTimeoutError, UnresolvedError
from bus.model.address import Address
from bus.model.registration import Visibility
from bus.model.specification import Specification
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.api.bus import Bus
    from bus.cli.target import Target
    from bus.model.message import Incoming, Undelivered

__all__ = ["call", "listen", "send", "wait_for"]


def _payload(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except ValueError as error:
        raise ValueError(f"{text[:60]!r} is not valid JSON: {error}") from None


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"JSON has no {word}")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:60]} is too large")
    return number


_POLL_S: Final = 0.01  # between two checks whether the command was taken

_NAME: Final = parsed(lambda text: str(Address.parse(text)))
_PATTERN: Final = parsed(lambda text: str(Specification.parse(text)))
_PAYLOAD: Final = parsed(_payload)


def _present(target: Target, bus: Bus, name: str) -> float:
    """Wait until a task has a name; return the seconds left before the timeout.

    Raises:
        UnresolvedError: no task registered it in time.
        CommandTimeoutError: a task has it, but its process did not answer in time.
    """
    assert target.timeout_s is not None
    begun = _sync.monotonic()
    try:
        bus.wait_for(name, target.timeout_s)
    except CommandTimeoutError as error:
        if has_name(target, bus, name):
            raise CommandTimeoutError(name, error.timeout_s) from None
        elsewhere = Address.parse(name).machine not in {None, bus.machine}
        raise UnresolvedError(name, error.timeout_s, elsewhere=elsewhere) from None
    return max(0.0, target.timeout_s - (_sync.monotonic() - begun))


@click.command(epilog="""Example: bus call thermostat '{"celsius": 17}' --bus house""")
@click.argument("name", callback=_NAME)
@click.argument("payload", metavar="[JSON]", callback=_PAYLOAD, default="null")
@live_options(10.0)
def call(target: Target, name: str, payload: Any) -> None:
    """Send a command to the task NAME, and print its answer as JSON.

    Exits with 1 if no task has the name, or the task reports a failure; with 124 if it
    does not answer in time.
    """
    with joined(target) as bus:
        left_s = _present(target, bus, name)
        try:
            answer = bus.call(name, payload, timeout=left_s)
        except (CommandTimeoutError, UnresolvedError):
            # The task has the name: only its answer did not arrive in time.
            assert target.timeout_s is not None
            raise CommandTimeoutError(name, target.timeout_s) from None
    click.echo(to_json(answer))


@click.command(epilog="""Example: bus send logger '"hello"' --bus house""")
@click.argument("name", callback=_NAME)
@click.argument("payload", metavar="[JSON]", callback=_PAYLOAD, default="null")
@live_options(10.0)
def send(target: Target, name: str, payload: Any) -> None:
    """Send a command to the task NAME without requesting an answer.

    Returns when the task has taken the command, or, at the timeout, if the command has
    arrived there and is unread. Exits with 1 if no task has the name, with 124 if the
    command did not arrive in time.
    """
    back: list[Undelivered] = []
    with joined(target) as bus:
        left_s = _present(target, bus, name)
        until = _sync.monotonic() + left_s
        thread = bus.here()
        sender = bus.register(
            "sender",
            thread=thread,
            visibility=Visibility.PRIVATE,
            on_undelivered=back.append,
        )
        sender.command(name, payload, timeout=None)
        # A process that leaves earlier discards its commands that were not sent yet.
        while not (back or _is_taken(bus)) and _sync.monotonic() < until:
            thread.poll(_POLL_S)
        there = _is_taken(bus) or _is_under_way(bus)
    if back:
        raise back[0].error
    if not there:
        fact = f"the command was not sent: waited for {target.timeout_s:g} s"
        fail(f"cannot deliver to {name!r}: {fact}", TIMED_OUT)
    if target.as_json:
        click.echo(to_json({"sent": name}))


def _is_taken(bus: Bus) -> bool:
    """Return True if the one command of this process was taken."""
    comm = bus._node.comm
    assert comm is not None
    topology = comm.remote.topology
    return bool(bus._exchange.query(lambda: topology.counters.commands_taken))


def _is_under_way(bus: Bus) -> bool:
    """Return True if the command was sent on a link and not yet acknowledged."""
    comm = bus._node.comm
    assert comm is not None
    peers = comm.remote.topology.peers
    return bool(
        bus._exchange.query(
            lambda: any(
                relay.unacked
                for peer in peers.values()
                for relay in peer.relays.values()
            )
        )
    )


@click.command(epilog="Example: bus listen 'sensor/*' --bus house")
@click.argument("pattern", callback=_PATTERN)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Exit after N notifications.",
)
@live_options(None)
def listen(target: Target, pattern: str, count: int | None) -> None:
    """Print the notifications of all tasks whose names match PATTERN, one per line.

    In a pattern, * matches one segment of a name, and ** any number of them. Runs until
    Ctrl-C, --count or --timeout; exits with 124 if fewer than --count were received.
    """
    shown = 0
    now = _sync.monotonic()
    until = None if target.timeout_s is None else now + target.timeout_s
    # The callback does not print: an error that it raises would not end the verb.
    incoming: deque[Incoming] = deque()
    with joined(target) as bus:
        thread = bus.here()
        listener = bus.register(
            "listener", thread=thread, visibility=Visibility.PRIVATE
        )
        listener.subscribe(pattern, incoming.append)
        try:
            while shown != count:
                rest_s = None if until is None else until - _sync.monotonic()
                if rest_s is not None and rest_s <= 0:
                    break
                thread.poll(rest_s)
                while incoming and shown != count:
                    click.echo(_notified(target, incoming.popleft()))
                    shown += 1
        except KeyboardInterrupt:
            return  # the regular end
    if count is not None and shown < count:
        received = f"received {shown} of {count} notifications"
        click.echo(f"bus: {received} before the timeout", err=True)
        sys.exit(TIMED_OUT)


def _notified(target: Target, message: Incoming) -> str:
    """Return a notification as one line."""
    if target.as_json:
        about = {"sender": str(message.sender), "gap": message.gap}
        return to_json(about | {"payload": message.payload})
    lost = f" ({message.gap} dropped before it)" if message.gap else ""
    return f"{message.sender.module} {to_json(message.payload)}{lost}"


@click.command("wait-for", epilog="Example: bus wait-for thermostat --timeout 10")
@click.argument("name", callback=_NAME)
@live_options(None)
def wait_for(target: Target, name: str) -> None:
    """Wait until a task has the public name NAME, and print its address.

    If the bus has no process yet, print a message and wait for the bus as well. Exits
    with 124 at the timeout.
    """
    if message := unserved(target):
        click.echo(f"bus: {message}; waiting", err=True)
    with joined(target, patient=True) as bus:
        try:
            address = bus.wait_for(name, target.timeout_s)
        except CommandTimeoutError as error:
            lack = f"no task has the name {name!r} on bus {target.bus!r}"
            fact = unserved(target) or lack
            fail(f"{fact}: waited for {error.timeout_s:g} s", TIMED_OUT)
    if target.as_json:
        click.echo(to_json({"name": address.module, "address": str(address)}))
    else:
        click.echo(str(address))
