"""The sockets of a device while it runs (BP-14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.errors import BusyError
from bus.pattern import BusSocket, RawBusSocket, device
from specs.clauses import clause
from tests.pattern.nodes import LIMIT_S, TRANSPORTS, fresh_url

if TYPE_CHECKING:
    from pathlib import Path


@clause("BP-12", "BP-14")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_sockets_of_a_device_listen_and_dial(
    transport: str, tmp_path: Path
) -> None:
    """It starts without any peer, and gets one by each of the two ways."""
    with (
        RawBusSocket() as first,
        RawBusSocket() as second,
        BusSocket() as left,
        BusSocket() as right,
        device(first, second),
    ):
        left.dial(first.listen(fresh_url(transport, tmp_path)).url)
        second.dial(right.listen(fresh_url(transport, tmp_path)).url)
        assert first.wait_for_peers(1, LIMIT_S)
        assert second.wait_for_peers(1, LIMIT_S)
        assert left.wait_for_peers(1, LIMIT_S)
        assert right.wait_for_peers(1, LIMIT_S)
        left.send(b"to the right")
        assert right.receive(LIMIT_S) == b"to the right"
        right.send(b"to the left")
        assert left.receive(LIMIT_S) == b"to the left"
        for socket in (first, second):
            with pytest.raises(BusyError, match="by device"):
                socket.send(b"x")
            with pytest.raises(BusyError, match="by device"):
                socket.receive(0)
