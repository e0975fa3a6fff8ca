"""The ONE conformance suite over sockets (QB-SOCK-1).

`EXCEPTIONS` lists the clauses that cannot hold between processes;
`tests.sockets.worlds` waits for effects that become visible later there. By default
every scenario runs over UNIX sockets; ``SOCKET_MEDIA=unix,tcp,tls`` selects others.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause
from specs.conformance import real
from specs.conformance.performance import perform
from specs.conformance.scenarios import SCENARIOS, progress
from specs.conformance.subject import Subject, load
from tests.conformance.effort import effort
from tests.sockets.worlds import Carried, remove_worlds
from tests.watchdog import HANG_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specs.conformance.scenario import Scenario

MEDIA = os.environ.get("SOCKET_MEDIA", "unix").split(",")

# Scenario -> its clause, and why the clause differs here.
EXCEPTIONS = {
    "receiving.the_error_says_who_and_why": (
        "QB-RECV-9: the error of the peer has its text and the name of its class, but"
        " is no object of this process"
    ),
}

# Groups, or clauses, about one address space: no world of sockets offers them.
ELSEWHERE = ("QB-CHAN", "QB-BUF", "QB-NAME", "QB-RDV-4", "QB-RDV-11", "QB-RDV-12")


@pytest.fixture(scope="module", params=MEDIA)
def subject(request: pytest.FixtureRequest) -> Subject:
    """Return the brokers of one medium as the suite sees them."""
    found = load(f"tests.sockets.worlds:{request.param}", SCENARIOS)
    remove_worlds()
    return found


@pytest.fixture(autouse=True)
def no_world_left() -> Iterator[None]:
    """Remove the worlds: a scenario closes its ends, but not its brokers."""
    yield
    remove_worlds()


@pytest.fixture(autouse=True)
def seen_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adjust the suite: data in a socket's transit is not at rest (QB-SOCK-1).

    Each of the four operations in a round trip ends with a round trip of its own, by
    which it is known to have arrived.
    """
    monkeypatch.setattr(real, "RealDriver", Carried)
    trips_s = 5 * progress.ROUND_TRIP_S_MAX
    monkeypatch.setattr(progress, "ROUND_TRIP_S_MAX", trips_s)
    # Thousands of messages may take more than a minute; the limit of a test is higher.
    monkeypatch.setattr(real, "CROWD_HANG_S", 0.9 * HANG_S)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@clause("QB-SOCK-1")
def test_the_contract_holds_over_sockets(subject: Subject, scenario: Scenario) -> None:
    """The scenario passes, is a listed exception, or is not about sockets."""
    lacks = subject.lacks(scenario)
    if lacks is not None:
        explored = "explorer" in lacks
        assert explored or any(
            name.startswith(ELSEWHERE) for name in scenario.clauses
        ), f"{scenario.name} is not run: {lacks}"
        return

    outcome = perform(subject, scenario, effort())

    if scenario.name in EXCEPTIONS:
        assert not outcome.passed, f"is no exception any more: {scenario.name}"
    else:
        assert outcome.passed, outcome.trouble
