"""A message of a peer of another library does not return to it (BP-16)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from bus.pattern import BusSocket, DropReason, RawBusSocket
from specs.clauses import clause
from tests.pattern.nodes import fresh_url
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from pathlib import Path


@clause("BP-16")
def test_a_hub_drops_the_message_of_a_plain_peer_that_returns(
    tmp_path: Path,
) -> None:
    """Other devices may return it by a path that is shorter than the way out."""
    name = fresh_url("local", tmp_path)
    with RawBusSocket() as hub, RawBusSocket() as far, BusSocket(native=False) as leaf:
        hub.listen(name)
        leaf.dial(name)
        far.dial(name)
        assert hub.wait_for_peers(2, LIMIT_S)
        assert far.wait_for_peers(1, LIMIT_S)
        leaf.send(b"round")
        hub.send(hub.receive(LIMIT_S))

        # Without the tag, as if another device had brought it.
        far.send(attrs.evolve(far.receive(LIMIT_S), pipe=0))

        until(lambda: sum(each.arrived for each in hub.stats.peers) == 2, "it arrives")
        assert hub.stats.dropped == {DropReason.DUPLICATE: 1}
        assert hub.stats.received_queued == 0
