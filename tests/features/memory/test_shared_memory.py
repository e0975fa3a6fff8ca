"""Long messages between processes of one machine, through shared memory."""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from bus import BusConfig, Incoming, Kind, Role
from specs.clauses import clause
from tests.kit.buses import socket_bus
from tests.kit.comm_threads import comm_of, memory_of
from tests.kit.comm_threads import held as comm_held
from tests.kit.constants import configured
from tests.kit.inspection import all_acknowledged
from tests.kit.systems import needs_shared_memory
from tests.kit.tasks import ignore
from tests.process.real import Far
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus


pytestmark = needs_shared_memory

MIB: Final = 2**20
BODY: Final = bytes(range(256)) * (MIB // 256)
HASH: Final = hashlib.sha256(BODY).hexdigest()

# The answer of a task to a payload: whether it lies in shared memory, and its hash.
TELLS: Final = """bus.register("far", thread=bus.thread(), on_command=lambda message: (
    type(getattr(message.payload, "obj", b"")) is not bytes,
    __import__("hashlib").sha256(message.payload).hexdigest(),
)) and None"""
HOLDS: Final = """made.setdefault("held", []) or bus.register(
    f"ear.{bus.process}", thread=bus.thread()
).subscribe("near", lambda message: made["held"].append(message.payload)) and None"""
HELD: Final = """[
    (type(each.obj).__name__ != "bytes", __import__("hashlib").sha256(each).hexdigest())
    for each in made["held"]
]"""
USED: Final = """sum(
    each.buffers - each.free
    for each in bus._node.comm._rounds.bodies._shared._arena.slabs()
)"""


def leases(bus: Bus) -> tuple[int, int]:
    """Return the used buffers of the arena of a process, and their leases."""
    comm = comm_of(bus)
    shared = memory_of(bus)._shared
    with comm._rounds.hold:
        slabs = list(shared._arena.slabs())
    return sum(each.buffers - each.free for each in slabs), sum(
        each.leases for each in slabs
    )


def lies_in_memory(payload: memoryview) -> bool:
    """Return True if a long payload did not travel by the link."""
    return type(payload.obj) is not bytes


def is_shared(near: Bus) -> bool:
    """Send a command to the task far away; return True if it lay in memory."""
    shared, digest = near.call("far", BODY)
    assert digest == HASH
    return bool(shared)


def unshared(near: Bus) -> None:
    """Send some commands to the task far away; each must travel by the link."""
    for _ in range(5):
        assert not is_shared(near)


@pytest.fixture
def far(near: Bus) -> Iterator[Far]:
    """Yield a process with a task ``far``, which tells what it gets."""
    del near  # it is the master
    with Far("far") as made:
        made.started()
        made(TELLS)
        yield made


@clause("MC-38", "MC-35")
@pytest.mark.usefixtures("far")
def test_long_commands_lie_in_memory_and_leave_it_again(near: Bus) -> None:
    until(lambda: is_shared(near), "they do")
    for _ in range(50):
        assert is_shared(near)

    until(lambda: leases(near) == (0, 0), "all buffers are home")


@clause("MC-38", "BUS-MSG-16")
def test_a_message_gives_a_view_of_its_payload_wherever_that_lies(
    near: Bus, far: Far
) -> None:
    far(
        "bus.register('viewer', thread=bus.thread(), on_command=lambda m: "
        "[type(m.payload).__name__, len(m.view())]) and None"
    )

    until(lambda: near.call("viewer", BODY) == ("memoryview", MIB), "it is a view")


@clause("MC-38")
def test_a_payload_of_other_types_is_a_copy_as_ever(near: Bus, far: Far) -> None:
    far(
        "bus.register('types', thread=bus.thread(), on_command=lambda m: "
        "[type(m.payload['data']).__name__, len(m.payload['data'])]) and None"
    )
    until(lambda: is_shared(near), "memory is in use")

    for _ in range(5):
        assert near.call("types", {"data": BODY}) == ("bytes", MIB)

    until(lambda: leases(near) == (0, 0), "all buffers are home")


@clause("MC-8", "MC-24", "MC-32")
def test_a_notification_for_three_processes_has_one_place(near: Bus) -> None:
    with ExitStack() as stack:
        fars = [stack.enter_context(Far(name)).started() for name in "abc"]
        source = near.register("near", on_command=ignore)
        for each in fars:
            each(HOLDS)
        remote = comm_of(near).remote
        until(lambda: len(remote.subscribed_peers(source._entry)) == 3, "all subscribe")

        def shared() -> bool:
            for each in fars:
                each("made['held'].clear()")
            source.notify(BODY)
            until(lambda: all(len(each(HELD)) == 1 for each in fars), "it is there")
            reported = [tuple(each(HELD)[0]) for each in fars]
            assert {digest for _, digest in reported} == {HASH}
            return all(is_shared for is_shared, _ in reported)

        until(shared, "it lies in memory")
        assert leases(near) == (1, 3)

        fars[0].kill()
        shared_bodies = memory_of(near)._shared
        until(lambda: len(shared_bodies._recipients) == 2, "it is forgotten")
        for each in fars[1:]:
            assert each(HELD)[0][1] == HASH
            each("made['held'].clear()")
        until(lambda: leases(near) == (0, 0), "all buffers are home")


@clause("MC-33")
def test_what_a_task_holds_outlives_the_process_that_sent_it(near: Bus) -> None:
    held: list[Incoming] = []
    near.register("near", on_command=held.append, thread=near.thread())
    with Far("far") as far:
        far.started()
        far("made.setdefault('sender', bus.register('sender')) and None")

        def shared() -> bool:
            held.clear()
            far(f"made['sender'].command('near', bytes(range(256)) * {MIB // 256})")
            until(lambda: bool(held), "it arrives")
            return lies_in_memory(held[0].payload)

        until(shared, "it lies in memory")
        view = held[0].payload
        far.kill()
    until(lambda: not comm_of(near).remote.links.by_number, "the link is lost")

    assert view == BODY
    assert hashlib.sha256(view).hexdigest() == HASH


@clause("MC-29")
@pytest.mark.parametrize("without", ["descriptors", "address space", "arena"])
def test_a_process_that_cannot_map_memory_gets_every_message(
    near: Bus, without: str
) -> None:
    settings = {"shared_memory": False} if without == "arena" else {}
    with Far("far", settings=settings) as far:
        far.started()
        far(TELLS)
        near.call("far", b"")  # there is a link
        if without == "descriptors":
            # Below the least free number none is free.
            far(
                "(lambda least: (__import__('os').close(least), "
                "__import__('resource').setrlimit(7, (least, 4096))))"
                "(__import__('os').dup(0)) and None"
            )
        elif without == "address space":
            pages = int(far("open('/proc/self/statm').read().split()[0]"))
            room = pages * os.sysconf("SC_PAGE_SIZE") + 3 * MIB
            far(f"__import__('resource').setrlimit(9, ({room}, -1))")

        unshared(near)


@clause("MC-35")
def test_a_released_message_frees_its_memory_after_the_last_array(
    near: Bus, far: Far
) -> None:
    held: list[Incoming] = []
    near.register("near", on_command=held.append, thread=near.thread())
    far("made.setdefault('sender', bus.register('sender')) and None")

    def shared() -> bool:
        held.clear()
        far(f"made['sender'].command('near', bytes({MIB})) and None")
        until(lambda: bool(held), "it is there")
        return lies_in_memory(held[0].payload)

    until(shared, "it lies in memory")
    [message] = held
    array = np.frombuffer(message.payload, np.uint8)

    message.release()
    message.release()

    with pytest.raises(ValueError, match="released memoryview"):
        message.payload[0]
    assert far(USED) == 1
    assert array.sum() == 0
    del array
    until(lambda: far(USED) == 0, "its buffer is home")


@clause("MC-38", "MC-29", "BUS-MSG-16")
def test_a_bus_that_uses_no_memory_gets_every_message_by_its_link() -> None:
    """The process knows the frames about memory, since its other bus uses them."""
    config = configured(arena_bytes=4 * MIB, ARENA_SHARE=1.0)
    without = BusConfig(shared_memory=False)
    with (
        socket_bus("near", config=config) as near,
        socket_bus("far", config=without) as far,
    ):
        far.register("far", on_command=lambda it: type(it.payload) is bytes)
        links = near.call("far", b"short") and [*comm_of(near).remote.links.by_number]

        # The slab for the long ones takes the place of the other, which is closed.
        for size in (MIB, MIB, 4 * MIB, 4 * MIB, 1):
            assert near.call("far", bytes(size)) is True

        assert [*comm_of(near).remote.links.by_number] == links
        memory = near.inspect().shared_memory
        assert memory is not None
        [recipient] = memory.recipients
        assert recipient.messages.not_mapped == 4
        assert (recipient.slabs_mapped, recipient.slabs_refused) == (0, 0)
        assert [each.buffer_bytes for each in memory.slabs] == [4 * MIB]
        assert far.inspect().shared_memory is None


@clause("MC-35")
def test_a_released_view_is_unreadable_and_its_slices_stay() -> None:
    message = Incoming(Kind.COMMAND, memoryview(b"long"))
    part = message.payload[1:]

    message.release()

    with pytest.raises(ValueError, match="released memoryview"):
        message.payload[0]
    assert part == b"ong"


def test_release_does_nothing_to_another_payload() -> None:
    message = Incoming(Kind.COMMAND, b"short")
    message.release()
    assert message.payload == b"short"


@clause("MC-35")
def test_the_end_of_a_view_alone_is_a_reason_for_a_round(near: Bus) -> None:
    with socket_bus("other", role=Role.SLAVE) as other:
        held: list[Incoming] = []
        other.register("far", on_command=held.append, thread=other.thread())
        sender = near.register("sender")

        def shared() -> bool:
            held.clear()
            sender.command("far", BODY)
            until(lambda: bool(held), "it is there")
            return lies_in_memory(held[0].payload)

        until(shared, "it lies in memory")
        all_acknowledged(near)
        rounds = comm_of(other)._rounds
        with comm_held(other):
            until(lambda: not rounds.is_due(), "nothing is to be done")
            rounds.acknowledgement_tracker.wakes_soon = False

            held.clear()

            assert rounds.is_due()
        until(lambda: leases(near) == (0, 0), "its buffer is home")


@clause("MC-35")
def test_subscribers_in_one_process_share_one_lease(near: Bus, far: Far) -> None:
    far("made.setdefault('sender', bus.register('sender')) and None")
    got: list[memoryview] = []
    for name in ("one", "two"):
        ear = near.register(name, thread=near.thread())
        ear.subscribe("sender", lambda message: got.append(message.payload), wait=True)

    def shared() -> bool:
        got.clear()
        far(f"made['sender'].notify(bytes({MIB}))")
        until(lambda: len(got) == 2, "both get it")
        return all(map(lies_in_memory, got))

    until(shared, "it lies in memory")
    assert far(USED) == 1
    got.pop(0).release()
    assert far(USED) == 1
    assert got[0][:3] == bytes(3)
    got.clear()
    until(lambda: far(USED) == 0, "its buffer is home")
