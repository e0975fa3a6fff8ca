"""QB-CONC-7: small random programs, their histories compared with the model."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING, Any

import attrs

from queuebroker.testing import check_linearizable
from specs.clauses import clause
from specs.conformance.recorder import Recorded, Recorder
from specs.conformance.scenario import Scenario, Style, enter
from specs.models.histories import queue_model
from specs.models.meetings import BrokerModel, meetings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specs.conformance.stage import Stage

PROGRAMS = 8
THREADS = 3
LIMIT_S = 0.2
# The operations to draw from: one that is listed twice is drawn twice as often.
TALK = ("send", "send", "send", "receive", "receive", "disconnect", "disconnected")
MEET = ("accept", "accept", "connect", "connect", "close")
# A bound for implementations without a known one: six operations never reach it.
UNBOUNDED = 1_000

Script = list[list[tuple[str, int]]]


@clause("QB-CONC-7")
def register_histories() -> None:
    """Histories of three threads, two operations each, are linearizable."""
    rng = random.Random(7)  # noqa: S311 - fixed programs, not a secret
    meeting_needs = (
        "broker.accept(timeout)",
        "broker.connect(timeout)",
        "broker.close",
        "factory().closed_error",
    )
    for number in range(PROGRAMS):
        talk = _script(rng, TALK)
        meet = _script(rng, MEET)
        _enter(f"talk_{number}", functools.partial(_talk, talk), talk, ())
        _enter(f"meet_{number}", functools.partial(_meet, meet), meet, meeting_needs)


def _script(rng: random.Random, names: Sequence[str]) -> Script:
    return [
        [(rng.choice(names), rng.randrange(2)) for _ in range(2)]
        for _ in range(THREADS)
    ]


def _enter(name: str, program: Any, script: Script, needs: tuple[str, ...]) -> None:
    told = " | ".join("; ".join(f"{what} {at}" for what, at in part) for part in script)
    program.__doc__ = f"In every schedule linearizable: {told}."
    clauses = register_histories.__clauses__  # type: ignore[attr-defined] # set by clause
    enter(Scenario(f"histories.{name}", clauses, program, needs, Style.RACE))


def _talk(script: Script, stage: Stage) -> None:
    """Run operations on the two ends of one connection, then disconnect both."""
    ends = stage.pair(capacity=1)
    recorder = Recorder()
    messages = iter(range(2 * THREADS))

    def perform(operations: list[tuple[str, int, bytes]]) -> None:
        for name, at, message in operations:
            given = (message,) if name == "send" else ()
            recorder.call(name, (at, *given), getattr(ends[at], name), *given)

    calls = []
    for part in script:
        operations = [(name, at, b"%d" % next(messages)) for name, at in part]
        calls.append(stage.spawn(perform, operations))
    stage.settle()
    for at, end in enumerate(ends):
        recorder.call("disconnect", (at,), end.disconnect)
    stage.join(*calls)

    capacity = stage.room(1) if stage.bounded else UNBOUNDED
    model = queue_model(capacity, disconnected_error=stage.disconnected_error)
    told: list[Any] = recorder.operations
    check_linearizable(told, model)


def _meet(script: Script, stage: Stage) -> None:
    """Run accepts and connects with a timeout on two ports, and closes, on a broker."""
    recorder = Recorder(stage.error("closed_error"))
    for name in ("a", "b"):
        recorder.call("create", (name, name), stage.broker, name)
    a, b = stage.brokers("a", "b")

    def perform(operations: list[tuple[str, int]]) -> None:
        for name, port in operations:
            if name == "close":
                recorder.call("close", ("b",), b.close)
            elif name == "accept":
                accept = functools.partial(b.accept, timeout=LIMIT_S)
                recorder.call("accept", ("b", port), accept, port)
            else:
                connect = functools.partial(a.connect, "b", timeout=LIMIT_S)
                recorder.call("connect", ("a", "b", port), connect, port)

    stage.values(*(stage.spawn(perform, part) for part in script))

    told: list[Any] = meetings(_with_connections(stage, recorder.operations))
    check_linearizable(told, BrokerModel())


def _with_connections(stage: Stage, operations: list[Recorded]) -> list[Recorded]:
    """Return the record with a number for each connection in place of its two ends."""
    numbers: dict[int, int] = {}
    accepted = [one for one in operations if one.name == "accept" and one.result]
    for number, operation in enumerate(accepted):
        operation.result.send(b"%d" % number)
        numbers[operation.began] = number
    for operation in operations:
        if operation.name == "connect" and operation.result is not None:
            numbers[operation.began] = int(stage.at_once(operation.result.receive))
            operation.result.disconnect()
    for operation in accepted:
        operation.result.disconnect()
    return [attrs.evolve(one, result=numbers.get(one.began)) for one in operations]
