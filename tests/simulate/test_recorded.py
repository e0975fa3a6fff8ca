"""The journals of a simulated machine keep the rules of the bus."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import tests.simulate.run
from bus.kernel.links.link_table import LinkTable
from bus.kernel.trace import Trace
from bus.model.events import BusOperation, BusReason
from bus.model.message import Incoming, Kind
from specs.clauses import clause
from tests.simulate.__main__ import main
from tests.simulate.counters import BrokenPromiseError
from tests.simulate.network import Network, Wire
from tests.simulate.plan import PROFILES, Plan
from tests.simulate.process import CONFIG
from tests.simulate.recorded import Recorded
from tests.simulate.run import REST_S, run
from tests.simulate.stage import Stage
from tests.simulate.task import SimTask

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.journal.format import Record
    from tests.simulate.world import World

# Seed and number of machines; traffic between two machines passes two masters.
RUNS = [*[(seed, 1) for seed in range(1, 101)], *[(seed, 2) for seed in range(1, 51)]]
# Only a real thread takes a task along; here each task stays with its process.
UNTOLD = {BusOperation.MOVE}


def again(seed: int, machines: int) -> str | None:
    """Execute one run of at most four processes; return the violation."""
    failure = run(seed, machines=machines, processes=4 - machines, recorded=True)
    return None if failure is None else failure.error


@clause("B1", "B2", "B3", "B5")
@pytest.mark.deep
def test_recorded_runs_keep_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even with losses; all runs together contain every kind of record."""
    reported = Counter[int]()
    profiles = set[str]()
    rest = Recorded.rest

    def counted(self: Recorded) -> None:
        reported.update(record.kind for record in self.records())
        rest(self)

    def planned(world: World, profile: str) -> Plan:
        profiles.add(profile)
        return Plan(world, profile)

    monkeypatch.setattr(Recorded, "rest", counted)
    monkeypatch.setattr(tests.simulate.run, "Plan", planned)

    wrong = {which: error for which in RUNS if (error := again(*which)) is not None}

    assert wrong == {}
    assert profiles == set(PROFILES)
    assert set(BusOperation) - set(reported) == UNTOLD


def nothing(*_: object, **__: object) -> None:
    """Record nothing."""


def twice(tell: Callable[[Trace], None]) -> Callable[[Trace], None]:
    """Record the step twice."""

    def reported(self: Trace) -> None:
        tell(self)
        tell(self)

    return reported


def falling(self: Trace) -> None:
    """Give later messages lower numbers."""
    assert self._numbers is not None or self.mid
    if self._numbers is not None and not self.mid:
        self.mid = 10_000 - next(self._numbers)


# The rule that detects the fault, the step recorded wrongly, and the replacement.
FAULTS: list[tuple[str, str, Callable[..., None]]] = [
    ("B1", "record_delivered", twice(Trace.record_delivered)),
    ("B2", "record_arrived", nothing),
    ("B2", "record_arrived", twice(Trace.record_arrived)),
    ("B2", "record_sent", nothing),
    ("B2", "record_sent", twice(Trace.record_sent)),
    ("B3", "record_delivered", nothing),
    ("B3", "record_discarded", nothing),
    ("B3", "record_failed", nothing),
    ("B5", "number", falling),
]


@pytest.mark.deep
@clause("B1", "B2", "B3", "B5")
@pytest.mark.parametrize(("rule", "name", "fault"), FAULTS)
def test_a_broken_record_is_seen(
    monkeypatch: pytest.MonkeyPatch,
    rule: str,
    name: str,
    fault: Callable[..., None],
) -> None:
    monkeypatch.setattr(Trace, name, fault)

    assert any(f"Error: {rule}: " in (again(*which) or "") for which in RUNS)


def test_one_run_in_five_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds: list[World] = []
    monkeypatch.setattr(tests.simulate.run, "_live", lambda *of: worlds.append(of[0]))

    for seed in range(500):
        run(seed)

    recorded = [world for world in worlds if world.recorded is not None]
    assert 80 < len(recorded) < 120


def test_a_recorded_run_that_fails_is_recorded_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--runs", "2", "--seed", "5", "--jobs", "1", "--recorded"]
    assert main(options) == 0
    monkeypatch.setattr(Trace, "record_delivered", nothing)

    assert main(options) == 1

    output = capsys.readouterr().out
    assert "accepted, not delivered" in output
    assert " --recorded\n" in output


# Losses that are rare in runs. No process dies here: a death would explain them all.


def given_up() -> Stage:
    """A frozen process is declared lost, and then runs again."""
    stage = Stage(recorded=True)
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    f.process.subscribe(f, "*")
    stage.soon()
    stage.send(d, "f")
    stage.soon()
    f.process.frozen = True
    stage.cut("s2", "s3")  # neither end notices at once
    stage.send(d, "f", CONFIG.window + 1)
    for _ in range(CONFIG.window + 1):
        d.process.notify(d)
    stage.soon(30.0)
    f.process.thaw()
    return stage


def too_many_notifications() -> Stage:
    """A frozen process takes none, so that the oldest are dropped."""
    stage = Stage(recorded=True, task_fifo_messages=2)
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    f.process.subscribe(f, "*")
    stage.soon()
    f.process.frozen = True
    for _ in range(CONFIG.window + 4):
        d.process.notify(d)
    stage.soon()
    f.process.thaw()
    return stage


def too_many_answers(*, cut: bool = False) -> Stage:
    """The frozen asker is sent more answers than the link takes at once."""
    stage = Stage(recorded=True)
    d, f, g = stage.task("d", "s2"), stage.task("f", "s3"), stage.task("g", "s3")
    for task in (f, g):
        stage.hold(task)
        stage.send(d, task.name, CONFIG.window, asks=True)
    stage.soon()
    d.process.frozen = True
    if cut:
        stage.cut("s2", "s3")
    for task in (f, g):
        stage.release(task)
    stage.soon(0.05)
    for task in (f, g):
        for message in task.kept:
            task.process.answer(message)
        task.process.settle()
    stage.soon()
    return stage


def asker_leaves() -> Stage:
    """The asker deregisters before all of its answers are on the link."""
    stage = too_many_answers()
    asker = stage.process("s2").tasks["d"]
    asker.process.frozen = False
    asker.process.deregister(asker)
    asker.process.thaw()
    return stage


def asker_given_up() -> Stage:
    """The asker is declared lost, with some answers on a lost link."""
    stage = too_many_answers(cut=True)
    stage.soon(30.0)
    stage.process("s2").thaw()
    return stage


LOSSES = [
    (given_up, "record_lost", BusOperation.IN_DOUBT, BusReason.PROCESS_LOST),
    (given_up, "record_discarded", BusOperation.DISCARD, BusReason.PROCESS_LOST),
    (
        too_many_notifications,
        "record_discarded",
        BusOperation.DISCARD,
        BusReason.OLDEST,
    ),
    (asker_leaves, "record_discarded", BusOperation.DISCARD, BusReason.UNWANTED),
    (asker_given_up, "record_lost", BusOperation.IN_DOUBT, BusReason.PROCESS_LOST),
    (asker_given_up, "record_discarded", BusOperation.DISCARD, BusReason.UNWANTED),
]


def records(stage: Stage) -> list[Record]:
    """Return the records once nothing is under way; check that they keep the rules."""
    stage.soon(REST_S)
    recorded = stage.world.recorded
    assert recorded is not None
    recorded.rest()
    return list(recorded.records())


@clause("B2", "B3", "BUS-MOVE-8", "BUS-FLOW-3")
@pytest.mark.parametrize(("loss", "name", "operation", "reason"), LOSSES)
def test_a_loss_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
    loss: Callable[[], Stage],
    name: str,
    operation: BusOperation,
    reason: BusReason,
) -> None:
    """Without its record, the loss would be detected."""
    reported = {(record.kind, record.reason) for record in records(loss())}
    assert (operation, reason) in reported

    monkeypatch.setattr(Trace, name, nothing)
    with pytest.raises(BrokenPromiseError, match=r"B[23]: "):
        records(loss())


def test_a_read_without_a_record_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rule detects it if a journal has no record of the message."""
    put = SimTask.put

    def untold(self: SimTask, message: Incoming) -> None:
        if message.kind is Kind.NOTIFICATION:
            message._trace = None
        put(self, message)

    monkeypatch.setattr(SimTask, "put", untold)

    with pytest.raises(
        BrokenPromiseError, match="notification: 6 are read, 0 reported"
    ):
        records(too_many_notifications())


def test_two_that_go_on_after_one_gave_up_the_other_both_tell_it() -> None:
    """The other one learns it from the next link."""
    stage = given_up()
    reported = records(stage)

    up, down = BusOperation.LINK_UP, BusOperation.LINK_DOWN
    for name in ("s2", "s3"):
        life = stage.process(name).life
        about = [each.kind for each in reported if each.mid == life]
        # The first LINK_UP is recorded by the master, which notices no loss.
        assert [each for each in about if each in {up, down}] == [up, up, down, up]


def test_a_death_is_recorded_by_its_observer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A false report about a living process would be detected."""
    cut = Network.cut

    def mid_io(self: Network, wire: Wire) -> None:
        wire.mid_io = True
        cut(self, wire)

    stage = Stage(recorded=True)
    stage.process("s3").die()
    died = {record.reason for record in records(stage)}
    assert BusReason.DIED in died

    monkeypatch.setattr(Network, "cut", mid_io)
    with pytest.raises(BrokenPromiseError, match="is dead, and lives"):
        records(given_up())


def test_an_unrecorded_link_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkTable, "on_process_up", nothing)

    with pytest.raises(BrokenPromiseError, match="is linked with"):
        records(Stage(recorded=True))
