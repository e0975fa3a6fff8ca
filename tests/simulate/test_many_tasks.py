"""The work of a process with many relays: it depends on those in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.core.peer.relay import Relay
from specs.clauses import clause
from tests.simulate.stage import Stage
from tests.simulate.test_gaps import heard, notify

if TYPE_CHECKING:
    import pytest

TASKS = 50


@clause("BUS-MSG-18", "BUS-RELAY-9")
def test_an_acknowledgement_looks_at_no_idle_relay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 10,000 tasks each acknowledgement took a tenth of a second."""
    stage = Stage()
    news = [stage.task(f"t/{number}", "s3") for number in range(TASKS)]
    hearer = stage.task("h", "s2")
    hearer.process.subscribe(hearer, "t/*")
    stage.soon(3.0)  # no relay is provisional, or counts as unused, any more
    seen: list[Relay] = []
    for name in ("expire", "next_deadline"):
        original = getattr(Relay, name)

        def look(relay: Relay, *args: object, original: object = original) -> object:
            seen.append(relay)
            assert callable(original)
            return original(relay, *args)

        monkeypatch.setattr(Relay, name, look)

    reader = hearer.process
    reader.event(lambda: reader.remote.tick(stage.world.now))
    notify(news[0], 3)
    stage.send(hearer, "t/1")
    stage.soon()

    assert heard(stage, hearer, news[0]) == [1, 2, 3]
    assert 0 < len({*seen}) < 5
