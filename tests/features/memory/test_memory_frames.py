"""`LinkMemory`: the frames about shared memory, also wrong ones."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap

import pytest

from bus.errors import WireError
from bus.features.memory.frames import (
    CloseSlab,
    MemoryFrame,
    OfferSlab,
    Release,
    SlabAnswer,
)
from bus.kernel.hooks import Bodies
from bus.kernel.wire import (
    LEASED,
    NO_DEADLINE,
    RAW,
    Batch,
    Run,
    encode,
    pieces,
)
from bus.model.message import Kind
from specs.clauses import clause
from tests.features.memory.memory_ends import (
    MIB,
    SIZE,
    Owner,
    Recipient,
    all_closed,
    message,
)
from tests.kit.systems import needs_shared_memory

__all__ = ["all_closed"]  # a fixture

pytestmark = needs_shared_memory


def test_a_report_has_at_most_256_leases() -> None:
    owner = Owner(arena_bytes=64 * MIB, ARENA_SHARE=1.0)
    owner.link(1, Recipient())
    owner.prepared(1)
    held = [owner.send(bytes(SIZE), 1)]
    while owner.used < 300:
        held.append(owner.send(bytes(SIZE), 1))
        owner.answers()
    held.clear()
    gc.collect()

    reports = owner.answers()

    leases = [len(each.leases) for each in reports if isinstance(each, Release)]
    assert leases == [256, 44]
    assert owner.used == 0


@clause("MC-21")
def test_answers_and_releases_about_nothing_change_nothing(owner: Owner) -> None:
    owner.prepared(1)
    [frame] = owner.send(bytes(SIZE), 1)
    for link in (1, 9):
        for wrong in (
            SlabAnswer(slab=77, mapped=True),
            Release(leases=((1, 900), (77, 1))),
            CloseSlab(slab=77),
        ):
            assert owner.memory.on_frame(link, wrong) == []
    owner.memory.forget(9)

    assert owner.used == 1
    assert owner.arena.stray_releases == 2
    del frame


@clause("MC-34", "MC-38")
def test_a_slab_that_is_offered_twice_is_a_violation(owner: Owner) -> None:
    owner.prepared(1)
    memory = owner.arena.memory(1)
    offer = OfferSlab(slab=1, descriptor=memory.fileno(), token=memory.name)

    with pytest.raises(WireError, match="slab 1 was handed over twice"):
        owner.recipients[1].memory.on_frame(7, offer)


@clause("MC-38")
@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        ((1, 1, 0, 17 * MIB), "a body in shared memory of 17825792 bytes, allowed"),
        ((2, 1, 0, SIZE), "slab 2 was not handed over"),
        ((1, 1, 2**40, SIZE), "a message lies outside of its slab"),
    ],
)
def test_a_location_of_nothing_is_a_violation(
    owner: Owner, fields: tuple[int, ...], fact: str
) -> None:
    owner.prepared(1)
    location = b"".join(each.to_bytes(8) for each in fields)
    run = Run(1, 2, Kind.COMMAND, RAW | LEASED, 0, NO_DEADLINE, 0, [location])

    with pytest.raises(WireError, match=fact):
        owner.recipients[1].memory.resolve_body(7, Batch(1, 1, 1, 1, [run]))


@clause("MC-35", "BUS-WIRE-4")
def test_a_report_is_taken_at_the_link_unless_it_is_malformed(owner: Owner) -> None:
    owner.prepared(1)
    owner.send(bytes(SIZE), 1)
    gc.collect()
    [report] = owner.recipients[1].say()
    data = encode(report)

    assert data[:1] in owner.memory.takes
    assert not owner.memory.take(1, data[:1] + b"x")
    assert owner.used == 1
    assert owner.memory.take(1, data)
    assert owner.used == 0


def test_without_an_arena_each_body_goes_by_its_link() -> None:
    bodies, long = Bodies(), message(bytes(SIZE))

    assert bodies.pieces(1, long) == pieces(long)
    assert bodies.resolve_body(1, long) is long
    run = Run(1, 2, Kind.COMMAND, RAW | LEASED, 0, NO_DEADLINE, 0, [bytes(32)])
    with pytest.raises(WireError, match="which is not in use here"):
        bodies.resolve_body(7, Batch(1, 1, 1, 1, [run]))


_WITHOUT_MEMORY = """
    import sys
    from bus.errors import WireError
    from bus.kernel.links.link import Link
    from bus.kernel.wire import CONTROL_BYTES_MAX, decode

    data = bytes.fromhex(sys.argv[1])
    frame = decode(data)
    print(frame.type.name)
    for act in (
        lambda: Link(1, None, 0.0).step(frame.type),
        lambda: decode(data[:1] + b"x"),
        lambda: decode(data[:1] + bytes(CONTROL_BYTES_MAX)),
    ):
        try:
            act()
        except WireError as error:
            print(error)
"""


@clause("MC-38", "BUS-WIRE-4")
@pytest.mark.parametrize(
    "frame",
    [
        OfferSlab(slab=1, descriptor=2, token="bus-0"),
        SlabAnswer(slab=1, mapped=True),
        CloseSlab(slab=1),
        Release(leases=((1, 1),)),
    ],
    ids=lambda frame: frame.type.name,
)
def test_a_process_without_memory_checks_the_frames_about_it(
    frame: MemoryFrame,
) -> None:
    """It has not loaded the feature, which knows their fields."""
    name = frame.type.name
    program = [sys.executable, "-c", textwrap.dedent(_WITHOUT_MEMORY)]
    ran = subprocess.run(
        [*program, encode(frame).hex()], capture_output=True, text=True, check=True
    )

    kind, at_first, malformed, long = ran.stdout.splitlines()
    assert kind == name
    assert at_first == f"{name} is not allowed on a link that is accepted"
    assert malformed.startswith(f"{name} cannot be decoded: ")
    assert long == f"{name} is longer than 8192 bytes: 8193"
