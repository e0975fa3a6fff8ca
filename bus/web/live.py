"""`LiveSource`: asks the processes of a live bus, and adds rounds to a history.

It queries the inspector of each process, as `bus tree` and `bus monitor` do, and
nothing else. One thread does so. A process that does not answer delays no other one.

**The page costs the bus little.** Each process is asked every one to three seconds for
a brief report, whose cost does not grow with its tasks. A whole report has the row of
each task. Both have their own processor time: the next one follows when `_SHARE` of the
time that the process uses has paid for the last one. Frames on links are monitored
until about `_FRAMES` have passed. On a quiet link these are all messages; on a busy one
they are a sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs

from bus.errors import BusError
from bus.features.watching.inspector import inspector_of, own_inspector
from bus.model.events import BusReason
from bus.model.registration import Visibility
from bus.web import losses
from bus.web.picture import (
    NOTHING,
    History,
    Picture,
    Round,
    View,
    key_of,
    percentiles,
    view_of,
)
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.api.bus import Bus
    from bus.model.message import Presence, Response
    from bus.web.losses import Loss

__all__ = ["LinkEnds", "LiveSource"]

ROUND_S: Final = 1.0
_ANSWER_S: Final = (5.0, 30.0)  # then a process counts as stopped
_ANSWER_COSTS: Final = 200  # its processor is shared, so it may need that much longer
_BRIEF_S: Final = (1.0, 3.0)  # between two questions
_WHOLE_S: Final = 240.0  # at most between two whole reports
# For the reports of either kind: of the processor time of a process, or of `_LEAST`.
_SHARE: Final = 0.003
_LEAST: Final = 0.1  # of one processor; else an idle process would never be asked
_FRAMES: Final = 25  # of one process, in one sample
_WINDOW_S: Final = (0.02, ROUND_S)  # the length of a sample
_SAMPLE_S: Final = 6.0  # between two samples of a busy process
_SENDS_MAX: Final = 300  # shown in one round
_GONE_S: Final = 60.0  # a process that has left is shown for this long
_FIRST_S: Final = 0.25  # the first round is short, so that the page has something
_OPEN_S: Final = 5.0  # a frame waits for this long for its record at the other end


@attrs.define(eq=False)
class _Process:
    """A process of the bus.

    told: its last report; empty before the first. whole: the last one with tasks.
    ask_at, sample_at: when it is asked for a report, and for frames; infinite while an
      answer is outstanding. whole_at: from when on the report has tasks.
    cost_s: the processor time of its last whole report.
    window_s: for how long its frames are monitored in each round.
    monitored: True while its frames are monitored.
    gone_at: when it left; None while it is present.
    """

    machine: str
    name: str
    inspector: str
    told: dict[str, Any] = attrs.field(factory=dict)
    whole: dict[str, Any] = attrs.field(factory=dict)
    ask_at: float = 0.0
    whole_at: float = 0.0
    cost_s: float = 0.0
    sample_at: float = 0.0
    window_s: float = _WINDOW_S[0]
    monitored: bool = False
    gone_at: float | None = None

    @property
    def key(self) -> str:
        return key_of(self.machine, self.name)


class LinkEnds:
    """Why the links of this process have ended; given to `open_bus` as its journal.

    A watch reports that a process has left, and not how. The trace of links does.
    Nothing else is kept.
    """

    closed: Final = False
    keeps_payloads: Final = None

    def __init__(self) -> None:
        self._reasons: dict[str, BusReason] = {}

    def was_lost(self, machine: str, process: str) -> bool:
        """Return True if the last link with a process ended without a farewell."""
        reason = self._reasons.get(key_of(machine, process))
        return reason in {BusReason.DIED, BusReason.GIVEN_UP}

    def _trace_sink(self) -> LinkEnds:
        return self

    def link_up(self, pid: int, machine: str, process: str) -> None:  # noqa: ARG002 - a `TraceSink`
        """Forget the end of an earlier link."""
        self._reasons.pop(key_of(machine, process), None)

    def link_down(
        self,
        pid: int,  # noqa: ARG002 - a `TraceSink`
        machine: str,
        process: str,
        reason: BusReason,
    ) -> None:
        """Keep the reason."""
        self._reasons[key_of(machine, process)] = reason

    def record(self, *_: object, **__: object) -> None:
        """Do nothing."""

    on_registered = on_task_event = record

    def write_payload(self, *_: object, **__: object) -> tuple[int, int]:
        """Keep no payload."""
        return 0, 0


class LiveSource:
    """Adds a round to a history each second, while `run` runs in one thread.

    ends: those of the links of this process.
    afar: True to show the other machines that are linked, too.
    """

    def __init__(
        self, bus: Bus, ends: LinkEnds, history: History, *, afar: bool
    ) -> None:
        self._bus: Final = bus
        self._ends: Final = ends
        self._history: Final = history
        self._afar: Final = afar
        self._picture: Final = Picture()
        self._processes: Final[dict[str, _Process]] = {}
        self._machines: Final = {bus.machine}
        self._closed = False
        # Of the current round.
        self._number = 0
        self._views: Final[dict[str, View | None]] = {}
        self._losses: Final[list[Loss]] = []
        self._sends: Final[list[tuple[str, str, str, str, int, int]]] = []
        self._delays_us: Final[list[float]] = []
        # Frames whose other record has not come, by the ends and the first message.
        self._open: Final[dict[tuple[str, str, int], tuple[str, int]]] = {}

    def close(self) -> None:
        """Let `run` return; any thread may call this."""
        self._closed = True

    def run(self) -> None:
        """Ask the processes until `close`."""
        self._begun = _sync.monotonic()
        self._thread = self._bus.here()
        self._task = self._bus.register(
            "web", thread=self._thread, visibility=Visibility.PRIVATE
        )
        # Otherwise this process and a `bus monitor` would record one another's frames.
        if (inspector := own_inspector(self._bus._exchange)) is not None:
            inspector.closed = True
        self._task.watch(inspector_of("**"), self._on_presence)
        round_at = self._begun + _FIRST_S
        while not self._closed:
            now = _sync.monotonic()
            for each in self._processes.values():
                if each.gone_at is None:
                    self._ask(each, now)
            due = (min(each.ask_at, each.sample_at) for each in self._present())
            wait_s = min(round_at, min(due, default=math.inf)) - _sync.monotonic()
            self._thread.poll(max(0.0, wait_s))
            if _sync.monotonic() >= round_at:
                self._end_round()
                round_at = max(round_at + ROUND_S, _sync.monotonic())
        for each in self._present():
            if each.monitored:
                self._task.command(each.inspector, {"frames": None})
        self._task.deregister()

    def _present(self) -> Iterator[_Process]:
        return (each for each in self._processes.values() if each.gone_at is None)

    # Processes come and go.

    def _on_presence(self, presence: Presence) -> None:
        machine = presence.address.machine or self._bus.machine
        name = presence.address.module.removeprefix(inspector_of(""))
        key = key_of(machine, name)
        if machine == self._bus.machine and name == self._bus.process:
            return
        if presence.here:
            inspector = inspector_of(name)
            if machine != self._bus.machine:
                inspector = f"ism://{machine}/{inspector}"
            self._processes[key] = _Process(machine, name, inspector)
        elif (known := self._processes.get(key)) is not None:
            known.gone_at = _sync.monotonic()
            self._mark(known, "left", "")

    def _mark(self, process: _Process, state: str, why: str) -> None:
        """Show another state of a process, with its last facts."""
        old = self._known_view(process)
        is_here = old is not None and state == "stopped"
        facts, tasks = (old.facts, old.tasks) if old and is_here else (NOTHING, {})
        # The counts stay as they were last known; the rates do not.
        facts = facts | {
            "totals": facts["totals"] | {"per_s": 0.0},
            "links": [each | {"per_s": 0.0} for each in facts["links"]],
        }
        place = {"machine": process.machine, "process": process.name}
        self._views[process.key] = View(
            facts | place | {"state": state, "why": why}, tasks
        )

    def _known_view(self, process: _Process) -> View | None:
        return self._views.get(process.key) or self._picture.views.get(process.key)

    # Questions and answers.

    def _ask(self, process: _Process, now: float) -> None:
        if now >= process.ask_at:
            process.ask_at = math.inf
            # The first one is brief: it shows the process at once.
            is_whole = bool(process.told) and now >= process.whole_at
            question = {"report": "busy" if is_whole else "brief"}
            longest_s = process.cost_s * _ANSWER_COSTS
            if is_whole and not process.whole:
                longest_s = _ANSWER_S[1]
            self._command(process, question, self._on_report, longest_s)
        if now >= process.sample_at:
            process.sample_at = math.inf
            ends = process.monitored and process.window_s < ROUND_S
            types = None if ends else ["MSG"]
            self._command(process, {"frames": types}, self._on_frames)

    def _command(
        self,
        process: _Process,
        question: object,
        on_answer: Callable[[Response], None],
        longest_s: float = 0.0,
    ) -> None:
        self._task.command(
            process.inspector,
            question,
            on_response=on_answer,
            ref=process,
            timeout=min(max(longest_s, _ANSWER_S[0]), _ANSWER_S[1]),
        )

    def _on_report(self, response: Response) -> None:
        process: _Process = response.reference
        now = _sync.monotonic()
        is_new = not process.told and response.error is None
        process.ask_at = now if is_new else now + _BRIEF_S[0]
        if process.gone_at is not None:
            return
        if response.error is not None:
            self._on_silence(process, response.error)
            return
        told, before, whole = response.payload, process.told, process.whole
        if before and told["since_s"] < before["since_s"]:
            before, whole = {}, {}  # another process of this name
        self._views[process.key] = view_of(
            told, self._known_view(process), whole, before, self._bus.process
        )
        if before:
            cost_s, interval_s = _cost_and_interval_s(told, before)
            if "relays" in before:
                process.cost_s = cost_s
                process.whole_at = now + min(interval_s, _WHOLE_S)
            else:
                process.ask_at = now + min(max(interval_s, _BRIEF_S[0]), _BRIEF_S[1])
        process.told = told
        if "relays" not in told:
            return
        process.whole = told
        # The losses of a process that was there before this one are history.
        if whole or told["since_s"] < now - self._begun:
            self._losses.extend(
                losses.from_counters(
                    told, whole, _sync.wall_ns(), process.key, self._bus.process
                )
            )
        if self._afar and told["role"] == "master":
            self._watch_machines(told)

    def _on_silence(self, process: _Process, error: BusError) -> None:
        old = self._known_view(process)
        if old is None or old.facts["state"] != "stopped":
            self._losses.append(
                losses.process_silent(process.key, _sync.wall_ns(), str(error))
            )
        self._mark(process, "stopped", str(error))

    def _watch_machines(self, told: dict[str, Any]) -> None:
        """Watch the processes of each machine that a master is linked with."""
        for link in told["links"]:
            machine = link["machine"]
            if link["kind"] == "signalling" and machine not in self._machines:
                self._machines.add(machine)
                where = f"ism://{machine}/{inspector_of('**')}"
                self._task.watch(where, self._on_presence)

    def _on_frames(self, response: Response) -> None:
        """Take the frames of a process; begin and end its monitor."""
        process: _Process = response.reference
        now = _sync.monotonic()
        if response.error is not None or process.gone_at is not None:
            process.monitored = False
            process.sample_at = now + ROUND_S
            return
        if not process.monitored:
            process.monitored = True
            process.sample_at = now + process.window_s
            return
        process.monitored = process.window_s >= ROUND_S  # else this has ended it
        frames, left_out = response.payload["frames"], response.payload["left_out"]
        for each in frames:
            self._on_frame(process, each)
        per_s = (len(frames) + left_out) / process.window_s
        process.window_s = min(
            max(_FRAMES / max(per_s, 1.0), _WINDOW_S[0]), _WINDOW_S[1]
        )
        is_busy = process.window_s < ROUND_S
        if process.monitored:
            process.sample_at = now + process.window_s
        else:
            process.sample_at = now + (_SAMPLE_S if is_busy else 0.0)

    def _on_frame(self, process: _Process, frame: dict[str, Any]) -> None:
        other = frame["other"]
        if "runs" not in frame or not other:
            return
        if "/" not in other:
            other = key_of(process.machine, other)
        at_ns, out = frame["at_ns"], frame["direction"] == "out"
        ends = (process.key, other) if out else (other, process.key)
        if out and len(self._sends) < _SENDS_MAX:
            for run in frame["runs"]:
                if "from" in run:
                    way = (ends[0], run["from"], ends[1], run["to"])
                    self._sends.append((*way, run["count"], at_ns))
        key = (*ends, frame["first"])
        seen = self._open.pop(key, None)
        if seen is None or seen[0] == frame["direction"]:
            self._open[key] = frame["direction"], at_ns
        elif ends[0].partition("/")[0] == ends[1].partition("/")[0]:  # one clock
            self._delays_us.append(abs(at_ns - seen[1]) / 1000)

    # Rounds.

    def _end_round(self) -> None:
        at_ns, now = _sync.wall_ns(), _sync.monotonic()
        for each in [*self._processes.values()]:
            if each.gone_at is None:
                continue
            view = self._known_view(each)
            is_lost = self._ends.was_lost(each.machine, each.name)
            if is_lost and view is not None and view.facts["state"] == "left":
                self._mark(each, "lost", "it ended without a farewell")
                self._losses.append(losses.process_lost(each.key, at_ns))
            if now > each.gone_at + _GONE_S:
                del self._processes[each.key]
                self._views[each.key] = None
        self._number += 1
        changes = [self._picture.update(key, view) for key, view in self._views.items()]
        totals = self._picture.totals()
        totals.lost = losses.messages_in(self._losses)
        totals.delay_us = percentiles(self._delays_us)
        sends = [
            (*each[:5], max(0, min(1000, (at_ns - each[5]) // 10**6)))
            for each in self._sends
        ]
        self._history.add(
            Round(
                number=self._number,
                at_ns=at_ns,
                changes=changes,
                totals=totals,
                losses=[*self._losses],
                sends=sends,
            )
        )
        for part in (self._views, self._losses, self._sends, self._delays_us):
            part.clear()
        old_ns = at_ns - int(_OPEN_S * 10**9)
        for key in [key for key, (_, seen) in self._open.items() if seen < old_ns]:
            del self._open[key]


def _cost_and_interval_s(
    told: dict[str, Any], before: dict[str, Any]
) -> tuple[float, float]:
    """Return what the report before has cost, and the time to the next one like it.

    told: the report after it.
    """
    passed_s = max(told["since_s"] - before["since_s"], 1e-3)
    cost_s: float = told["inspector_s"] - before["inspector_s"]
    used: float = (told["processor_s"] - before["processor_s"] - cost_s) / passed_s
    return cost_s, cost_s / (_SHARE * max(used, _LEAST))
