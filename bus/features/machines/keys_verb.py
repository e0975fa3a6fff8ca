"""``bus keys``: the keys of links to other machines."""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bus.cli.exits import USAGE, fail
from bus.cli.text import show_table
from bus.features.machines.authority import AUTHORITY, Authority
from bus.features.machines.certificates import machine_of, parsed, read_pem
from bus.features.machines.machine_keys import (
    GROUP_KEY,
    MACHINE,
    TRUSTED,
    MachineKeys,
    read_group_keys,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography import x509

    from bus.features.machines.authority import Issued

__all__ = ["keys"]

_SOON: Final = dt.timedelta(days=30)

_authority = click.option(
    "--authority",
    "folder",
    default="bus-keys",
    show_default=True,
    metavar="FOLDER",
    help="The folder of the authority.",
)


class KeysCommand(click.Command):
    """A command that reports invalid values and damaged files as usage errors."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ValueError as error:
            fail(str(error), USAGE)


@click.group(epilog="Example: bus keys init house-keys")
def keys() -> None:
    """Make, renew and show the keys for links between machines.

    The folder of the authority stays in one safe place. The folder of a machine is
    copied to that machine.
    """


@keys.command(cls=KeysCommand)
@click.argument("folder", metavar="[FOLDER]", default="bus-keys")
def init(folder: str) -> None:
    """Make the authority of a bus in FOLDER, by default bus-keys."""
    made = Authority.create(folder)
    click.echo(f"{made.name} is made in {made.folder}: keep this folder secret")
    click.echo("next: bus keys issue MACHINE, for each machine")


@keys.command(cls=KeysCommand)
@click.argument("machine", metavar="MACHINE")
@_authority
@click.option(
    "--out", metavar="FOLDER", help="The folder to make. [default: MACHINE.keys]"
)
@click.option(
    "--days", default=365, show_default=True, metavar="N", help="Days of validity."
)
def issue(machine: str, folder: str, out: str | None, days: int) -> None:
    """Certify MACHINE, for the first time or again, and make its folder."""
    made = Authority(folder).issue(machine, out or f"{machine}.keys", days=days)
    click.echo(f"{machine} is certified for {days} days: copy {made} to that machine")


@keys.command(cls=KeysCommand)
@_authority
def rotate(folder: str) -> None:
    """Make a new authority and group key; the earlier ones stay valid.

    Issue the keys of all machines again and copy their folders, in any order. When each
    machine has its folder, run `bus keys retire`.
    """
    authority = Authority(folder)
    authority.rotate()
    click.echo(f"{authority.name} signs from now on; the earlier one stays trusted")
    click.echo("next: bus keys issue MACHINE, and copy the folder, for each machine")
    click.echo("when each machine has its folder: bus keys retire")


@keys.command(cls=KeysCommand)
@_authority
def retire(folder: str) -> None:
    """Leave the earlier authority and group key out of new folders."""
    authority = Authority(folder)
    authority.retire()
    click.echo(f"only {authority.name} is trusted, in the folders issued from now on")
    click.echo("next: bus keys issue MACHINE, and copy the folder, for each machine")


@keys.command(cls=KeysCommand)
@click.argument("folder", metavar="[FOLDER]", default="bus-keys")
def show(folder: str) -> None:
    """Show the certificates in FOLDER, of an authority or of a machine.

    Of an authority, show also how far a rotation is, and its next step. A group key is
    secret: eight digits of its hash are shown, to compare folders.
    """
    path = Path(folder)
    now = dt.datetime.now(tz=dt.UTC)
    next_step = ""
    if (path / AUTHORITY).exists():
        authority = Authority(path)
        group_keys = read_group_keys(path / GROUP_KEY)
        issued = authority.issued()
        click.echo(f"signing: {authority.name}")
        if len(authority.trusted) > 1:
            next_step = _next_step(authority, len(group_keys), issued, now)
            for each, mark in zip(authority.trusted, ("new", "earlier"), strict=True):
                click.echo(f"trusted: {_name(each.subject)} ({mark})")
        rows = [
            (each.machine, each.since, each.until, each.authority) for each in issued
        ]
    else:
        machine_keys = MachineKeys(path)
        group_keys = machine_keys.group_keys()
        rows = [_facts(parsed(path / MACHINE, read_pem)[0])]
        for each in parsed(path / TRUSTED, read_pem):
            click.echo(f"trusted: {_name(each.subject)}")
    for line in _group_key_lines(group_keys):
        click.echo(line)
    table = [
        (machine, _state(since, until, now), f"{until:%Y-%m-%d}", by)
        for machine, since, until, by in rows
    ]
    colours = {
        "expired": "bold red",
        "not yet valid": "bold red",
        "ends soon": "yellow",
    }
    show_table(["machine", "state", "until", "authority"], table, colours=colours)
    if next_step:
        click.echo(f"next: {next_step}")


def _group_key_lines(group_keys: Sequence[bytes]) -> list[str]:
    """Return a line for each group key; two of them are the new and the earlier one."""
    marks = [""] if len(group_keys) == 1 else [" (new)", " (earlier)"]
    # A group key is random, so its hash does not help to guess it.
    return [
        f"group key: {hashlib.sha256(key).hexdigest()[:8]}{mark}"
        for key, mark in zip(group_keys, marks, strict=True)
    ]


def _next_step(
    authority: Authority, group_keys: int, issued: Sequence[Issued], now: dt.datetime
) -> str:
    """Return the next step of a rotation, during which two authorities are trusted.

    group_keys: their number.
    """
    if authority.name != _name(authority.trusted[0].subject):
        return "bus keys rotate, again: it was cut short"
    if group_keys == 1:
        # `rotate` replaces the group key last, `retire` first.
        return "the last command again, bus keys rotate or retire: it was cut short"
    left = [each.machine for each in issued if not each.current and each.until > now]
    if left:
        return f"bus keys issue MACHINE, and copy the folder, for {', '.join(left)}"
    return "bus keys retire, when each machine has the folder that was issued last"


def _name(name: x509.Name) -> str:
    return name.rfc4514_string().removeprefix("CN=")


def _facts(
    certificate: x509.Certificate,
) -> tuple[str, dt.datetime, dt.datetime, str]:
    return (
        machine_of(certificate) or "?",
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        _name(certificate.issuer),
    )


def _state(since: dt.datetime, until: dt.datetime, now: dt.datetime) -> str:
    if now < since:
        return "not yet valid"
    if now >= until:
        return "expired"
    return "ends soon" if until - now < _SOON else "valid"
