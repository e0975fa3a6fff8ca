"""``for message in socket``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus.pattern import BusSocket, PairSocket, RawBusSocket
from specs.clauses import clause
from tests.pattern.inproc_pairs import connect
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.pattern.sp_socket import SpSocket


@clause("BP-19")
def test_iteration_yields_messages_in_order_until_the_socket_is_closed() -> None:
    with BusSocket() as left, BusSocket() as right:
        connect(left, right)
        for number in range(3):
            left.send(b"%d" % number)
        taken = []

        for message in right:
            taken.append(message)
            if len(taken) == 3:
                right.close()

        assert taken == [b"0", b"1", b"2"]
        assert list(right) == []


@clause("BP-7")
def test_iteration_over_a_raw_socket_yields_messages_with_their_tags() -> None:
    with BusSocket() as left, RawBusSocket() as right:
        connect(left, right)
        left.send(b"x")

        message = next(iter(right))

        [peer] = right.stats.peers
        assert (message.body, message.pipe) == (b"x", peer.pipe)


@pytest.mark.parametrize("kind", [BusSocket, RawBusSocket, PairSocket])
def test_a_close_ends_an_iteration_that_waits(
    kind: Callable[[], SpSocket[Any]],
) -> None:
    socket = kind()
    with Threads() as threads:
        taker = threads.start(lambda: list(socket))
        until(lambda: len(socket._node.inbound.receivers) == 1, "it waits")

        socket.close()

        assert taker.result() == []
