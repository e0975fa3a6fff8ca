"""Arrays between tasks, at each distance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest

from bus import Incoming, Kind, Service
from bus.model import arrays
from bus.model.payload import freeze
from specs.clauses import clause
from tests.bus.arrays import assert_same
from tests.bus.support import DISTANCES, FAR, There
from tests.kit.serving import serve
from tests.kit.systems import needs_unix_sockets
from tests.kit.tasks import Reader
from tests.process.real import Far
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from bus import Bus

IMAGE = np.arange(48 * 64 * 3, dtype=np.uint8).reshape(48, 64, 3)
LARGE = np.arange(2**17, dtype=np.float32).reshape(2**9, 2**8)  # 512 KiB


@clause("BUS-MSG-16")
@pytest.mark.parametrize("distance", DISTANCES)
def test_arrays_go_to_a_task_and_back(bus: Bus, there: There, distance: str) -> None:
    """As a command and its answer, alone and in containers, short and long."""

    def negative(message: Incoming) -> Any:
        sent = message.payload
        if isinstance(sent, dict):
            return [np.negative(sent["image"]), sent["id"]]
        return np.negative(sent)

    there.register("negative", on_command=negative)

    for sent in (IMAGE, LARGE, np.zeros((0, 4)), np.arange(3, dtype=np.uint8)):
        assert_same(bus.call(there.at("negative"), sent, timeout=LIMIT_S), -sent)
        payload = {"image": sent, "id": 7}
        image, number = bus.call(there.at("negative"), payload, timeout=LIMIT_S)
        assert_same(image, -sent)
        assert number == 7


@clause("BUS-MSG-16", "BUS-MSG-17")
@pytest.mark.parametrize("distance", DISTANCES)
def test_each_subscriber_gets_a_view_of_its_own(
    bus: Bus, there: There, distance: str
) -> None:
    """Read-only, and of one copy within a process; each may release its view."""
    got: list[Any] = []
    ready: set[str] = set()
    sender = bus.register("sender", thread=bus.here())

    def note(message: Incoming) -> None:
        if message.payload is None:
            ready.add(message.reference)
            return
        with message.view() as view:
            assert view.readonly
            assert_same(view, IMAGE)
        got.append(message.payload)

    for name in ("one", "two"):
        reader = there.register(name, on_command=note)
        reader.subscribe(there.back("sender"), note, ref=name)

    def both_hear() -> bool:
        sender.notify()
        return len(ready) == 2

    serve(bus, both_hear, "both hear it")

    changing = IMAGE.copy()
    sender.notify(changing)
    changing[:] = 0
    serve(bus, lambda: len(got) == 2, "both get it")

    assert np.shares_memory(*got)
    got[0].release()
    assert_same(got[1], IMAGE)


@clause("BUS-MSG-16")
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_long_array_is_copied_only_at_its_sender(
    bus: Bus, there: There, distance: str
) -> None:
    """A receiver gets a view of the bytes that came."""
    there.register("sum", on_command=lambda message: int(np.sum(message.payload)))
    bus.call(there.at("sum"), LARGE, timeout=LIMIT_S)

    with patch.object(arrays, "_private", wraps=arrays._private) as copied:
        total = bus.call(there.at("sum"), LARGE, timeout=LIMIT_S)

    assert total == int(LARGE.sum())
    assert copied.call_count == 1


@clause("BUS-MSG-16")
@pytest.mark.parametrize("distance", FAR)
def test_an_array_may_be_sent_on(bus: Bus, there: There, distance: str) -> None:
    """By a service in another process, and as a part of another payload."""
    got: list[Any] = []
    reader = bus.register("reader", thread=bus.here())
    with Service(there.bus, "again", thread=there.thread, transform=_twice):
        reader.subscribe(there.at("again"), lambda m: got.append(m.payload), wait=True)

        reader.command(there.at("again"), LARGE)
        serve(bus, lambda: got, "it comes back")

    first, second = got[0]
    assert_same(first, LARGE)
    assert_same(second, LARGE)


def _twice(message: Incoming) -> Any:
    return [message.payload, message.payload]


@needs_unix_sockets
@clause("BUS-MSG-16")
def test_arrays_go_to_a_real_process(near: Bus) -> None:
    """Over a socket, to a program that handles arrays without NumPy."""
    reader = Reader(near)
    with Far("far") as far:
        far.started()
        far(
            "bus.register('swap', on_command=lambda m: [m.payload, len(m.payload)])",
        )
        for sent in (IMAGE, LARGE):
            back, rows = near.call("swap", sent, timeout=LIMIT_S)
            assert_same(back, sent)
            assert rows == len(sent)
        far("bus.command('reader', __import__('array').array('d', [1.5, 2.5]))")
        reader.has(1)

    assert_same(reader.got[0], np.array([1.5, 2.5]))


@clause("BUS-MSG-16")
def test_a_view_is_of_bytes_or_of_an_array() -> None:
    """Read-only; if the caller releases it, the payload stays."""
    for sent in (b"ab", np.arange(3)):
        message = Incoming(Kind.COMMAND, freeze(sent))
        view = message.view()
        assert view.readonly
        view.release()
        assert message.view() == message.payload
    message = Incoming(Kind.COMMAND, memoryview(bytearray(b"ab")))
    assert message.view().readonly

    with pytest.raises(TypeError, match="not bytes or an array but tuple"):
        Incoming(Kind.COMMAND, (1,)).view()
