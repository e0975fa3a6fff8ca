"""``bus web``: a page about a live bus, or about a recording."""

from __future__ import annotations

import ipaddress
import secrets
import webbrowser
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
import uvicorn

from bus.cli.exits import USAGE, fail, interruptible
from bus.cli.live import joined, live_options, unserved
from bus.cli.queries import pause
from bus.cli.text import Progress, to_json
from bus.errors import BusError
from bus.features.machines.machine_keys import MACHINE, MachineKeys
from bus.journal.wording import printable
from bus.web.live import LinkEnds, LiveSource
from bus.web.picture import History
from bus.web.server import Subject, new_app
from queuebroker import _net, _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus.api.bus import Bus
    from bus.cli.target import Target

__all__ = ["web"]

_BUS: Final = "bus1"
_HERE: Final = "127.0.0.1"
_BACKLOG: Final = 64
_GRACE_S: Final = 2  # for answers under way, at the end
_POLL_S: Final = 0.1  # between two looks for a bus
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@click.command(epilog="Example: bus web --bus house --open")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    metavar="N",
    help="TCP port of the page; 0 picks a free one.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--journal",
    "directory",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Show the recording at DIR in place of a live bus.",
)
@click.option(
    "--allow-commands", is_flag=True, help="Let the page send commands to tasks."
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="Address of this machine at which other machines reach the page, by TLS with"
    " the keys in --network.  [default: this machine only]",
)
@live_options(10.0, bus=None)
def web(
    target: Target,
    *,
    port: int,
    opens: bool,
    directory: str | None,
    allow_commands: bool,
    listen: str | None,
) -> None:
    """Serve a page that shows a live bus, until Ctrl-C.

    The printed address has a token behind the #; only a browser that has it sees the
    bus. The page cannot change anything without --allow-commands. The bus is bus1 by
    default, and the command waits until a program has opened it. Other machines are
    shown with --network.
    """
    if directory is not None and (target.bus or allow_commands):
        given = "--bus" if target.bus else "--allow-commands"
        raise click.UsageError(f"--journal cannot be combined with {given}")
    certificate = None
    if listen is not None:
        listen = _checked(listen)
        certificate = _certificate(target, listen)
    with _address(listen or _HERE, port, certificate) as address:
        if directory is not None:
            from bus.web.recorded import Recording  # noqa: PLC0415 - a bus needs no journal

            with Progress(stderr=True) as progress:
                progress.show(f"reading {printable(directory)}")
                recording = Recording.read(directory)
            subject = Subject(directory, False, recording.history, recording.way)
            _serve(subject, address, target, opens=opens)
            return
        target = attrs.evolve(target, bus=target.bus or _BUS)
        if message := unserved(target):
            click.echo(f"bus: {message}; waiting", err=True)
            while unserved(target):
                pause(_POLL_S)
        ends, history = LinkEnds(), History()
        with joined(target, journal=ends) as bus:
            source = LiveSource(bus, ends, history, afar=target.network is not None)
            send = _sender(bus) if allow_commands else None
            title = f"{bus.name} on {bus.machine}"
            subject = Subject(title, True, history, None, send)
            _serve(subject, address, target, source, opens=opens)


@attrs.frozen
class _Address:
    """Where the server listens.

    hosts: the values of the Host header.
    """

    socket: Any
    host: str
    scheme: str
    hosts: frozenset[str]
    certificate: Path | None


def _checked(listen: str) -> str:
    """Return the address of ``--listen`` as browsers write it; exit if it is none."""
    try:
        address = ipaddress.ip_address(listen)
    except ValueError:
        address = None
    if address is None or address.is_unspecified:
        fail(f"--listen {listen}: give the one IP address that browsers use", USAGE)
    return str(address)


def _certificate(target: Target, listen: str) -> Path:
    """Return the file of the key and the certificate of this machine."""
    if target.network is None or target.network.keys is None:
        fail(
            f"--listen {listen}: the page needs the keys of this machine; give a"
            " --network FILE with keys, which 'bus keys issue' makes",
            USAGE,
        )
    return MachineKeys(target.network.keys).folder / MACHINE


@contextmanager
def _address(host: str, port: int, certificate: Path | None) -> Iterator[_Address]:
    """Listen at an address for the duration of a block; a context manager."""
    try:
        socket = _net.listen_tcp(host, port, backlog=_BACKLOG)
    except OSError as error:
        remedy = "end its owner, or give another --port"
        fail(f"cannot listen at {host}:{port}: {error.strerror}; {remedy}")
    with socket:
        port = _net.port_of(socket)
        scheme = "http" if certificate is None else "https"
        names = [f"[{host}]" if ":" in host else host]
        names += ["localhost"] if host == _HERE else []
        hosts = {f"{name}:{port}" for name in names}
        if port == _DEFAULT_PORTS[scheme]:
            hosts |= {*names}  # a browser omits it
        yield _Address(
            socket, f"{names[0]}:{port}", scheme, frozenset(hosts), certificate
        )


def _serve(
    subject: Subject,
    address: _Address,
    target: Target,
    source: LiveSource | None = None,
    *,
    opens: bool,
) -> None:
    """Serve the page until Ctrl-C, SIGTERM, or the end of the source."""
    token = secrets.token_urlsafe(24)
    app = new_app(
        subject,
        token=token,
        hosts=address.hosts,
        scheme=address.scheme,
        is_closing=lambda: server.should_exit,
    )
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            http="h11",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            ssl_certfile=address.certificate,
        )
    )
    failures: list[BaseException] = []

    def ask(source: LiveSource) -> None:
        try:
            source.run()
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)
        finally:
            server.should_exit = True

    def stop(*_: object) -> None:
        server.should_exit = True

    url = f"{address.scheme}://{address.host}/#{token}"
    # Not by a `KeyboardInterrupt`, which may come before the server can end in order.
    with interruptible(stop):
        if target.as_json:
            click.echo(to_json({"address": url}))
        else:
            click.echo(f"{printable(subject.title)}: {url}")
        asking: _sync.Thread | None = None
        if source is not None:
            asking = _sync.Thread(target=ask, args=(source,), name="web", daemon=True)
            asking.start()
        try:
            with _browser(url if opens else ""):
                server.run(sockets=[address.socket])
        finally:
            if source is not None and asking is not None:
                source.close()
                asking.join()
    for error in failures:
        raise error


@contextmanager
def _browser(url: str) -> Iterator[None]:
    """Open an address in a browser, if it is not "", for the duration of a block.

    Every user of a machine may read the arguments of a program. So the browser gets
    the name of a file that leads to the address, which has the token.
    """
    if not url:
        yield
        return
    with TemporaryDirectory(prefix="bus-web-") as folder:
        file = Path(folder, "page.html")
        file.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={url}">',
            encoding="utf-8",
        )
        if not webbrowser.open(file.as_uri()):
            click.echo("bus: found no browser; open the address above", err=True)
        yield


def _sender(bus: Bus) -> Callable[[str, Any, float], dict[str, Any]]:
    """Return a function that sends a command and returns what the page shows of it."""

    def send(name: str, payload: Any, timeout_s: float) -> dict[str, Any]:
        try:
            answer = bus.call(name, payload, timeout=timeout_s)
        except (BusError, ValueError, TypeError) as error:
            return {"error": str(error)}
        return {"answer": to_json(answer)}

    return send
