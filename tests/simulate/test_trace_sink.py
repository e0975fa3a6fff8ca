"""Each step of a simulated machine is held to the invariants of the search model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus.kernel.peer.peer import Peer
from bus.kernel.peer.relay import Relay
from bus.kernel.relays import Relays
from bus.kernel.searches.requests import Requests
from bus.kernel.searches.resolver import Resolver
from tests.simulate.checks import Checks
from tests.simulate.counters import BrokenPromiseError
from tests.simulate.process import CONFIG
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

_ASKED = Resolver.on_search
_ANSWERED = Resolver.on_answer
_SPREAD = Requests.forward


def sent_back(self: Requests[Any], request: Any, ways: Any) -> None:
    """Forward a search also to its asker."""
    _SPREAD(self, request, ways)
    if request.origin is not None and self._topology.is_master:
        request.origin.session.send_control(request.frame)


def answered_by_relay(self: Resolver, peer: Peer, frame: Any, now: float) -> None:
    """Answer with a relay of a task."""
    _ASKED(self, peer, frame, now)
    task, request = self._manager.table.find(frame.name), self.ledger.get(frame.id)
    if task is not None and request is not None:
        self._answer(request, task, now)


def passed_twice(self: Resolver, peer: Peer, frame: Any, now: float) -> bool:
    """Forward an answer twice."""
    request = self.ledger.get(frame.search)
    if request is not None and request.origin is not None:
        request.origin.session.send_control(frame)
    return _ANSWERED(self, peer, frame, now)


def by_name(self: Relays, registration: object) -> None:
    """Release other relays as well."""
    for peer in self._topology.peers.values():
        peer.relays.clear()


FAULTS: list[tuple[str, type, str, Callable[..., Any]]] = [
    ("no_search_goes_in_a_circle", Requests, "forward", sent_back),
    (
        "one_relay_for_a_registration",
        Peer,
        "number_of_departed",
        lambda _, __, new: new(),
    ),
    ("a_search_is_answered_once", Resolver, "on_answer", passed_twice),
    ("only_the_holder_answers", Resolver, "on_search", answered_by_relay),
    ("an_elimination_spares_the_newer", Relays, "on_eliminate", by_name),
    (
        "no_relay_survives_both_ends|will_end",
        Peer,
        "report_departure",
        lambda *_, **__: None,
    ),
    ("no_ledger_keeps_a_ghost", Resolver, "on_cancel", lambda *_: None),
    ("garbage_relays_vanish", Relay, "on_departure", lambda *_: None),
]


def _live() -> None:
    """Let tasks find one another, search in vain, and leave in between."""
    stage = Stage()
    d, e, f = stage.task("d", "s2"), stage.task("e", "s1"), stage.task("f", "s3")
    stage.soon()
    stage.send(e, "f")
    stage.soon()
    stage.send(d, "f")
    stage.soon()
    stage.hold(f)
    stage.send(d, "f", 2 * CONFIG.window)
    stage.send(d, "z")
    x = stage.task("x", "s2")
    stage.send(x, "y")
    stage.send(d, "y")
    stage.soon()
    d.process.deregister(d)
    stage.soon()
    stage.task("y", "s3")
    stage.soon()
    stage.release(f)
    stage.soon()
    for task in (f, x):
        task.process.deregister(task)
    stage.soon(10.0)
    stage.world.checks.rest()


def test_a_machine_without_a_fault_breaks_none() -> None:
    _live()


@pytest.mark.parametrize(("invariant", "where", "name", "fault"), FAULTS)
def test_a_fault_breaks_an_invariant(
    monkeypatch: pytest.MonkeyPatch,
    invariant: str,
    where: type,
    name: str,
    fault: Callable[..., Any],
) -> None:
    """The violating step reveals it; `Checks` detects some faults as well."""
    monkeypatch.setattr(where, name, fault)
    monkeypatch.setattr(Checks, "answer", lambda *_: None)

    with pytest.raises(BrokenPromiseError, match=invariant):
        _live()
