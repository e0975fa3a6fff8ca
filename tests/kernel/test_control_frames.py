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


def is_of_kernel(part: Any) -> bool:
    module: str = part.__module__
    return module.startswith("bus.kernel.")


def test_each_type_of_frame_has_one_row() -> None:
    master = Master("m1")

    types = [each.type for each in rows(master) if not isinstance(each, Reason)]
    # This process shares no memory.
    types += [each.type for each in MemoryFrame.__subclasses__()]
    assert sorted(types) == sorted(FrameType)
    given = [*master.remote._table(), *master.remote._hooks.frames]
    assert len(rows(master)) == len(given)


def test_the_kernel_defines_the_frames_that_it_handles_and_no_other() -> None:
    """The frames of a feature are in its folder."""
    table = rows(Master("m1")).values()
    frames = [row for row in table if not isinstance(row.kind, Reason)]

    defined = [row.kind for row in frames if is_of_kernel(row.kind)]
    assert defined == [row.kind for row in frames if is_of_kernel(row.handle)]


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
