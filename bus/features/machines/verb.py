"""``bus machines``: the other machines of a bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from bus.cli.live import joined, live_options
from bus.cli.queries import ask_master
from bus.cli.text import duration, ignored_line, show_table, to_json
from bus.journal.wording import printable
from bus.model.snapshot import MachineState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.cli.target import Target

__all__ = ["machines"]

_COLOURS: Final = {
    MachineState.LINKED.value: "green",
    MachineState.REFUSED.value: "bold red",
    MachineState.CONFLICT.value: "bold red",
    MachineState.DIALLING.value: "yellow",
    MachineState.WAITING.value: "yellow",
}


@click.command(epilog="Example: bus machines --bus house")
@live_options(10.0)
def machines(target: Target) -> None:
    """Show the other machines of the bus, as the master of this one knows them.

    These are the machines that announce themselves, those at the addresses of the
    network, and those that have dialled. SINCE is the time with a link or, in every
    state but linked, without one.
    """
    with joined(target) as bus:
        [state] = ask_master(target, bus).told
        machine = bus.machine
    # A master of an earlier version reports neither.
    found = state.get("machines", [])
    ignored = state.get("ignored_announcements", {})
    if target.as_json:
        about = {"bus": target.bus, "machine": machine, "machines": found}
        click.echo(to_json(about | {"ignored_announcements": ignored}))
        return
    if not found:
        click.echo(f"{machine} knows no other machine")
    else:
        show_table(
            ("machine", "state", "since", "round trip", "address", "why not linked"),
            [_row(each) for each in found],
            colours=_COLOURS,
            wraps=True,
        )
    if ignored:
        click.echo(ignored_line(ignored))


def _row(machine: Mapping[str, Any]) -> tuple[str, ...]:
    trip_s, address = machine["round_trip_s"], machine["address"] or "-"
    return (
        printable(machine["name"] or "?"),
        machine["state"],
        "-" if machine["since_s"] is None else duration(machine["since_s"]),
        "-" if trip_s is None else f"{1000 * trip_s:.1f} ms",
        # As `peers` has it: the scheme is the same for all.
        printable(address.rpartition("://")[2]),
        printable(machine["why"].removeprefix(f"{address}: ")),
    )
