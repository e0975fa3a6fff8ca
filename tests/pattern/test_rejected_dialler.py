"""A dialler whose listener closes each connection just after the handshake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import bus.pattern.dialler
from bus.pattern import BusSocket, PairSocket, SocketConfig
from bus.pattern.dialler import Redial
from specs.clauses import clause
from tests.pattern.nodes import fresh_url
from tests.pattern.raw_end import RawListener
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path

HANDSHAKE = bytes.fromhex("0053500000100000")  # of PAIR


@clause("BP-4", "BP-17")
@pytest.mark.parametrize("transport", ["tcp", "ipc", "inproc"])
@pytest.mark.parametrize(
    ("listens", "dials"), [(BusSocket, PairSocket), (PairSocket, BusSocket)]
)
def test_a_dialler_of_another_protocol_names_both(
    tmp_path: Path,
    transport: str,
    listens: type[BusSocket | PairSocket],
    dials: type[BusSocket | PairSocket],
) -> None:
    with listens() as ours, dials() as other:
        dialler = other.dial(ours.listen(fresh_url(transport, tmp_path)).url)
        until(lambda: "use sockets of" in str(dialler.error), "the dialler is rejected")
        reported = str(dialler.error)

    assert "(BUS)" in reported
    assert "(PAIR0)" in reported


@clause("BP-17")
@pytest.mark.parametrize(
    ("shortest_s", "wanted"),
    [(60.0, [60.0, 120.0, 240.0, 480.0]), (1e-9, [1e-9] * 4)],
    ids=["lasted less than a pause", "lasted longer"],
)
def test_the_pause_grows_unless_the_connection_has_lasted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shortest_s: float,
    wanted: list[float],
) -> None:
    """Else a pair that has a peer would be dialled a hundred times a second."""
    bounds: list[float] = []

    class Recorded(Redial):
        def next_pause(self) -> float:
            bounds.append(self._bound_s)
            super().next_pause()
            return 0.0

    monkeypatch.setattr(bus.pattern.dialler, "Redial", Recorded)
    config = SocketConfig(redial_min_s=shortest_s, redial_max_s=10_000)
    with PairSocket(config) as ours, RawListener(fresh_url("local", tmp_path)) as other:
        ours.dial(other.url)
        for _ in range(4):
            with other.accept() as end:
                end.send(HANDSHAKE)
                assert end.read(8) == HANDSHAKE
                # Open at both ends, so that the dialler has noted it.
                assert ours.wait_for_peers(1, 20)
        with other.accept():
            assert bounds == wanted
