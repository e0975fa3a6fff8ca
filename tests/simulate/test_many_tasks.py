"""The work of a process with many relays: it depends on those in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.kernel.peer.relay import Relay
from specs.clauses import clause
from tests.simulate.stage import Stage
from tests.simulate.test_gaps import notify, received

if TYPE_CHECKING:
    import pytest

    from bus.model.message import Incoming

TASKS = 50


@clause("BUS-MSG-18", "BUS-RELAY-9")
def test_a_deadline_looks_at_no_idle_relay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 10,000 tasks a look at all of them took a tenth of a second."""
    stage = Stage()
    news = [stage.task(f"t/{number}", "s3") for number in range(TASKS)]
    hearer = stage.task("h", "s2")
    hearer.process.subscribe(hearer, "t/*")
    stage.soon(3.0)  # no relay is provisional, or counts as unused, any more
    seen: list[Relay] = []
    expire = Relay.expire

    def look(relay: Relay, now: float) -> list[Incoming]:
        seen.append(relay)
        return expire(relay, now)

    monkeypatch.setattr(Relay, "expire", look)
    notify(news[0], 3)
    stage.hold(news[1])
    hearer.process.command(hearer, "t/1", timeout=0.1)
    stage.soon()

    assert received(stage, hearer, news[0]) == [1, 2, 3]
    assert len({*seen}) == 1
