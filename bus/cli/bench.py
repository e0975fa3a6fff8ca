"""``bus bench``: the rate and the round-trip time of commands between two processes.

The partner process runs this file as a program: it joins the same bus, takes and
answers commands, and exits when its parent does. If the bus has no process, the two
open a temporary one, in a directory that is removed afterwards.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import attrs
import click

from bus.api.membership import open_bus
from bus.cli.exits import ERROR, fail, interruptible
from bus.cli.live import joined, live_options, served
from bus.cli.numbers import FiniteRange
from bus.cli.run_directory import access_to
from bus.cli.target import Target
from bus.cli.text import show_table, to_json
from bus.errors import BusError, CommandTimeoutError
from bus.model.address import fresh_name
from bus.model.config import BusConfig
from bus.model.registration import Role, Visibility
from queuebroker import _sync
from queuebroker._net.processes import Process, exit_code_of, start_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.api.bus import Bus
    from bus.api.task import Task
    from bus.model.message import Incoming

__all__ = ["bench"]

_CHUNK: Final = 100  # messages between two readings of the clock
_TRIPS_MIN: Final = 10  # for a 99th percentile
_POLL_S: Final = 0.1  # between two checks that the partner is alive
_END_S: Final = 5.0  # for the partner to exit by itself
_BYTES_MAX: Final = 2**20


@attrs.frozen
class _Measured:
    """The results; times in seconds."""

    per_s: float
    p50_s: float
    p99_s: float
    trips: int


@click.command(epilog="Example: bus bench")
@click.option(
    "--seconds",
    type=FiniteRange(0.0, 3600.0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Duration of each of the two measurements.",
)
@click.option(
    "--bytes",
    "size",
    type=click.IntRange(0, _BYTES_MAX),
    default=64,
    show_default=True,
    metavar="N",
    help="Length of a message in bytes.",
)
@live_options(10.0)
def bench(target: Target, seconds: float, size: int) -> None:
    """Measure commands between two processes of a bus: one way, and round trips.

    Starts a partner process that joins the bus. If the bus has no process, the two open
    a temporary bus. --timeout is how long to wait for the partner to join, and for each
    of its answers.
    """
    live = served(target)
    with ExitStack() as stack:
        if live:
            bus, folder = stack.enter_context(joined(target)), None
        else:
            stack.enter_context(interruptible())
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bus-"))
            bus = stack.enter_context(_own(target, folder))
        name = fresh_name("bench")
        stack.enter_context(_partner(target, bus, name, folder))
        measured = _measure(target, bus, name, seconds, bytes(size))
    _show(target, measured, size, live=live)


def _own(target: Target, folder: str) -> Bus:
    try:
        return open_bus(
            target.bus,
            role=Role.MASTER,
            process=fresh_name("cli"),
            machine=target.machine,
            config=BusConfig(run_directory=folder),
        )
    except ValueError as error:
        fact = error.__context__ or error  # without its remedy, since TMPDIR applies
        fail(f"{fact}; set TMPDIR to a shorter path", ERROR)


# The partner.


@contextmanager
def _partner(target: Target, bus: Bus, name: str, folder: str | None) -> Iterator[None]:
    """Run the partner process for the duration of a block.

    name: the first segment of the names of its tasks.
    folder: the run directory of a temporary bus; None for that of the user.
    """
    # Imported here, since the partner runs this file and starts faster without it.
    from bus.demo.processes import environment  # noqa: PLC0415

    place, owner = {}, target.owner
    if folder is not None:
        place, owner = {"BUS_RUN_DIR": folder}, None  # owned by the user of the verb
    whose = [] if owner is None else [str(owner)]
    command = [sys.executable, "-P", "-m", __name__, target.bus, bus.machine, name]
    process = start_process([*command, *whose], environment() | place)
    try:
        _await(process, bus, f"{name}/echo", target.timeout_s)
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        if exit_code_of(process, _END_S) is None:
            process.kill()
            process.wait()


def _await(
    process: Process[bytes], bus: Bus, task: str, timeout_s: float | None
) -> None:
    """Wait until a task of the partner is registered; exit if the partner ended."""
    assert timeout_s is not None
    until = _sync.monotonic() + timeout_s
    while True:
        left_s = max(0.0, until - _sync.monotonic())
        try:
            bus.wait_for(task, min(left_s, _POLL_S))
        except CommandTimeoutError:
            if (code := process.poll()) is not None:
                fact = f"the partner process did not join: exit code {code}"
                fail(f"cannot measure: {fact}")
            if not left_s:
                raise CommandTimeoutError(task, timeout_s) from None
        else:
            return


def _be_partner(
    bus_name: str, machine: str, name: str, owner: str | None = None
) -> None:
    whose = None if owner is None else int(owner)
    target = Target(bus_name, machine, as_json=False, timeout_s=None, owner=whose)
    with open_bus(
        bus_name,
        role=Role.SLAVE,
        process=name,
        machine=machine,
        config=BusConfig(access=access_to(target)),
    ) as bus:
        bus.register(f"{name}/sink", overflow="block", on_command=_take)
        bus.register(f"{name}/echo", on_command=_answer)
        sys.stdin.read()


def _take(_: Incoming) -> None:
    """Take a command, and do nothing."""


def _answer(message: Incoming) -> object:
    return message.payload


# The measurements.


def _measure(
    target: Target, bus: Bus, name: str, seconds: float, message: bytes
) -> _Measured:
    task = bus.register("bench", visibility=Visibility.PRIVATE)
    per_s = _one_way(target, task, f"{name}/sink", seconds, message)
    trips_ns = _round_trips(target, task, f"{name}/echo", seconds, message)
    p99_ns = statistics.quantiles(trips_ns, n=100, method="inclusive")[-1]
    p50_ns = statistics.median(trips_ns)
    return _Measured(per_s, p50_ns / 1e9, p99_ns / 1e9, len(trips_ns))


def _one_way(
    target: Target, task: Task, to: str, seconds: float, message: bytes
) -> float:
    """Return the number of commands per second; all of them were taken."""
    task.call(to, timeout=target.timeout_s)
    sent, began = 0, _sync.monotonic()
    while _sync.monotonic() - began < seconds:
        for _ in range(_CHUNK):
            task.command(to, message)  # with a time limit none would join a batch
        sent += _CHUNK
    task.call(to, timeout=target.timeout_s)
    return sent / (_sync.monotonic() - began)


def _round_trips(
    target: Target, task: Task, to: str, seconds: float, message: bytes
) -> list[int]:
    """Return the time from each command to its answer, in nanoseconds."""
    task.call(to, timeout=target.timeout_s)
    taken: list[int] = []
    began = _sync.monotonic()
    while len(taken) < _TRIPS_MIN or _sync.monotonic() - began < seconds:
        start = _sync.monotonic_ns()
        task.call(to, message, timeout=target.timeout_s)
        taken.append(_sync.monotonic_ns() - start)
    return taken


def _show(target: Target, measured: _Measured, size: int, *, live: bool) -> None:
    if target.as_json:
        told = {
            "bus": target.bus,
            "live": live,
            "bytes": size,
            "one_way_per_s": measured.per_s,
            "round_trip_p50_s": measured.p50_s,
            "round_trip_p99_s": measured.p99_s,
            "round_trips": measured.trips,
        }
        click.echo(to_json(told))
        return
    temporary = f"a temporary bus, since bus {target.bus} has no process"
    which = f"bus {target.bus}" if live else temporary
    click.echo(f"two processes on {which}; messages of {size} bytes")
    rows = [
        ["one way", f"{measured.per_s:,.0f} messages/s"],
        ["round trip, median", f"{measured.p50_s * 1e6:,.0f} us"],
        ["round trip, 99th percentile", f"{measured.p99_s * 1e6:,.0f} us"],
    ]
    show_table(["what", "how fast"], rows)


if __name__ == "__main__":
    try:
        _be_partner(*sys.argv[1:])
    except BusError as error:
        fail(str(error))
