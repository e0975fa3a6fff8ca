"""The orders of a pool and of an arena: the same, for blocks in either store."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.features.memory import Mode
from bus.features.memory.arena import Arena
from bus.features.memory.blocks import INDIRECT
from bus.features.memory.recipients import Recipient
from specs.clauses import clause
from tests.depth import among
from tests.features.memory.arena_reader import LEAST, MIB
from tests.features.memory.support import Site, content_of
from tests.kit.systems import needs_shared_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bus.features.memory import Holdings

USERS = 5
T = TypeVar("T")


class Store(Protocol):
    """A pool or an arena with the recipients 0 to 4, and memory for 16 messages."""

    def publish(self, content: bytes, users: Sequence[int]) -> None: ...

    def dequeue(self, user: int) -> tuple[int, bytes] | None:
        """Lease a message; return the id of the lease, and its bytes."""
        ...

    def release(self, user: int, lease: int) -> bool: ...

    def lose(self, user: int) -> int:
        """Release all messages of a recipient; return how many."""
        ...

    def read(self, lease: int) -> bytes:
        """Return the present bytes of a message that was dequeued."""
        ...

    def holdings(self, user: int) -> Holdings: ...

    def recipient(self, user: int) -> Recipient[Any]: ...

    @property
    def dups(self) -> list[int]:
        """The dup of each DCB that has holders."""
        ...

    @property
    def free(self) -> list[object]:
        """The free blocks, in the order of their queues."""
        ...

    @property
    def strays(self) -> int: ...

    def check(self) -> list[str]: ...


class PoolStore(Store):
    """Blocks in a control region."""

    def __init__(self, mode: Mode, icbs: int) -> None:
        buffers = 16 * 3 + (0 if icbs else 3 * USERS)
        self.site = Site(buffers=buffers, size=4, icbs=icbs, users=USERS)
        self._mode = mode
        self._descriptors: dict[int, Any] = {}

    def publish(self, content: bytes, users: Sequence[int]) -> None:
        self.site.pool.publish(content, users, mode=self._mode)

    def dequeue(self, user: int) -> tuple[int, bytes] | None:
        descriptor = self.site.pool.dequeue(user)
        if descriptor is None:
            return None
        self._descriptors[descriptor.lease] = descriptor
        return descriptor.lease, self.read(descriptor.lease)

    def release(self, user: int, lease: int) -> bool:
        return self.site.pool.release(user, lease)

    def lose(self, user: int) -> int:
        return self.site.pool.release_all(user)

    def read(self, lease: int) -> bytes:
        return self.site.reader.read(self._descriptors[lease])

    def holdings(self, user: int) -> Holdings:
        return self.site.pool.holdings(user)

    def recipient(self, user: int) -> Recipient[Any]:
        return self.site.pool._recipients[user]

    @property
    def dups(self) -> list[int]:
        every = [self.site.dup(each) for each in range(self.site.layout.buffers)]
        return [dup for dup in every if dup not in {0, INDIRECT}]

    @property
    def free(self) -> list[object]:
        return [*self.site.free[0], *self.site.free[1]]

    @property
    def strays(self) -> int:
        return self.site.pool.stray_releases

    def check(self) -> list[str]:
        return self.site.pool.check()


class ArenaStore(Store):
    """Blocks that are objects."""

    def __init__(self) -> None:
        self.arena = Arena(MIB)
        self._numbers = [self.arena.add_recipient() for _ in range(USERS)]
        self._placements: dict[int, Any] = {}
        # The slab is made before all counts of free blocks are compared.
        self.arena.release_loan(self.arena.lease(1))

    def publish(self, content: bytes, users: Sequence[int]) -> None:
        named = [self._numbers[each] for each in users]
        assert self.arena.publish(content, named) == named

    def dequeue(self, user: int) -> tuple[int, bytes] | None:
        placement = self.arena.dequeue(self._numbers[user])
        if placement is None:
            return None
        self._placements[placement.lease] = placement
        return placement.lease, self.read(placement.lease)

    def release(self, user: int, lease: int) -> bool:
        return self.arena.release(self._numbers[user], lease)

    def lose(self, user: int) -> int:
        lost = self._numbers[user]
        self._numbers[user] = self.arena.add_recipient()
        return self.arena.remove_recipient(lost, process_ended=True)

    def read(self, lease: int) -> bytes:
        placement = self._placements[lease]
        memory = self.arena.memory(placement.slab).memory
        return bytes(memory[placement.at : placement.at + placement.length])

    def holdings(self, user: int) -> Holdings:
        return self.arena.holdings(self._numbers[user])

    def recipient(self, user: int) -> Recipient[Any]:
        return self.arena._recipients[self._numbers[user]]

    @property
    def dups(self) -> list[int]:
        [slab] = self.arena._slabs.by_number.values()
        return [block.dup for block in slab.blocks if block.dup]

    @property
    def free(self) -> list[object]:
        [slab] = self.arena._slabs.by_number.values()
        return [*slab.free]

    @property
    def strays(self) -> int:
        return self.arena.stray_releases

    def check(self) -> list[str]:
        return self.arena.check()


STORES = {
    "pool": lambda: PoolStore(Mode.WHOLE, 9),
    "borrowing pool": lambda: PoolStore(Mode.WHOLE, 0),
    "pool by buffer": lambda: PoolStore(Mode.BY_BUFFER, 9 * 3),
    "arena": ArenaStore,
}


NAMES = (
    *(each for each in STORES if each != "arena"),
    pytest.param("arena", marks=needs_shared_memory),
)


@pytest.fixture(params=NAMES)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Provide a store, which is sound at the end and has all its blocks again."""
    made = STORES[request.param]()
    free = len(made.free)
    yield made
    for user in range(USERS):
        made.lose(user)
    assert made.check() == []
    assert len(made.free) == free
    if isinstance(made, ArenaStore):
        made.arena.close()


def taken(leased: T | None) -> T:
    assert leased is not None
    return leased


@clause("MC-6", "MC-17")
def test_each_recipient_gets_its_own_messages_in_order(store: Store) -> None:
    for number, users in enumerate([[0, 1], [1, 2], [2, 0], [1], [0, 2]]):
        store.publish(bytes([number]), users)

    def drain(user: int) -> list[int]:
        read: list[int] = []
        while (leased := store.dequeue(user)) is not None:
            read += leased[1]
        return read

    assert [drain(user) for user in range(3)] == [[0, 2, 4], [0, 1, 3], [1, 2, 4]]


@clause("MC-10", "MC-18", "MC-24")
@pytest.mark.parametrize("first", range(3))
def test_dup_is_the_number_of_holders_all_the_time(store: Store, first: int) -> None:
    """Queued or leased makes no difference; only a release counts down."""
    store.publish(b"abcd", [0, 1, 2])
    assert store.dups == [3]

    leases = [taken(store.dequeue(user))[0] for user in range(3)]
    assert store.dups == [3]

    for left, step in zip(([2], [1], []), range(3), strict=True):
        user = (first + step) % 3
        assert store.release(user, leases[user])
        assert store.dups == left


@clause("MC-11", "MC-17")
@pytest.mark.parametrize("eager", [[0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]])
def test_a_recipient_that_releases_at_once_frees_nothing_of_others(
    store: Store, monkeypatch: pytest.MonkeyPatch, eager: list[int]
) -> None:
    """It dequeues, reads and releases in the very step that enqueues the message."""
    enqueue, read, free = Recipient.enqueue, list[bytes](), len(store.free)

    def take(user: int) -> None:
        lease, content = taken(store.dequeue(user))
        read.append(content)
        assert store.release(user, lease)

    def enqueue_and_finish(recipient: Recipient[Any], block: object) -> None:
        enqueue(recipient, block)
        for user in eager:
            if store.recipient(user) is recipient:
                take(user)

    monkeypatch.setattr(Recipient, "enqueue", enqueue_and_finish)

    store.publish(content_of(9), [0, 1, 2])

    assert store.check() == []
    for user in {0, 1, 2} - set(eager):
        take(user)
    assert read == [content_of(9)] * 3
    assert len(store.free) == free


@clause("MC-13")
def test_a_publish_to_no_recipient_takes_nothing(store: Store) -> None:
    free = store.free

    store.publish(b"abc", [])

    assert store.free == free


@pytest.mark.deep
@clause("MC-17", "MC-19", "MC-20", "MC-24")
@pytest.mark.parametrize("size", [0, 3, 4, 11])
@pytest.mark.parametrize("recipients", [1, 2, 3, 4, 5])
def test_the_buffers_stay_until_the_last_release_in_any_order(
    store: Store, recipients: int, size: int
) -> None:
    """Every order: the direct holder may be the first, the last, or in between."""
    users, free = range(recipients), len(store.free)
    for order in itertools.permutations(users):
        content = content_of(size, recipients)
        store.publish(content, users)
        leases = [taken(store.dequeue(user))[0] for user in users]
        for place, user in enumerate(order):
            for other in order[place:]:
                assert store.read(leases[other]) == content
            assert store.dups
            assert store.release(user, leases[user])
        assert store.dups == []
        assert store.check() == []
    assert len(store.free) == free


@clause("MC-21")
def test_a_release_of_a_lease_that_is_not_there_changes_nothing(store: Store) -> None:
    store.publish(b"one", [0, 1])
    (ended, _), (other, _) = (taken(store.dequeue(user)) for user in (0, 1))
    store.release(0, ended)
    store.publish(b"two", [0])
    store.dequeue(0)

    def state() -> object:
        held = [store.holdings(user) for user in range(USERS)]
        return store.free, store.dups, held

    before = state()
    strays = [
        (0, ended),  # released before, and the block has a message again
        (0, other),  # the lease of another recipient
        (2, other),
        (0, 99),  # never given out
        (0, 0),
    ]
    for count, (user, lease) in enumerate(strays, start=1):
        assert not store.release(user, lease)
        assert store.strays == count

    assert state() == before
    assert store.check() == []
    assert store.read(other) == b"one"


@clause("MC-21")
def test_a_lease_id_is_never_given_out_again(store: Store) -> None:
    leases = []
    for _ in range(50):
        store.publish(b"abc", [0, 1])
        leases += [taken(store.dequeue(user))[0] for user in (0, 1)]
        assert store.dequeue(0) is None
        store.lose(0)
        store.release(1, leases[-1])

    assert len(set(leases)) == 100


@clause("MC-24", "MC-32")
def test_each_message_of_a_lost_recipient_is_released_once(store: Store) -> None:
    for number in range(3):
        store.publish(content_of(5, number), [0, 1, 2])
    first, second = (taken(store.dequeue(0))[0] for _ in range(2))
    store.release(0, first)

    assert store.lose(0) == 2

    assert store.strays == 0
    assert store.holdings(0) == (0, 0, 0)
    assert store.check() == []
    assert store.lose(0) == 0
    assert not store.release(0, second)
    read = [taken(store.dequeue(1))[1] for _ in range(3)]
    assert read == [content_of(5, number) for number in range(3)]
    assert store.lose(1) == store.lose(2) == 3
    assert store.dups == []


@clause("MC-31")
def test_holdings_are_the_queued_and_the_leased_messages_with_their_buffers(
    store: Store,
) -> None:
    store.publish(content_of(9), [0, 1])
    store.publish(b"", [0])
    # A pool takes three buffers for 9 bytes, an arena one.
    long, short = (LEAST, LEAST) if isinstance(store, ArenaStore) else (12, 4)

    assert store.holdings(0) == (2, 0, long + short)
    lease, _ = taken(store.dequeue(0))
    assert store.holdings(0) == (1, 1, long + short)
    assert store.holdings(1) == (1, 0, long)
    store.release(0, lease)
    assert store.holdings(0) == (1, 0, short)


STEP = st.one_of(
    st.tuples(st.just("publish"), st.sets(st.integers(0, 2))),
    st.tuples(st.just("dequeue"), st.integers(0, 2)),
    st.tuples(st.just("release"), st.integers(0, 2)),
    st.tuples(st.just("lose"), st.integers(0, 2)),
)


@clause("MC-6", "MC-10", "MC-17", "MC-19", "MC-21", "MC-24")
@pytest.mark.parametrize("name", NAMES)
@given(steps=st.lists(STEP, max_size=25))
@settings(max_examples=among(30, 300))
def test_the_orders_are_those_of_plain_lists(
    name: str, steps: list[tuple[str, Any]]
) -> None:
    """A store keeps each message, in order, as long as a recipient has it."""
    store = STORES[name]()
    queues: list[list[bytes]] = [[] for _ in range(3)]
    leases: list[dict[int, bytes]] = [{} for _ in range(3)]
    given_out: set[int] = set()
    free, published = len(store.free), 0
    for order, which in steps:
        if order == "publish" and published < 15:
            published += 1
            content = bytes([published, *content_of(3, published)])
            store.publish(content, sorted(which))
            for user in which:
                queues[user].append(content)
        elif order == "dequeue":
            leased = store.dequeue(which)
            assert (leased and leased[1]) == (queues[which] or [None])[0]
            if leased is not None:
                assert leased[0] not in given_out
                given_out.add(leased[0])
                leases[which][leased[0]] = queues[which].pop(0)
        elif order == "release" and leases[which]:
            lease = next(iter(leases[which]))
            assert not store.release((which + 1) % 3, lease)
            assert store.release(which, lease)
            del leases[which][lease]
        elif order == "lose":
            held = len(queues[which]) + len(leases[which])
            assert store.lose(which) == held
            queues[which], leases[which] = [], {}
        held_by = [*map(list, queues), *(list(each.values()) for each in leases)]
        holders = [each for held in held_by for each in held]
        assert sorted(store.dups) == sorted(map(holders.count, set(holders)))
        for each in leases:
            assert {lease: store.read(lease) for lease in each} == each
        assert store.check() == []
    for user in range(3):
        store.lose(user)
    assert (store.dups, len(store.free)) == ([], free)
    if isinstance(store, ArenaStore):
        store.arena.close()
