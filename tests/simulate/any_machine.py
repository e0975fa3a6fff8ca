"""Searches for names of any machine, as a `Stage` has recorded them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.kernel.wire import Error, Reason, Search

if TYPE_CHECKING:
    from tests.simulate.stage import Stage

LOG = "ism://*/log"


def searches(stage: Stage) -> list[tuple[str, str, bool]]:
    """Return the recorded searches: sender, receiver, and whether for any machine."""
    return [
        (sender.name, receiver.name, frame.anywhere)
        for sender, receiver, frame in stage.world.frames or ()
        if isinstance(frame, Search) and receiver is not None
    ]


def absences(stage: Stage) -> list[tuple[str, str]]:
    """Return the recorded reports of absence: sender and receiver."""
    return [
        (sender.name, receiver.name)
        for sender, receiver, frame in stage.world.frames or ()
        if isinstance(frame, Error)
        and frame.reason is Reason.ABSENT
        and receiver is not None
    ]


def rest(stage: Stage) -> None:
    """Let all deadlines pass; no search or parked message may remain."""
    stage.soon(20.0)
    for process in stage.world.processes.values():
        assert len(process.remote.resolver.ledger) == 0
        assert not process.remote.resolver.own.by_name
        assert len(process.manager.parked) == 0
    stage.world.checks.rest()
