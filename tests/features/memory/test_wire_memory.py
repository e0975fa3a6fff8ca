"""Hostile frames: none takes more memory, or more depth, than its length allows."""

from __future__ import annotations

import sys
import threading
import tracemalloc

import pytest

from bus.errors import WireError
from bus.kernel import wire
from bus.kernel.wire import FrameType, decode
from specs.clauses import clause
from tests.kernel.golden import VECTORS
from tests.kernel.raw_frames import REGISTRATION, control, head, msg, outcome


def hostile() -> dict[str, bytes]:
    text = "a" * 8000 + "\N{GRINNING FACE}"  # four times as long once decoded
    gaps = [[2 * n + 1000, 2 * n + 1001] for n in range(128)]
    return {
        "empty messages": msg(head(count=4096), lengths=[0] * 4096),
        "messages one by one": msg(*[head()] * 4096, lengths=[0] * 4096),
        "short messages": msg(
            head(flags=wire.RAW, count=4096), lengths=[2] * 4096, bodies=bytes(8192)
        ),
        "as many as are made at once": msg(*[head()] * 64, lengths=[0] * 64),
        "a long body": msg(head(), lengths=[2**22], bodies=bytes(2**22)),
        "a long payload of bytes": msg(
            head(flags=wire.RAW), lengths=[2**22], bodies=bytes(2**22)
        ),
        "bodies that are not there": msg(head(count=4096), lengths=[2**31] * 4096),
        "runs that are too many": msg(*[head(count=1)] * (2**16 - 1)),
        "a kind too many": msg(*[head()] * 4095, head(kind=9), lengths=[0] * 4096),
        "a long text": control(FrameType.BYE, text=text),
        "a long name": control(FrameType.UNEXPORT, id=REGISTRATION | {"machine": text}),
        "a long key": control(FrameType.BYE, **{text: 1}),
        "many gaps": control(
            FrameType.ACK,
            epoch=1,
            incarnation=1,
            last=2**40,
            missing=gaps,
            extracted=[[n + 1000, n + 1000] for n in range(256)],
        ),
        "too many gaps": control(
            FrameType.ACK, epoch=1, incarnation=1, last=1, missing=[[0, 0]] * 2000
        ),
        "an array of 4 GiB": b"\x11\x81\xa6leases\xdd\xff\xff\xff\xff",
        "a map of 4 GiB": b"\x11\xdf\xff\xff\xff\xff",
        "a text of 4 GiB": b"\x16\x81\xa4text\xdb\xff\xff\xff\xff",
        "too long by far": b"\x16" + bytes(2**22),
        "depth": b"\x16\x81\xa1x" + b"\x91" * 8000,
    }


HOSTILE = hostile()


@clause("BUS-WIRE-1")
@pytest.mark.parametrize(
    "data", [*HOSTILE.values(), *VECTORS.values()], ids=[*HOSTILE, *VECTORS]
)
def test_memory_is_bounded_by_the_frame(data: bytes) -> None:
    outcome(data)  # fills caches, which do not belong to the frame
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        found: object
        try:
            found = decode(data)
        except WireError as error:
            found = error
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found is not None
    assert peak - before <= 2 * len(data) + 64 * 2**10


@clause("BUS-WIRE-1")
def test_depth_is_no_danger_whatever_the_limit_of_recursion() -> None:
    """Tested in a thread, whose stack is smaller."""
    found: list[object] = []
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        thread = threading.Thread(
            target=lambda: found.append(outcome(HOSTILE["depth"]))
        )
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)

    assert isinstance(found[0], WireError)
