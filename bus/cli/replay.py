"""``bus replay``: send the messages of a recording again, on a live bus.

One process stands for all recorded senders. `bus.journal.replay.Schedule` decides when
each message is due; this module waits, sends, and reads the keys.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from bus.cli.exits import FAILED, fail, interruptible
from bus.cli.live import joined, live_options, parsed, unserved
from bus.cli.selection import selection_options
from bus.cli.text import Progress, duration, to_json, wall_text, warn
from bus.errors import BusFullError, JournalError, NameTakenError, WireError
from bus.journal.messages import read_messages
from bus.journal.replay import Schedule
from bus.journal.wording import counted, printable
from bus.model.address import check_module_name, is_system
from bus.model.registration import Role
from queuebroker import _net, _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bus.api.bus import Bus
    from bus.api.task import Task
    from bus.cli.selection import Selection
    from bus.cli.target import Target
    from bus.journal.messages import RecordedMessage
    from bus.model.message import Response

__all__ = ["replay"]

_TICK_S: Final = 0.05  # between two reads of the keys
_INTERRUPTED_S: Final = 1.0  # for the last acknowledgements, after Ctrl-C
_ROOM_S: Final = 0.001  # between two counts of the notifications in transit

# After so many messages or bytes, the replay waits until the subscribers have taken
# most of them. The bus never lets a notifier wait: it drops the oldest. Its bounds
# (`BusConfig.task_fifo_messages` and `window`) have room for several bursts. Without
# this, a replay at full rate loses half of its messages.
_BURST_MESSAGES: Final = 512
_BURST_BYTES: Final = 4 << 20
_BURSTS_IN_TRANSIT: Final = 4

# At full rate, how many messages are sent between two looks at the clock.
_UNTIMED_MESSAGES: Final = 64

# The beginnings of an arrow key. As keys of their own they have no effect.
_BEGUN: Final = ("\x1b[", "\x1bO", "\x1b")

# Why a recorded message is not sent, as the summary shows it.
_SYSTEM: Final = "of the bus itself"
# Where no process can join another one of its machine, the replay is a machine alone.
_ALONE: Final = "this system has no UNIX sockets"
_NO_SENDER: Final = "of an unknown sender"
_NO_RECEIVER: Final = "to an unknown task"
_NO_PAYLOAD: Final = "without a whole payload"
_DAMAGED: Final = "with a damaged payload"
_TO_ITSELF: Final = "to a replayed task"
_NEW_SENDER: Final = "of a task that was not recorded when the replay began"


def _rate(text: str) -> float:
    """Return the rate; "max" is infinite."""
    try:
        rate = math.inf if text == "max" else float(text)
    except ValueError:
        rate = math.nan
    if not rate > 0:
        raise ValueError(f"{text!r} is not a rate; give a number above 0, or max")
    return rate


def _renames(_: object, __: object, texts: tuple[str, ...]) -> dict[str, str]:
    renames: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r} is not of the form OLD=NEW")
        try:
            check_module_name(new)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
        if renames.setdefault(old, new) != new:
            raise click.BadParameter(f"{old!r} has two new names; give one")
    return renames


@click.command(epilog="Example: bus replay rec --bus house --rate 4")
@click.argument("directory", metavar="DIR")
@click.option(
    "--rate",
    default="1",
    show_default=True,
    metavar="X",
    callback=parsed(_rate),
    help="Replay X times as fast as recorded; max: as fast as possible.",
)
@click.option("--step", is_flag=True, help="Start paused; needs a terminal.")
@click.option("--loop", is_flag=True, help="Begin again after the last message.")
@click.option("--commands", is_flag=True, help="Send the recorded commands, too.")
@click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="OLD=NEW",
    callback=_renames,
    help="Use another name for a recorded task; may be repeated.",
)
@selection_options()
@live_options(10.0)
def replay(
    target: Target,
    directory: str,
    rate: float,
    *,
    step: bool,
    loop: bool,
    commands: bool,
    renames: Mapping[str, str],
    selection: Selection,
) -> None:
    """Send the notifications recorded at or below DIR again, on a live bus.

    This process registers the name of each recorded sender, and sends its notifications
    at the recorded intervals. If a task of the bus has one of the names, nothing is
    sent. If the bus has no process, the replay opens it, and waits for a subscriber
    before it begins. Commands go to the tasks that have the recorded names now; their
    answers are counted and not compared.

    On a terminal, the space bar pauses and resumes, . or the right arrow sends one
    message, + and - double and halve the rate, and q ends. --timeout limits each wait:
    for the first subscriber, for answers, and at the end for slow subscribers. Exits
    with 1 if a command failed.
    """
    kinds = ("notification", "command") if commands else ("notification",)
    filters = attrs.evolve(selection, kinds=kinds).filters(directory)
    # Computed once: the first and the last record of a recording may change.
    read = functools.partial(read_messages, directory, **filters)
    with ExitStack() as stack:
        keys = stack.enter_context(_key_reader())
        if step and keys is None:
            raise click.UsageError("--step needs a terminal, which sends the keys")
        stack.enter_context(interruptible())
        part = _Part.of(read(payloads=False))
        _check_part(part, directory, renames)
        opens = unserved(target) if _net.HAS_UNIX else _ALONE
        if opens:
            click.echo(f"bus: {opens}; the replay opens it", err=True)
        bus = stack.enter_context(joined(target, patient=True, role=Role.AUTO))
        tasks = _registered(bus, part.senders, renames)
        if opens and not step:
            # A subscriber that starts together with the replay must not miss the
            # beginning.
            tasks[part.first_sender].wait_for_subscribers(1, target.timeout_s)
        progress = stack.enter_context(Progress(stderr=True))
        schedule = Schedule(rate, part.first_ns, _sync.monotonic(), paused=step)
        sender = _Replay(target, bus, tasks, renames, schedule, keys, progress)
        sender.play(read, part, loop=loop)
    if target.as_json:
        click.echo(to_json(sender.facts()))
    else:
        click.echo(sender.summary())
    warn(sender.first_failure)
    if sender.failed:
        sys.exit(FAILED)


@attrs.define
class _Part:
    """The selected part of a recording, read once before anything is sent.

    senders: the names to register.
    first_sender, first_ns: the sender and the time of the first message to send.
    count: the number of messages to send.
    skipped: the number of all others, by reason.
    """

    senders: set[str] = attrs.field(factory=set)
    first_sender: str = ""
    first_ns: int = 0
    count: int = 0
    skipped: Counter[str] = attrs.field(factory=Counter)

    @classmethod
    def of(cls, messages: Iterator[RecordedMessage]) -> _Part:
        """Return the part with these messages."""
        part = cls()
        for message in messages:
            if why := _obstacle(message):
                part.skipped[why] += 1
                continue
            if not part.count:
                part.first_sender, part.first_ns = message.sender, message.wall_ns
            part.count += 1
            part.senders.add(message.sender)
        return part


def _obstacle(message: RecordedMessage) -> str:
    """Return why a recorded message cannot be sent; "" if it can."""
    why = _task_obstacle(message.kind, message.sender, message.receiver)
    if not why and (message.encoded is None or message.truncated):
        return _NO_PAYLOAD
    return why


@functools.lru_cache
def _task_obstacle(kind: str, sender: str, receiver: str) -> str:
    """Return why messages between two tasks cannot be sent."""
    if is_system(sender) or is_system(receiver):
        return _SYSTEM
    if not sender:
        return _NO_SENDER
    if kind == "command" and not receiver:
        return _NO_RECEIVER
    return ""


def _check_part(part: _Part, directory: str, renames: Mapping[str, str]) -> None:
    """Exit if there is nothing to send, or if a renamed task has sent nothing."""
    if not part.count:
        found = f" ({_reasons(part.skipped)})" if part.skipped else ""
        remedy = "choose another with --since, --until, --only or --commands"
        if part.skipped[_NO_PAYLOAD]:
            remedy = "record payloads with bus record or Journal(payloads=True)"
        fail(
            f"cannot replay {directory!r}: the selected part has no message to"
            f" send{found}; {remedy}"
        )
    if strange := sorted(set(renames) - part.senders):
        known = ", ".join(sorted(part.senders)[:9])
        fail(f"cannot rename {strange[0]!r}: no sender has that name; senders: {known}")


def _registered(
    bus: Bus, senders: set[str], renames: Mapping[str, str]
) -> dict[str, Task]:
    """Register the name of each sender; return the tasks by the recorded names."""
    tasks: dict[str, Task] = {}
    for name in sorted(senders):
        new = renames.get(name, name)
        same = [tasks[each] for each in tasks if renames.get(each, each) == new]
        try:
            tasks[name] = same[0] if same else bus.register(new, thread=bus.here())
        except NameTakenError as error:
            fail(f"{error}; stop that task, or replay with --rename {name}=NEW")
        except ValueError as error:  # of an imported file
            fail(f"{error}; replay with --rename {name}=NEW")
    return tasks


class _Replay:
    """Sends the messages of one recording, and counts their outcomes.

    tasks: the registered tasks, by the recorded names of the senders.
    keys: returns the keys pressed since the last call; None without a terminal.
    """

    def __init__(
        self,
        target: Target,
        bus: Bus,
        tasks: Mapping[str, Task],
        renames: Mapping[str, str],
        schedule: Schedule,
        keys: Callable[[], str] | None,
        progress: Progress,
    ) -> None:
        self._bus: Final = bus
        self._thread: Final = bus.here()
        self._tasks: Final = tasks
        self._renames: Final = renames
        self._schedule: Final = schedule
        self._keys: Final = keys
        self._progress: Final = progress
        self._timeout_s: Final = target.timeout_s
        self._begun: Final = _sync.monotonic()
        self._next_tick = self._begun
        self._ended = self._interrupted = False
        self._at_ns = 0  # the time of the message that is next
        self._burst = self._burst_bytes = 0
        self._skipped: Counter[str] = Counter()
        self._notifications = self._commands = self._bytes = 0
        self._answered = self._open = 0
        self._unheard = self._lost = 0
        self._seconds = 0.0
        self.failed = 0
        self.first_failure: list[str] = []

    def play(
        self, read: Callable[[], Iterator[RecordedMessage]], part: _Part, *, loop: bool
    ) -> None:
        """Send the messages until the last one, an interrupt or the key q."""
        # An exception could come after a message is sent and before it is counted.
        with interruptible(self._interrupt):
            self._pass(read())
            while loop and not self._ended:
                self._schedule.restart(part.first_ns, _sync.monotonic())
                self._pass(read())
            self._finish()
        self._seconds = _sync.monotonic() - self._begun
        self._count_losses()

    def _pass(self, messages: Iterator[RecordedMessage]) -> None:
        schedule, now = self._schedule, _sync.monotonic
        untimed = 0
        for message in messages:
            if why := _obstacle(message):
                self._skipped[why] += 1
                continue
            at = self._at_ns = message.wall_ns
            if untimed and schedule.is_unlimited:
                untimed -= 1
            else:
                while (moment := now()) >= self._next_tick or (
                    schedule.wait_s(at, moment) > 0
                ):
                    self._wait(at, moment)
                    if self._ended:
                        return
                schedule.on_sent(at, moment)
                untimed = _UNTIMED_MESSAGES
            self._send(message)
            if self._burst >= _BURST_MESSAGES or self._burst_bytes >= _BURST_BYTES:
                self._wait_for_room()

    def _wait(self, at_ns: int, now: float) -> None:
        """Wait until a message is due, at most until the next tick."""
        if now >= self._next_tick:
            self._next_tick = now + _TICK_S
            self._read_keys(now)
            self._progress.show(self._status())
        wait_s = min(self._schedule.wait_s(at_ns, now), self._next_tick - now)
        # Even without time to wait, serve the answers that have arrived.
        self._thread.poll(max(0.0, wait_s))

    def _send(self, message: RecordedMessage) -> None:
        try:
            payload = message.payload()
        except (JournalError, WireError):
            self._skipped[_DAMAGED] += 1
            return
        task = self._tasks.get(message.sender)
        if task is None:
            self._skipped[_NEW_SENDER] += 1
        elif message.kind == "notification":
            task.notify(payload)
            self._notifications += 1
            self._burst += 1
            self._bytes += message.size
            self._burst_bytes += message.size
        elif message.receiver in self._tasks:
            # It would wait, unread, for a task without a program.
            self._skipped[_TO_ITSELF] += 1
        else:
            self._command(task, message.receiver, payload)
            self._bytes += message.size

    def _command(self, task: Task, receiver: str, payload: Any) -> None:
        self._commands += 1
        self._open += 1
        try:
            task.command(
                receiver,
                payload,
                on_response=self._on_response,
                timeout=self._timeout_s,
            )
        except BusFullError as error:
            self._open -= 1
            self._fail(str(error))

    def _on_response(self, response: Response) -> None:
        self._open -= 1
        if response.error is None:
            self._answered += 1
        else:
            self._fail(str(response.error))

    def _fail(self, reason: str) -> None:
        self.failed += 1
        if not self.first_failure:
            self.first_failure.append(f"the first command that failed: {reason}")

    def _wait_for_room(self) -> None:
        """Wait until subscribers have taken most notifications; see the bounds."""
        most = self._burst
        self._burst = self._burst_bytes = 0
        while not self._ended:
            queued, in_transit = self._unsent()
            if queued <= most and in_transit <= _BURSTS_IN_TRANSIT * most:
                return
            self._thread.poll(_ROOM_S)
            now = _sync.monotonic()
            if now >= self._next_tick:
                self._wait(self._at_ns, now)

    def _unsent(self) -> tuple[int, int]:
        """Return the notifications queued here, and in transit to one process."""
        seen = self._bus.inspect()
        queued = seen.notifying.unread if seen.notifying else 0
        transits = (each.notifications.in_transit for each in seen.peers)
        return queued, max(transits, default=0)

    def _finish(self) -> None:
        """Wait for the subscribers and the answers: leaving discards the rest."""
        begun = _sync.monotonic()
        while True:
            limit_s = _INTERRUPTED_S if self._interrupted else self._timeout_s
            late = limit_s is not None and _sync.monotonic() - begun >= limit_s
            queued, in_transit = self._unsent()
            # The queue of this process waits for no other one.
            if not queued and (late or not (in_transit or self._open)):
                return
            self._thread.poll(_ROOM_S)

    def _interrupt(self, *_: object) -> None:
        self._ended = self._interrupted = True

    def _count_losses(self) -> None:
        seen = self._bus.inspect()
        self._unheard = sum(each.no_subscriber for each in seen.tasks)
        self._lost = sum(
            each.notifications.dropped
            + each.notifications.failed
            + each.notifications.in_doubt
            + each.notifications.in_transit
            for each in seen.peers
        )
        if seen.notifying is not None:
            self._lost += seen.notifying.dropped + seen.notifying.unread

    def _read_keys(self, now: float) -> None:
        schedule = self._schedule
        for key in self._keys() if self._keys else "":
            match key:
                case " ":
                    (schedule.resume if schedule.paused else schedule.pause)(now)
                case ".":
                    schedule.step(now)
                case "+":
                    schedule.scale(2.0, now)
                case "-":
                    schedule.scale(0.5, now)
                case "q":
                    self._ended = True

    # The texts.

    def _status(self) -> str:
        keys = "; keys: space . + - q" if self._keys else ""
        state = "paused" if self._schedule.paused else self._speed()
        sent = counted(self._notifications + self._commands, "message")
        return f"{sent}, {wall_text(self._at_ns)}, {state}{keys}"

    def _speed(self) -> str:
        rate = self._schedule.rate
        return "as fast as possible" if rate == math.inf else f"rate {rate:g}"

    def facts(self) -> dict[str, Any]:
        """Return the result, for JSON."""
        return {
            "notifications": self._notifications,
            "no_subscriber": self._unheard,
            "lost": self._lost,
            "commands": self._commands,
            "answered": self._answered,
            "failed": self.failed,
            "bytes": self._bytes,
            "seconds": round(self._seconds, 3),
            "lag_s": round(self._schedule.lag_s, 3),
            "skipped": dict(self._skipped),
        }

    def summary(self) -> str:
        """Return the result as one line."""
        sent = [counted(self._notifications, "notification")]
        if self._commands:
            sent.append(counted(self._commands, "command"))
        parts = [
            f"replayed {' and '.join(sent)} of {counted(len(self._tasks), 'task')},"
            f" {counted(self._bytes, 'byte')}, in {duration(self._seconds)},"
            f" {self._speed()}"
        ]
        if self._schedule.lag_s >= _TICK_S:
            parts.append(f"up to {duration(self._schedule.lag_s)} late")
        if self._commands:
            parts.append(f"{self._answered:,} answered, {self.failed:,} failed")
        if self._unheard:
            parts.append(f"{self._unheard:,} had no subscriber")
        if self._lost:
            parts.append(f"{self._lost:,} did not reach a subscribing process")
        if self._skipped:
            parts.append(f"skipped: {_reasons(self._skipped)}")
        return printable("; ".join(parts))


def _reasons(skipped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {why}" for why, count in sorted(skipped.items()))


@contextmanager
def _key_reader() -> Iterator[Callable[[], str] | None]:
    """Give a function that returns the keys pressed since its last call.

    None if stdin is no terminal, or that of another job: to change the mode of a
    terminal would stop a background job. A context manager: at the end the terminal has
    its former mode, also after an error.
    """
    stdin = sys.stdin
    try:
        number = -1 if stdin is None else stdin.fileno()
        usable = os.isatty(number) and os.tcgetpgrp(number) == os.getpgrp()
    # Closed, or replaced by an object without a number; on Windows no such call.
    except (OSError, ValueError, AttributeError):
        usable = False
    if not usable:
        yield None
        return

    import termios  # noqa: PLC0415 - not on every system
    import tty  # noqa: PLC0415 - likewise

    begun = ""  # the first bytes of an arrow key: the terminal may split it

    def read() -> str:
        nonlocal begun
        try:
            text = begun + os.read(number, 256).decode(errors="replace")
        except OSError:  # the terminal is closed
            return ""
        begun = next((each for each in _BEGUN if text.endswith(each)), "")
        return text.replace("\x1b[C", ".").replace("\x1bOC", ".")

    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)  # Ctrl-C still interrupts
        mode = termios.tcgetattr(number)
        mode[6][termios.VMIN] = 0  # a read returns at once, with or without keys
        termios.tcsetattr(number, termios.TCSANOW, mode)
        yield read
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
