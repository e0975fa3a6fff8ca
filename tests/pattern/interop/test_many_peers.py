"""One hub and a hundred peers of all libraries: exact counts, order for each sender."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause
from tests.pattern.interop.delivery import (
    expect_in_order,
    expect_nothing_before,
    wait_for_delivery,
)
from tests.pattern.interop.peer import LIBRARIES
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from tests.pattern.interop.testbed import Testbed

PEERS = 100
ROUNDS = 5


@pytest.mark.deep
@clause("BP-1", "BP-19")
@pytest.mark.parametrize("transport", ["ipc", "tcp"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_hub_receives_from_and_sends_to_a_hundred_peers(
    testbed: Testbed, library: str, transport: str
) -> None:
    """nanomsg drops messages of a burst, so each round waits for the one before."""
    hub = testbed.open(library)
    url = testbed.listen(hub, transport)
    others = [each for each in LIBRARIES if library == "ours" or each == "ours"]
    peers = [testbed.open(others[i % len(others)]) for i in range(PEERS)]
    for each in peers:
        each.dial(url)
    wait_for_delivery({hub: peers, **{each: [hub] for each in peers}})

    arrived: dict[int, list[int]] = defaultdict(list)
    for round_ in range(ROUNDS):
        for i, each in enumerate(peers):
            each.send(b"%d %d" % (i, round_))
        for _ in peers:
            message = hub.receive(LIMIT_S)
            assert message is not None
            sender, number = map(int, message.split())
            arrived[sender].append(number)
    assert arrived == {i: [*range(ROUNDS)] for i in range(PEERS)}

    for round_ in range(ROUNDS):
        hub.send(b"to all %d" % round_)
        for each in peers:
            expect_in_order(each, [b"to all %d" % round_])
    expect_nothing_before(hub, peers)
    expect_nothing_before(peers[0], [hub])
