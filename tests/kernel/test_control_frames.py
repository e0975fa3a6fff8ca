"""The table of handlers, in which each frame that a peer may send has a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from bus.features.memory.frames import MemoryFrame
from bus.kernel import wire
from bus.kernel.messages.outbound_messages import UndeliveredMessages
from bus.kernel.wire import FrameType, Reason
from specs.clauses import clause
from tests.features.machines.test_static_addresses import FIRST, Master, connect

if TYPE_CHECKING:
    from bus.kernel.wire import Frame


def rows(master: Master) -> dict[Any, Any]:
    return master.remote._rows


def test_each_type_of_frame_has_one_row() -> None:
    master = Master("m1")
    master.remote.begin(0.0)
    hooks = [row for each in master.remote._hooks for row in each.frames]

    types = [each.type for each in rows(master) if not isinstance(each, Reason)]
    # This process shares no memory.
    types += [each.type for each in MemoryFrame.__subclasses__()]
    assert sorted(types) == sorted(FrameType)
    assert len(rows(master)) == len([*master.remote._table(), *hooks])


@clause("BUS-CHAN-9")
@pytest.mark.parametrize(
    "frame",
    [
        wire.Unrelay(relay=1, extracted=0),
        wire.Error(reason=Reason.BUSY, message=1),
    ],
)
def test_a_frame_without_memory_to_handle_it_is_received_again(
    frame: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not count as received, so the peer sends it over the next link."""

    def refuse(*_: object) -> NoReturn:
        raise MemoryError

    for name in ("on_unrelay", "on_refused"):
        monkeypatch.setattr(UndeliveredMessages, name, refuse)
    one, two = Master("m1", FIRST), Master("m2")
    connect(one, two, 1, FIRST, "m2")
    [peer] = one.remote.topology.joined()
    before = peer.acks.controls_received

    with pytest.raises(MemoryError):
        one.remote.receive(1, frame, 1.0)
    assert peer.acks.controls_received == before
