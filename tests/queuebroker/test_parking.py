"""Wait lists, and the one loop by which all callers wait, with a scripted sleep.

A script replaces `_sync.park`, so that the tests can check each step of `wait_for`: the
list and the lock during the sleep, and the state after an exception.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from queuebroker import _sync
from queuebroker.waiting.parking import PENDING, Pending, WaitList, wait_for
from specs.clauses import clause
from tests.strikes import Blow, everywhere
from tests.support import taken

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable


def _taken() -> _thread.LockType:
    parker = _sync.Lock()
    parker.acquire()
    return parker


class WaitListMachine(RuleBasedStateMachine):
    """`WaitList` compared with a plain list of parkers, each asleep or woken."""

    @initialize()
    def make(self) -> None:
        self.waiters = WaitList()
        self.listed: list[_thread.LockType] = []
        self.asleep: set[_thread.LockType] = set()

    @rule()
    def enlist(self) -> None:
        parker = _taken()
        self.waiters.enlist(parker)
        self.listed.append(parker)
        self.asleep.add(parker)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.listed:
            parker = data.draw(st.sampled_from(self.listed))
            self.waiters.leave(parker)
            self.listed.remove(parker)
            self.asleep.discard(parker)

    @rule()
    def leave_unlisted(self) -> None:
        self.waiters.leave(_taken())

    @rule(data=st.data())
    def look_in_vain_and_sleep_again(self, data: st.DataObject) -> None:
        if woken := [one for one in self.listed if one not in self.asleep]:
            parker = data.draw(st.sampled_from(woken))
            assert parker.acquire(False)
            self.asleep.add(parker)

    @rule()
    def wake_one(self) -> None:
        self.waiters.wake_one()
        oldest = next((one for one in self.listed if one in self.asleep), None)
        if oldest is not None:
            self.asleep.remove(oldest)

    @rule()
    def wake_all(self) -> None:
        self.waiters.wake_all()
        self.asleep.clear()

    @invariant()
    def agrees(self) -> None:
        assert bool(self.waiters) == bool(self.listed)
        assert {one for one in self.listed if one.locked()} == self.asleep


@pytest.mark.deep
def test_a_wait_list_wakes_its_oldest_sleeper_and_drops_no_waiter() -> None:
    run_state_machine_as_test(WaitListMachine)


@clause("QB-CONC-4", "QB-ERR-9")
@pytest.mark.parametrize("act", ["leave", "wake_one"])
def test_an_interrupt_never_makes_a_wait_list_hide_a_sleeper(act: str) -> None:
    """A waker that does not take the lock only reads `asleep`."""

    def case(interrupted: Blow) -> None:
        waiters = WaitList()
        parkers = [_taken(), _taken()]
        for parker in parkers:
            waiters.enlist(parker)

        interrupted(
            partial(waiters.leave, parkers[0]) if act == "leave" else waiters.wake_one
        )

        assert parkers[1].locked()
        assert waiters.asleep

    everywhere(case)


@attrs.define
class Scene:
    """A state to wait on, and a sleep that follows the test's script.

    naps: the action in each sleep, in order; its value is what `park` returns.
    """

    naps: list[Callable[[], bool]]
    open: bool = False
    woken: int = 0
    lock: _thread.RLock = attrs.field(factory=_sync.RLock)
    waiters: WaitList = attrs.field(factory=WaitList)
    deadlines: list[float | None] = attrs.field(factory=list)
    wish: bool = False

    def recover_locked(self) -> None:
        assert taken(self.lock)
        self.woken += 1
        self.waiters.wake_all()

    def settle(self) -> None:
        assert not taken(self.lock)
        self.wish = False

    def attempt(self) -> str | Pending:
        assert taken(self.lock), "looked at without the lock"
        return "in" if self.open else PENDING

    def park(
        self,
        parker: _thread.LockType,
        predicate: Callable[[], bool],
        deadline: float | None,
    ) -> bool:
        assert not taken(self.lock), "sleeps under the lock of the state"
        assert parker.locked(), "sleeps on a lock it has not taken"
        assert self.waiters, "sleeps without being listed"
        assert predicate() == self.open
        self.deadlines.append(deadline)
        return self.naps.pop(0)()

    def wait(self, deadline: float | None = None) -> str | Pending:
        return wait_for(self, self.waiters, self.attempt, lambda: self.open, deadline)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene([])
    monkeypatch.setattr(_sync, "park", made.park)
    return made


def test_a_condition_that_holds_is_not_waited_for(scene: Scene) -> None:
    scene.open = True

    assert scene.wait() == "in"

    assert scene.deadlines == []
    assert not scene.waiters


def test_a_sleeper_looks_again_each_time_it_is_woken(scene: Scene) -> None:
    def opened() -> bool:
        scene.open = True
        return True

    scene.naps = [lambda: True, lambda: True, opened]

    assert scene.wait(5.0) == "in"

    assert scene.deadlines == [5.0] * 3, "waking up moved the deadline"
    assert not scene.waiters


def test_success_at_the_deadline_beats_the_timeout(scene: Scene) -> None:
    def opened_too_late() -> bool:
        scene.open = True
        return False

    scene.naps = [opened_too_late]

    assert scene.wait(5.0) == "in"


def test_after_the_deadline_it_looks_once_and_gives_up(scene: Scene) -> None:
    scene.naps = [lambda: False]

    assert scene.wait(5.0) is PENDING

    assert scene.naps == []
    assert not scene.waiters
    assert scene.woken == 0


@clause("QB-CONC-9", "QB-ERR-9")
@pytest.mark.parametrize("last", ["succeeds", "is in vain"])
def test_a_wait_settles_the_close_deferred_during_its_last_attempt(
    scene: Scene, last: str
) -> None:
    """A finalizer ran there: no other thread may come to carry out its close."""

    def attempt() -> str | Pending:
        scene.wish = True
        return "in" if last == "succeeds" else PENDING

    def case(interrupted: Blow) -> None:
        scene.naps = [lambda: False]
        interrupted(
            lambda: wait_for(scene, scene.waiters, attempt, lambda: scene.open, 5.0)
        )

        assert not scene.wish

    everywhere(case)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_sleeper_withdraws_and_makes_everybody_look(
    scene: Scene, error: type[BaseException]
) -> None:
    other = _taken()
    scene.waiters.enlist(other)

    def strike() -> bool:
        raise error

    scene.naps = [strike]

    with pytest.raises(error):
        scene.wait()

    assert not taken(scene.lock)
    assert scene.woken
    assert not other.locked(), "the wake-up it may have been given is lost"
    scene.waiters.leave(other)
    assert not scene.waiters, "a sleeper that is gone is still listed"


def test_an_attempt_that_raises_leaves_no_waiter_listed(scene: Scene) -> None:
    def broken() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        wait_for(scene, scene.waiters, broken, lambda: True, None)

    assert not taken(scene.lock)
    assert scene.woken
    assert not scene.waiters
