"""``bus record``: write the notifications of a live bus to a journal.

The verb subscribes like any task, so the recorded programs need no journal. It records
each notification as its sender sent it, under the name of the sender.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import click

from bus.cli.exits import interruptible
from bus.cli.live import joined, live_options, unserved
from bus.cli.selection import checked_patterns
from bus.cli.text import Progress, duration, to_json, warn
from bus.errors import CommandTimeoutError
from bus.journal.wording import counted
from bus.journal.writer import Journal
from bus.model.config import BusConfig
from bus.model.events import BusOperation
from bus.model.message import Kind
from bus.model.payload import size_of
from bus.model.registration import Visibility
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.api.bus import Bus
    from bus.api.task import Task
    from bus.cli.target import Target
    from bus.features.subscriptions.api import Subscription
    from bus.model.message import Incoming

__all__ = ["record"]

_EVERY_S: Final = 0.5  # between two lines of progress
_DRAIN_S: Final = 1.0  # for writing the unread notifications at the end
# The bound on unread notifications, for each pattern. In bytes it is
# `BusConfig.task_fifo_bytes`, so a burst of short ones is not lost.
_CAPACITY: Final = 65_536


@click.command(epilog="Example: bus record 'sensor/**' --bus house --out rec")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1, callback=checked_patterns)
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Folder for the recording; others in it are kept.",
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after N notifications.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Delete the oldest files of this recording beyond N bytes.",
)
@live_options(None)
def record(
    target: Target,
    patterns: tuple[str, ...],
    out: str,
    count: int | None,
    max_bytes: int | None,
) -> None:
    """Record the notifications of all tasks whose names match a PATTERN.

    Without a PATTERN, records those of all tasks. In a pattern, * matches one segment
    of a name, and ** any number of them. If the bus has no process yet, waits for one.
    Runs until Ctrl-C or SIGTERM, for --timeout seconds or --count notifications, also
    while no program runs.

    The bus never waits for the recorder: it drops notifications that arrive faster than
    they are written, and the summary counts them as lost.

    bus replay sends the recorded notifications again. Commands and answers are recorded
    only by their own processes, with open_bus(journal=...).
    """
    with ExitStack() as stack:
        stack.enter_context(interruptible())
        journal = stack.enter_context(_journal(out, max_bytes))
        if absent := unserved(target):
            click.echo(f"bus: {absent}; waiting", err=True)
        bus = stack.enter_context(joined(target, patient=True))
        progress = stack.enter_context(Progress(stderr=True))
        recording = _Recording(bus, journal, count)
        try:
            # Without a program, nothing can confirm the subscription.
            recording.subscribe(patterns or ("**",), wait=not absent)
            progress.show(f"recording to {out}")
            recording.run(target.deadline(), progress)
        except KeyboardInterrupt:
            pass  # the regular end
        recording.end()
    if target.as_json:
        click.echo(to_json(recording.facts()))
    else:
        click.echo(recording.summary())


def _journal(out: str, max_bytes: int | None) -> Journal:
    longest = BusConfig().message_bytes_max
    try:
        return Journal(
            out, payloads=True, payload_bytes_max=longest, max_bytes=max_bytes
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


class _Recording:
    """Writes received notifications to a journal, each under its sender's name.

    Each is one NOTIFY record, as its sender would write it, with this process as the
    destination. The numbers of the senders are new: if a sender writes a journal of its
    own to the same folder, its records describe other messages.
    """

    def __init__(self, bus: Bus, journal: Journal, count: int | None) -> None:
        self._journal: Final = journal
        self._sink: Final = journal._trace_sink()
        self._count: Final = count
        # The number of this process, from which the senders are counted. 62 bits, so
        # that a signed column holds all of them.
        self._process: Final = int.from_bytes(os.urandom(8)) >> 2
        self._sink.on_registered(self._process, "")
        self._origins: Final[dict[str, int]] = {}
        self._sent: Final[dict[int, int]] = {}  # the last number of each sender
        self._subscriptions: Final[list[Subscription]] = []
        self._begun: Final = _sync.monotonic()
        self._here: Final = bus.here()
        self._bus: Final = bus
        self._ended = False
        self._seconds = 0.0
        self._notifications = self._bytes = self._lost = self._without_payload = 0

    def subscribe(self, patterns: tuple[str, ...], *, wait: bool) -> None:
        """Subscribe; a process that does not confirm in time is reported.

        wait: False if no process is there to confirm.

        A thread of its own writes: an interrupt reaches only the main thread, and so
        never comes between the steps of a record.
        """
        task = self._bus.register(
            "recorder", thread=self._bus.thread(), visibility=Visibility.PRIVATE
        )
        for pattern in patterns:
            try:
                self._subscribe(task, pattern, wait=wait)
            except CommandTimeoutError as error:
                warn([f"{error}; its first notifications may be missing"])
                self._subscribe(task, pattern, wait=False)

    def _subscribe(self, task: Task, pattern: str, *, wait: bool) -> None:
        self._subscriptions.append(
            task.subscribe(pattern, self._write, capacity=_CAPACITY, wait=wait)
        )

    def run(self, until: float, progress: Progress) -> None:
        """Wait until the count is reached, or the time is up."""
        while not self._ended and (now := _sync.monotonic()) < until:
            self._here.poll(min(_EVERY_S, until - now))
            progress.show(self.summary("recorded so far:"))

    def end(self) -> None:
        """Write unread notifications for at most a second; note the final counts."""
        until = _sync.monotonic() + _DRAIN_S
        while (unread := self._unread()) and not self._ended:
            if _sync.monotonic() >= until:
                self._lost += unread
                break
            self._here.poll(_DRAIN_S / 100)
        self._lost += self._dropped()
        self._seconds = _sync.monotonic() - self._begun
        self._ended = True

    def _unread(self) -> int:
        return sum(
            each.notifications.unread
            for task in self._bus.tasks()
            for each in task.subscriptions
        )

    def _dropped(self) -> int:
        return sum(each.dropped for each in self._subscriptions)

    def _write(self, message: Incoming) -> None:
        if self._ended:
            return
        name = message.sender.module
        origin = self._origins.get(name)
        if origin is None:
            origin = self._origins[name] = self._process + len(self._origins) + 1
            self._sent[origin] = 0
            self._sink.on_registered(origin, name)
        # The lost ones keep their numbers.
        number = self._sent[origin] = self._sent[origin] + message.gap + 1
        payload = message.payload
        size = size_of(payload)
        flags, location = self._sink.write_payload(payload, None, failed=False)
        self._sink.record(
            BusOperation.NOTIFY,
            origin,
            number,
            self._process,
            size=size,
            kind=Kind.NOTIFICATION,
            flags=flags,
            location=location,
        )
        self._notifications += 1
        self._bytes += size
        self._without_payload += not location
        if self._notifications == self._count:
            self._ended = True
            self._here.call_soon(_nothing)  # wakes `run`

    def facts(self) -> dict[str, Any]:
        """Return the result, for JSON."""
        return {
            "notifications": self._notifications,
            "senders": len(self._origins),
            "bytes": self._bytes,
            "seconds": round(self._seconds, 3),
            "lost": self._lost,
            "not_written": self._journal.lost,
            "payloads_not_written": self._without_payload,
            "folder": str(self._journal.folder),
        }

    def summary(self, verb: str = "recorded") -> str:
        """Return the result as one line."""
        seconds = self._seconds or _sync.monotonic() - self._begun
        lost = self._lost if self._ended else self._dropped()
        parts = [
            f"{verb} {counted(self._notifications, 'notification')} of"
            f" {counted(len(self._origins), 'task')}, {counted(self._bytes, 'byte')},"
            f" in {duration(seconds)}",
            f"lost: {lost:,}",
        ]
        if self._journal.lost or self._without_payload:
            parts.append(
                f"no room on disk for {counted(self._journal.lost, 'record')} and"
                f" {counted(self._without_payload, 'payload')}"
            )
        return "; ".join(parts)


def _nothing() -> None:
    """Do nothing: the call itself wakes a thread."""
