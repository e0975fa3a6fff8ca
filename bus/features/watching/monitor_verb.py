"""``bus monitor``: the frames on the links of a live bus, while they are sent.

Each process records its own frames as long as it is queried for them repeatedly (see
`bus.features.watching.frame_monitor`). Each frame is recorded by its sender and by its
reader. A process counts the frames that it has no room to record. Any process that may
join the bus may monitor it, just as it may inspect it; the contents of messages are not
shown.
"""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from bus.cli.exits import TIMED_OUT, fail
from bus.cli.live import joined, live_options
from bus.cli.queries import others, silence
from bus.cli.text import to_json, wall_text
from bus.features.watching.inspector import inspector_of, own_inspector
from bus.journal.wording import printable
from bus.kernel.wire import FrameType
from bus.model.registration import Visibility
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bus.api.bus import Bus
    from bus.cli.target import Target
    from bus.model.message import Presence, Response

__all__ = ["monitor"]

_EVERY_S: Final = 0.1  # between two queries of a process
# Frames are shown in order, so they wait for all answers of a round, but not longer.
_SOON_S: Final = 0.5
_ANSWER_S: Final = 10.0  # a process that does not answer within it is reported

_ARROWS: Final = {"out": "-->", "in": "<--"}
# Numbers of registrations, searches and incarnations are times in nanoseconds. Only
# their last digits are shown, since the first ones are all the same.
_SAME: Final = re.compile(r"\d{7,}(?=\d{9}\b)")


@click.command(epilog="Example: bus monitor --type MSG --count 10")
@click.option("--process", metavar="NAME", help="Show the frames of this process only.")
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice([each.name for each in FrameType], case_sensitive=False),
    metavar="TYPE",
    help="Show frames of this type only, such as MSG; may be repeated.",
)
@click.option(
    "--count", type=click.IntRange(min=1), metavar="N", help="Exit after N frames."
)
@live_options(None)
def monitor(
    target: Target, process: str | None, types: tuple[str, ...], count: int | None
) -> None:
    """Show the frames on the links of the machine's processes, one per line.

    Messages are shown with their sender and addressee, without their contents. Runs
    until Ctrl-C, --count or --timeout; exits with 124 if fewer than --count frames were
    seen.
    """
    begun = _sync.monotonic()
    until = None if target.timeout_s is None else begun + target.timeout_s
    shown = 0
    with joined(target) as bus:
        known = others(target, bus)
        if process not in {None, *known}:
            fail(f"bus {target.bus!r} has no process {process!r}")
        poller = _FramePoller(bus, types, known, process)
        try:
            while shown != count and (until is None or _sync.monotonic() < until):
                for each in poller.poll(until):
                    click.echo(to_json(each) if target.as_json else _line(each))
                    shown += "type" in each
                    if shown == count:
                        break
                sys.stdout.flush()
        except KeyboardInterrupt:
            return  # the regular end
        finally:
            poller.close()
    if count is not None and shown < count:
        received = f"received {shown} of {count} frames"
        click.echo(f"bus: {received} before the timeout", err=True)
        sys.exit(TIMED_OUT)


class _FramePoller:
    """Queries each process for its frames, including processes that join later.

    types: names of the frame types to show; empty for all.
    known: the processes that are on the bus now.
    only: the single process to query; None for all.
    """

    def __init__(
        self, bus: Bus, types: Sequence[str], known: Iterable[str], only: str | None
    ) -> None:
        self._bus: Final = bus
        self._asked: Final = {"frames": list(types)}
        self._only: Final = only
        self._here: Final = {each for each in known if only in {None, each}}
        self._waiting: Final[set[str]] = set()  # queried, and not answered yet
        self._silent: Final[set[str]] = set()  # already reported as silent
        self._received: list[dict[str, Any]] = []
        self._thread: Final = bus.here()
        self._task: Final = bus.register(
            "monitor", thread=self._thread, visibility=Visibility.PRIVATE
        )
        if (inspector := own_inspector(bus._exchange)) is not None:
            # Otherwise two monitors would record one another's frames.
            inspector.closed = True
        self._task.watch(inspector_of("**"), self._seen)

    def poll(self, until: float | None) -> list[dict[str, Any]]:
        """Query all processes once; return the frames, ordered by their times."""
        now = _sync.monotonic()
        asked = self._here - self._waiting
        for process in sorted(asked):
            self._waiting.add(process)
            self._task.command(
                inspector_of(process),
                self._asked,
                on_response=self._answered,
                timeout=_ANSWER_S,
                ref=process,
            )
        latest = now + _SOON_S
        while (at := _sync.monotonic()) < (until or math.inf):
            end = latest if asked & self._waiting else now + _EVERY_S
            if end <= at:
                break
            self._thread.poll(min(end, until or math.inf) - at)
        received, self._received = self._received, []
        return sorted(received, key=lambda each: int(each["at_ns"]))

    def close(self) -> None:
        """Let all processes stop recording for this one."""
        for process in self._here:
            self._task.command(inspector_of(process), {"frames": None})

    def _seen(self, presence: Presence) -> None:
        process = presence.address.module.removeprefix(inspector_of(""))
        if process == self._bus.process or self._only not in {None, process}:
            return
        if presence.here:
            self._here.add(process)
        else:
            self._here.discard(process)

    def _answered(self, response: Response) -> None:
        process: str = response.reference
        self._waiting.discard(process)
        if response.error is not None:
            if process in self._here - self._silent:
                self._silent.add(process)
                words = str(silence(process, response.error))
                click.echo(f"bus: cannot query {process}: {printable(words)}", err=True)
            return  # the next round queries it again
        self._silent.discard(process)
        frames, left_out = response.payload["frames"], response.payload["left_out"]
        self._received += [{"process": process, **each} for each in frames]
        if left_out:
            self._received.append(
                {"process": process, "at_ns": _sync.wall_ns(), "left_out": left_out}
            )


# The line of a frame.


def _line(told: Mapping[str, Any]) -> str:
    at = wall_text(told["at_ns"]).partition("T")[2]
    if "left_out" in told:
        return f"{at} {told['process']}: {told['left_out']} more frames"
    words = " ".join(_runs(told) if "runs" in told else _facts(told["facts"]))
    arrow, other = _ARROWS[told["direction"]], told["other"] or "?"
    line = f"{at} {told['process']} {arrow} {other}  {told['type']} {words}"
    return str(printable(line.rstrip()))


def _runs(told: Mapping[str, Any]) -> Iterator[str]:
    first = told["first"]
    count = sum(each.get("count", 0) + each.get("more", 0) for each in told["runs"])
    if not count:
        yield f"no message below {told['floor']} will be resent"
        return
    yield f"{first}:" if count == 1 else f"{first} to {first + count - 1}:"
    yield "; ".join(map(_run, told["runs"]))


def _run(run: Mapping[str, Any]) -> str:
    if "more" in run:
        return f"{run['more']} more messages"
    count, kind = run["count"], run["kind"].replace("_", " ")
    many = kind if count == 1 else f"{count} {kind}s"
    size = f"{run['bytes']} byte{'' if run['bytes'] == 1 else 's'}"
    asks = ", wants an answer" if run["wants_reply"] else ""
    failed = ", failed" if run["failed"] else ""
    return (
        f"{many} {run['from']} -> {run['to']}, {size}, hop {run['hop']}{asks}{failed}"
    )


def _facts(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, value in facts.items():
        words = value
        if name == "taken":
            words = ", ".join(f"{task} to {number}" for task, number in value.items())
        elif isinstance(value, (list, tuple)):
            words = ", ".join(map(str, value))
        yield f"{name}={_SAME.sub('', str(words))}"
