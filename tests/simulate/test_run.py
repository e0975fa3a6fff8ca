"""The simulator itself: one run from one seed, and the story of a failed run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from bus.kernel.streams.incoming_streams import IncomingStreams
from bus.kernel.wire import Run
from specs.clauses import clause
from tests.simulate.__main__ import main
from tests.simulate.counters import BrokenPromiseError, Command, Counters
from tests.simulate.plan import PROFILES
from tests.simulate.run import run
from tests.simulate.stage import Stage
from tests.simulate.task import SimTask
from tests.simulate.world import World

if TYPE_CHECKING:
    from bus.model.message import Incoming


def test_a_run_is_drawn_from_its_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stories = []
    note = World.__init__

    def noted(self: World, *args: int, **options: Any) -> None:
        note(self, *args, **options)
        stories.append(self.story.lines)

    monkeypatch.setattr(World, "__init__", noted)

    for _ in range(2):
        assert run(7, verbose=True) is None
    assert run(8, verbose=True) is None

    assert stories[0] == stories[1] != stories[2]
    assert len(stories[0]) > 50


def test_every_profile_comes_up() -> None:
    assert set(PROFILES) == {"calm", "links", "stops", "crashes", "all"}
    assert {"cut", "freeze", "crash", "restart"} < set(PROFILES["all"])


def test_a_run_that_fails_tells_its_story_and_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    take = SimTask.take

    def twice(self: SimTask, message: Incoming) -> None:
        take(self, message)
        take(self, message)

    monkeypatch.setattr(SimTask, "take", twice)

    code = main(["--runs", "20", "--seed", "1", "--jobs", "1"])

    output = capsys.readouterr().out
    assert code == 1
    assert "starts as master" in output
    assert re.search("is delivered twice|is received twice|has two ends", output)
    assert "again: python -m tests.simulate --runs 1 --seed" in output
    assert "--machines 1 --processes 3 --steps 20" in output


def test_runs_that_keep_their_promises_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--runs", "3", "--seed", "5", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.startswith("3 runs, 0 failed, ")


def command(counters: Counters, *, asks: bool = False) -> Command:
    world = Stage(slaves=0).world
    task = world.processes["m1", "s1"].register("d")
    assert task is not None
    one = Command(1, task.id, 1, "f", asks)
    counters.sent(one)
    return one


def test_the_counters_detect_each_violation() -> None:
    """Each call violates one invariant."""
    counters = Counters(ordered=True)
    one = command(counters)
    counters.taken(1, one.sender, "f")
    with pytest.raises(BrokenPromiseError, match="delivered twice"):
        counters.taken(1, one.sender, "f")
    with pytest.raises(BrokenPromiseError, match="never sent"):
        counters.taken(2, one.sender, "f")
    with pytest.raises(BrokenPromiseError, match="out of the blue"):
        counters.answered(1)
    for number in (4, 5, 6, 7):
        counters.notifies(number, one.sender)
    counters.notified(5, one.sender, one.sender, 1)
    with pytest.raises(BrokenPromiseError, match="received twice"):
        counters.notified(5, one.sender, one.sender, 0)
    with pytest.raises(BrokenPromiseError, match="notification 4 was overtaken"):
        counters.notified(4, one.sender, one.sender, 0)
    with pytest.raises(BrokenPromiseError, match="2 before 7, not 1, missing"):
        counters.notified(7, one.sender, one.sender, 2)


@clause("BUS-MSG-15")
def test_the_counters_see_a_command_that_a_notification_has_overtaken() -> None:
    """A command that waited for a search is exempt."""
    counters = Counters(ordered=True)
    one = command(counters)
    counters.notifies(5, one.sender)
    counters.notified(5, one.sender, one.sender, 0)
    with pytest.raises(BrokenPromiseError, match="behind notification 5"):
        counters.taken(1, one.sender, "f")
    counters = Counters(ordered=True)
    one = command(counters)
    one.sought = True
    counters.notifies(5, one.sender)
    counters.notified(5, one.sender, one.sender, 0)
    counters.taken(1, one.sender, "f")


def test_a_run_sees_a_receiver_that_accepts_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """New links repeat messages: the receiver must refuse them."""
    accept = IncomingStreams.accept

    def accept_all(
        self: IncomingStreams[object], *about: object
    ) -> list[object] | object:
        accept(self, *about)  # type: ignore[arg-type]  # unchanged
        messages = about[4]
        assert isinstance(messages, list)
        return [each for each in messages if isinstance(each[1], Run)] * 2

    monkeypatch.setattr(IncomingStreams, "accept_next", lambda *_: False)
    monkeypatch.setattr(IncomingStreams, "accept", accept_all)

    assert any(run(seed) is not None for seed in range(10))
