"""``bus socket listen|dial|join``: exchange lines on a socket of the bus pattern."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from bus.cli.exits import FAILED, TIMED_OUT, fail, one_line
from bus.cli.numbers import FiniteRange
from bus.cli.socket_session import SocketSession
from bus.pattern.bus_socket import BusSocket
from bus.pattern.pair_socket import PairSocket
from bus.pattern.socket_config import SocketConfig
from bus.pattern.socket_url import SocketUrl, Transport
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.pattern.dialler import Dialler

__all__ = ["socket"]

# Messages that arrive while the terminal is slow; the others are dropped (BP-6).
_CONFIG: Final = SocketConfig(receive_messages=1 << 16, receive_bytes=64 << 20)
_MULTICAST: Final = frozenset({Transport.MULTICAST})
_STREAMS: Final = frozenset(Transport) - {Transport.MULTICAST, Transport.INPROC}


@click.group(epilog="Example: bus socket listen tcp://127.0.0.1:5555")
def socket() -> None:
    """Send lines to other programs on a bus, and print their messages.

    Each line of stdin is a message to all peers, and each message of a peer is printed
    as a line. The peers are bus sockets of this package, of nanomsg or of NNG.

    Ends at the end of stdin, once all lines are sent; with --count, after that many
    messages instead. Exits with 1 if a message was dropped, and with 124 if the timeout
    came first.
    """


def _url(transports: frozenset[Transport]) -> Callable[..., Any]:
    """Return a click callback that accepts the addresses of some transports."""

    def read(_: object, __: object, text: str) -> str:
        try:
            transport = SocketUrl.parse(text).transport
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
        if transport not in transports:
            schemes = " or ".join(sorted(f"{each.value}://" for each in transports))
            raise click.BadParameter(f"{text!r} must begin with {schemes}")
        return text

    return read


def _options(*, has_pairs: bool) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a verb of a function that opens a socket.

    The function returns its `Dialler`, if any.
    """
    options = [
        click.option(
            "--count",
            type=click.IntRange(min=1),
            metavar="N",
            help="Exit after N messages were printed.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=FiniteRange(min=0.0),
            metavar="SECONDS",
            help="Exit after this time.  [default: never]",
        ),
        click.option(
            "--hex",
            is_flag=True,
            help="Print messages, and read lines, as hexadecimal digits.",
        ),
        click.option("--raw", is_flag=True, help="Print the bytes as they are."),
        click.option("--json", is_flag=True, help="Print JSON."),
    ]
    if has_pairs:
        options += [
            click.option("--pair", is_flag=True, help="Be a PAIR socket."),
            click.option(
                "--pair1", is_flag=True, help="Be a PAIR socket, version 1 of NNG."
            ),
        ]

    def decorated(begin: Callable[..., Dialler | None]) -> click.Command:
        @functools.wraps(begin)
        def run(
            url: str,
            count: int | None,
            timeout_s: float | None,
            **others: Any,
        ) -> None:
            form = _take_flag(others, ("hex", "raw", "json"))
            pair = _take_flag(others, ("pair", "pair1"))
            deadline = None if timeout_s is None else _sync.monotonic() + timeout_s
            with one_line(), _socket(pair) as opened:
                dialler = begin(opened, url, **others)
                session = SocketSession(opened, form, count, deadline)
                _exchange(session, count, timeout_s, dialler)

        command: Callable[..., None] = run
        for option in reversed(options):
            command = option(command)
        return socket.command()(command)

    return decorated


def _take_flag(options: dict[str, Any], names: Sequence[str]) -> str:
    """Remove flags that exclude each other; return the one that is set, or ""."""
    chosen = [name for name in names if options.pop(name, False)]
    if len(chosen) > 1:
        first, second = chosen[:2]
        raise click.UsageError(f"--{first} cannot be combined with --{second}")
    return chosen[0] if chosen else ""


def _socket(pair: str) -> BusSocket | PairSocket:
    if not pair:
        return BusSocket(_CONFIG)
    return PairSocket(_CONFIG, version=1 if pair == "pair1" else 0)


def _exchange(
    session: SocketSession,
    count: int | None,
    timeout_s: float | None,
    dialler: Dialler | None,
) -> None:
    try:
        if not session.wait_for_peer():
            fact = f"no peer has connected: waited for {timeout_s:g} s"
            if dialler is not None and dialler.error is not None:
                fact += f"; the last attempt failed: {dialler.error}"
            fail(fact, TIMED_OUT)
        if sys.stdin is not None and sys.stdin.isatty():
            click.echo("bus: connected; type lines to send, Ctrl-D to end", err=True)
        session.run()
    except KeyboardInterrupt:
        pass  # a regular end
    else:
        if count is not None and session.shown < count:
            fact = f"received {session.shown} of {count} messages before the timeout"
            fail(fact, TIMED_OUT)
    if session.failed:
        sys.exit(FAILED)


@_options(has_pairs=True)
@click.argument("url", metavar="URL", callback=_url(_STREAMS))
def listen(opened: BusSocket | PairSocket, url: str) -> None:
    """Accept peers at URL, such as tcp://host:port or ipc:///path.

    Port 0 lets the system choose one. The address is printed on stderr.
    """
    listener = opened.listen(url)
    click.echo(f"bus: listening at {listener.url}", err=True)


@_options(has_pairs=True)
@click.argument("url", metavar="URL", callback=_url(_STREAMS))
def dial(opened: BusSocket | PairSocket, url: str) -> Dialler:
    """Connect to URL, such as tcp://host:port or ipc:///path.

    Waits for a listener, and connects again after each loss.
    """
    return opened.dial(url)


@_options(has_pairs=False)
@click.argument("url", metavar="URL", callback=_url(_MULTICAST))
@click.option(
    "--source",
    default="",
    metavar="IP",
    help="Address of this host that selects the interface.",
)
def join(opened: BusSocket, url: str, source: str) -> None:
    """Join the multicast group URL, such as udp-mcast://239.1.2.3:7000.

    Only programs with this package understand the datagrams.
    """
    opened.join_group(url, source=source)
