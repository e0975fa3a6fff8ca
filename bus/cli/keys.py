"""``bus keys init|issue|show|rotate|retire``: the keys of a bus between machines."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bus.cli.text import show_table
from bus.keys.authority import AUTHORITY, Authority
from bus.keys.certificates import machine_of, read_pem
from bus.keys.machine_keys import MACHINE, TRUSTED, MachineKeys

if TYPE_CHECKING:
    from cryptography import x509

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
    """A command whose wrong values are wrong usage."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from None


@click.group()
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
    """Make a new authority and a new group key; the earlier ones stay valid.

    Issue the keys of all machines again and copy their folders, in any order. When each
    machine has its folder: `retire`.
    """
    authority = Authority(folder)
    authority.rotate()
    click.echo(f"{authority.name} signs from now on; the earlier one stays trusted")
    click.echo("next: bus keys issue MACHINE, and copy the folder, for each machine")
    click.echo("when each machine has its folder: bus keys retire")


@keys.command(cls=KeysCommand)
@_authority
def retire(folder: str) -> None:
    """Drop the earlier authority and group key from folders issued from now on."""
    authority = Authority(folder)
    authority.retire()
    click.echo(f"only {authority.name} is trusted, in the folders issued from now on")
    click.echo("next: bus keys issue MACHINE, and copy the folder, for each machine")


@keys.command(cls=KeysCommand)
@click.argument("folder", metavar="[FOLDER]", default="bus-keys")
def show(folder: str) -> None:
    """Show the certificates in FOLDER, of an authority or of a machine."""
    path = Path(folder)
    if (path / AUTHORITY).exists():
        authority = Authority(path)
        click.echo(f"signing: {authority.name}")
        rows = [
            (each.machine, each.since, each.until, each.authority)
            for each in authority.issued()
        ]
    else:
        found = MachineKeys(path).folder
        rows = [_facts(read_pem((found / MACHINE).read_bytes())[0])]
        for each in read_pem((found / TRUSTED).read_bytes()):
            click.echo(f"trusted: {each.subject.rfc4514_string().removeprefix('CN=')}")
    now = dt.datetime.now(tz=dt.UTC)
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


def _facts(
    certificate: x509.Certificate,
) -> tuple[str, dt.datetime, dt.datetime, str]:
    return (
        machine_of(certificate) or "?",
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        certificate.issuer.rfc4514_string().removeprefix("CN="),
    )


def _state(since: dt.datetime, until: dt.datetime, now: dt.datetime) -> str:
    if now < since:
        return "not yet valid"
    if now >= until:
        return "expired"
    return "ends soon" if until - now < _SOON else "valid"
