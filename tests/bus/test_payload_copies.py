"""BUS-MSG-17: each receiver gets a payload as it was when it was sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from bus.api import sender
from specs.clauses import clause
from tests.bus.support import DISTANCES, There
from tests.kit.serving import serve, settle
from tests.kit.tasks import echo, unwanted

if TYPE_CHECKING:
    from bus import Bus, Incoming


@clause("BUS-MSG-17")
@pytest.mark.parametrize("distance", DISTANCES)
def test_each_receiver_sees_a_payload_as_it_was_when_it_was_sent(
    bus: Bus, there: There, distance: str
) -> None:
    """A change by a receiver affects neither the sender nor another receiver."""
    got: list[Any] = []
    ready: set[str] = set()
    sender = bus.register("sender", thread=bus.here())
    names = ["one", "two", "three"]

    def note(message: Incoming) -> None:
        if isinstance(message.payload, str):
            ready.add(message.reference)
            return
        got.append(json.dumps(message.payload))
        message.payload[0]["mine"] = len(got)

    for name in names:
        reader = there.register(name, on_command=note)
        reader.subscribe(there.back("sender"), note, ref=name)

    def all_hear() -> bool:
        sender.notify("?")
        return len(ready) == 3

    serve(bus, all_hear, "all three hear it")
    mutable: list[Any] = [{"a": "old"}, [1, 2]]

    sender.command([there.at(name) for name in names], mutable)
    mutable[0]["a"] = "newer"
    serve(bus, lambda: len(got) == 3, "three commands")
    sender.notify(mutable)
    serve(bus, lambda: len(got) == 6, "three notifications")

    assert mutable == [{"a": "newer"}, [1, 2]]
    assert got == ['[{"a": "old"}, [1, 2]]'] * 3 + ['[{"a": "newer"}, [1, 2]]'] * 3


@clause("BUS-MSG-17")
def test_the_only_receiver_gets_the_copy_made_at_the_send(bus: Bus) -> None:
    """The bus copies a payload only if needed, and never an answer."""
    bus.register("doer", thread=bus.here(), on_command=echo)

    with patch.object(sender, "own_copy", unwanted):
        assert bus.call("doer", {"a": 1}) == {"a": 1}


@clause("BUS-MSG-17")
def test_bytes_are_not_copied_at_all(bus: Bus) -> None:
    data = bytes(1000)
    got: list[Any] = []
    bus.register("doer", thread=bus.here(), on_command=lambda m: got.append(m.payload))

    bus.command("doer", data)
    settle(bus)

    assert got[0] is data
