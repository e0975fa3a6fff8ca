"""``bus metrics``: the metrics of all processes of a machine, over HTTP."""

from __future__ import annotations

import sys
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import click
from prometheus_client import CollectorRegistry, Histogram, make_wsgi_app
from prometheus_client.registry import Collector

from bus.cli.exits import ERROR, fail, interruptible
from bus.cli.live import joined, live_options, unserved
from bus.cli.queries import Answers, ask, query_own_machine
from bus.cli.text import to_json
from bus.errors import BusError
from bus.features.metrics.collector import described
from bus.features.metrics.collector import metrics as metrics_of
from bus.features.metrics.families import COMMON
from queuebroker import _net, _sync

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from bus.api.bus import Bus
    from bus.cli.target import Target

__all__ = ["metrics"]

_REQUEST_S: Final = 5.0  # the longest pause of a client in its request
_BACKLOG: Final = 16
_BUCKETS_S: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
)


@click.command(epilog="Example: bus metrics --bus house --port 9464")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9464,
    show_default=True,
    metavar="PORT",
    help="TCP port; 0 for any free one.",
)
@click.option(
    "--listen",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen at. Every client that reaches it may read the metrics.",
)
@click.option(
    "--per-task",
    is_flag=True,
    help="Add series for each public task, its subscriptions, and each link.",
)
@live_options(5.0)
def metrics(target: Target, *, port: int, listen: str, per_task: bool) -> None:
    """Serve the metrics of the bus on this machine to Prometheus.

    Each scrape asks all processes of the machine for their counters. A process that
    does not answer within --timeout has bus_process_up 0. The command runs until
    Ctrl-C, also while the bus has no process.
    """
    if message := unserved(target):
        click.echo(f"bus: {message}; waiting", err=True)
    try:
        server = _Server(listen, port)
    except OSError as error:
        fact = f"cannot listen at {listen}, port {port}: {error.strerror or error}"
        fail(f"{fact}; choose another --port or --listen", ERROR)
    with server, joined(target, patient=True) as bus:
        registry = CollectorRegistry()
        registry.register(_OfMachine(target, bus, per_task=per_task))
        server.set_app(make_wsgi_app(registry))
        host = f"[{listen}]" if ":" in listen else listen
        url = f"http://{host}:{server.server_port}/metrics"
        click.echo(to_json({"url": url}) if target.as_json else url)
        try:
            with interruptible():
                while True:  # not `serve_forever`, which wakes twice a second
                    server.handle_request()
        except KeyboardInterrupt:
            return  # the regular end


class _OfMachine(Collector):
    """The collector of all processes of a machine; one scrape after the other."""

    def __init__(self, target: Target, bus: Bus, *, per_task: bool) -> None:
        self._target: Final = target
        self._bus: Final = bus
        self._per_task: Final = per_task
        self._lock: Final = _sync.Lock()
        # The processes at the last scrape, the master first.
        self._known: list[str] = []
        # The verb keeps it, since no message carries the time at which it was sent.
        self._durations: Final = Histogram(
            "bus_query_duration_seconds",
            "Time from the query of a scrape to the answer of the process.",
            COMMON,
            buckets=_BUCKETS_S,
            registry=None,
        )

    def describe(self) -> Iterable[Metric]:
        """Return the names of all metrics; the bus is not queried."""
        return [*described(per_task=self._per_task), *self._durations.describe()]

    def collect(self) -> Iterable[Metric]:
        """Query all processes, and return their metrics; none without a master."""
        try:
            with self._lock:
                # At once if there is no bus: the query would wait for a master.
                if unserved(self._target):
                    return ()
                answers, absent = self._query()
                for process, took_s in answers.took_s.items():
                    self._durations.labels(*self._place(process)).observe(took_s)
        except (BusError, SystemExit):
            # Without a master the query prints the reason, and exits: a verb that asks
            # once could do nothing else.
            return ()
        places = [self._place(each) for each in absent]
        found = metrics_of(answers.told, places, per_task=self._per_task)
        return [*found, *self._durations.collect()]

    def _query(self) -> tuple[Answers, list[str]]:
        """Return the answers, and the processes that gave none."""
        try:
            answers = query_own_machine(self._target, self._bus)
        except BusError:
            # The master does not answer, and it alone knows the processes of now.
            master, *rest = self._known or [""]
            if not master:
                raise
            answers = ask(self._target, self._bus, rest)
            return answers, [master, *answers.missing]
        told = [str(each["process"]) for each in answers.told]
        left, self._known = self._known, [*told, *answers.missing]
        for process in {*left} - {*self._known}:
            # Early versions of the client library raise for one that never answered.
            with suppress(KeyError):
                self._durations.remove(*self._place(process))
        return answers, [*answers.missing]

    def _place(self, process: str) -> tuple[str, str, str]:
        """Return the common labels of a process."""
        return self._bus.name, self._bus.machine, process


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_S  # of `socketserver.StreamRequestHandler`

    def log_message(self, *_: Any) -> None:
        """Print nothing: a scrape every few seconds is no news."""


class _Server(ThreadingMixIn, WSGIServer):
    """A server with a thread for each request, so that a slow client delays no other.

    Its own `server_bind` is not called: it looks up the name of the host, which may
    take long.
    """

    daemon_threads = True  # the end of the verb waits for no client

    def __init__(self, address: str, port: int) -> None:
        super().__init__((address, port), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = _net.listen_tcp(address, port, backlog=_BACKLOG)
        self.server_name, self.server_port = address, _net.port_of(self.socket)
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error, unless it is that of a client that is silent, or leaves."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)
