"""The report of a process on its shared memory, without links (MC-39)."""

from __future__ import annotations

import gc
import os
import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from bus.features.memory.frames import CloseSlab, Release, SlabAnswer
from bus.features.memory.lent_bodies import LentBodies
from bus.features.memory.shared_bodies import LeaseAccount, SharedBodies
from bus.model.snapshot import (
    ArenaRecipientInfo,
    LentViewsInfo,
    LongMessageCounters,
    SharedMemoryInfo,
    SlabInfo,
)
from specs.clauses import clause
from tests.depth import schedules
from tests.features.memory.memory_ends import (
    MIB,
    SIZE,
    Owner,
    Recipient,
    all_closed,
    body_of,
    message,
)
from tests.kit.clock import Clock
from tests.kit.inspection import unbalanced_memory
from tests.kit.systems import needs_shared_memory

if TYPE_CHECKING:
    from bus.features.memory.frames import MemoryFrame


pytestmark = needs_shared_memory

__all__ = ["all_closed"]  # a fixture

NAMES: Final = {1: "one", 2: "two", 3: "three", 7: "owner"}


def info_of(end: Owner | Recipient) -> SharedMemoryInfo:
    """Return the report of one end; its accounts balance."""
    end.place.names = NAMES
    found = end.memory.info()
    assert unbalanced_memory(found) == []
    return found


def views_in(end: Recipient) -> LentViewsInfo:
    """Return the report of a recipient on the only arena that it reads."""
    [found] = info_of(end).lent
    return found


def counters(**changed: int) -> LongMessageCounters:
    """Return counters; those that are not given are 0."""
    names = ("shared", "released", "beyond_share", "no_room", "not_mapped")
    return LongMessageCounters(**(dict.fromkeys(names, 0) | changed))


@clause("MC-39")
def test_an_owner_reports_its_slabs_and_the_leases_of_each_recipient(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock.installed(monkeypatch)
    owner.link(2, Recipient())
    owner.prepared(1, 2)
    first = body_of(owner.send(bytes(SIZE), 1, 2)[0])
    owner.answers()  # the second recipient releases it at once
    clock.now += 3.0
    later = body_of(owner.send(bytes(SIZE), 1)[0])
    clock.now += 0.5

    found = info_of(owner)

    assert (found.bytes_max, found.share_bytes) == (64 * MIB, 16 * MIB)
    assert found.size == 2 * MIB
    slab = SlabInfo(
        number=1,
        buffer_bytes=SIZE,
        buffers=16,
        used=2,
        loans=0,
        leases=2,
        abandoned=0,
    )
    assert found.slabs == (slab,)
    one, two = found.recipients
    assert one == ArenaRecipientInfo(
        process="one",
        pid=os.getpid(),
        since_s=3.5,
        leases=2,
        held_bytes=2 * SIZE,
        slabs_mapped=1,
        slabs_refused=0,
        messages=counters(shared=2, not_mapped=1),
    )
    assert (two.process, two.leases, two.held_bytes, two.since_s) == ("two", 0, 0, None)
    assert two.messages == counters(shared=1, released=1, not_mapped=1)
    assert found.messages == counters(shared=3, released=1, not_mapped=2)
    assert found.stray_releases == 0
    assert found.lent == ()

    del first
    owner.answers()
    assert info_of(owner).recipients[0].since_s == 0.5
    del later


@clause("MC-39", "MC-35")
def test_a_recipient_reports_the_messages_of_which_it_has_a_view(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock.installed(monkeypatch)
    owner.prepared(1)
    recipient = owner.recipients[1]
    assert info_of(recipient).lent == (
        LentViewsInfo(process="owner", slabs=1, views=0, since_s=None),
    )
    first = body_of(owner.send(bytes(SIZE), 1)[0])
    clock.now += 2.0
    later = body_of(owner.send(bytes(SIZE), 1)[0])[5:]
    clock.now += 1.0

    assert views_in(recipient) == LentViewsInfo(
        process="owner", slabs=1, views=2, since_s=3.0
    )
    assert info_of(recipient).slabs == ()

    del first  # its end is not reported yet
    assert views_in(recipient) == LentViewsInfo(
        process="owner", slabs=1, views=1, since_s=1.0
    )
    assert info_of(owner).recipients[0].leases == 2
    owner.answers()
    assert info_of(owner).recipients[0].leases == 1
    assert views_in(recipient).views == 1

    recipient.memory.on_frame(7, CloseSlab(slab=1))
    assert (views_in(recipient).slabs, views_in(recipient).views) == (0, 1)
    del later
    assert views_in(recipient).views == 0
    recipient.memory.forget(7)
    assert info_of(recipient).lent == ()


@clause("MC-39", "MC-30")
def test_messages_without_room_are_counted() -> None:
    owner = Owner(arena_bytes=MIB, ARENA_SHARE=1.0)
    owner.link(1, Recipient())
    owner.link(2, Recipient())
    owner.prepared(1, 2, size=MIB)
    kept = body_of(owner.send(bytes(MIB), 1)[0])

    owner.send(bytes(MIB), 2)

    found = info_of(owner)
    assert found.messages == counters(shared=1, no_room=1, not_mapped=2)
    assert found.recipients[1].messages == counters(no_room=1, not_mapped=1)
    del kept


@pytest.mark.deep
@clause("MC-8", "MC-38", "MC-39")
def test_of_a_hundred_recipients_each_gets_only_the_first_message_of_a_slab_by_its_link(
    owner: Owner,
) -> None:
    """The pages on shared memory say so; a slab here has 16 buffers."""
    links = range(1, 101)
    for link in links:
        owner.link(link, Recipient())
    held = []
    # The first message of a slab, which no recipient has in memory, frees its buffer.
    for slab in range(2):
        for number in range(17):
            held.append(owner.send(bytes([slab, number]) * (SIZE // 2), *links))
            # Answers are reported; the messages are still in use.
            owner.answers()
            in_slab = number + 17 * slab
            by_link, shared = 100 * (slab + 1), 100 * (in_slab - slab)
            assert info_of(owner).messages == counters(
                shared=shared, not_mapped=by_link
            )
            assert owner.used == in_slab - slab
    for at, arrived in enumerate(held):
        assert len(arrived) == 100
        assert {bytes(body_of(each)[:2]) for each in arrived} == {bytes(divmod(at, 17))}
    assert len(info_of(owner).recipients) == 100
    assert [each.used for each in info_of(owner).slabs] == [16, 16]


@clause("MC-39", "MC-29")
def test_slabs_that_a_recipient_refuses_are_counted() -> None:
    owner = Owner()
    owner.link(1, Recipient(process_id=None))
    owner.send(bytes(SIZE), 1)
    [before] = info_of(owner).recipients
    assert owner.answers() == [SlabAnswer(slab=1, mapped=False)]
    owner.send(bytes(SIZE), 1)

    [one] = info_of(owner).recipients

    assert (before.slabs_mapped, before.slabs_refused) == (0, 0)  # offered
    assert (one.slabs_mapped, one.slabs_refused) == (0, 1)
    assert one.messages == counters(not_mapped=2)


@clause("MC-39")
def test_messages_that_cannot_lie_in_memory_are_not_counted(owner: Owner) -> None:
    """Short ones, and those for another machine."""
    owner.link(2, Recipient())
    owner.send(bytes(SIZE - 1), 1)
    owner.memory._shared._process_id = lambda _: None  # type: ignore[misc]
    owner.send(bytes(SIZE), 2)

    assert info_of(owner).messages == counters()
    assert info_of(owner).recipients == ()


@clause("MC-39", "MC-32")
def test_a_lost_recipient_has_released_its_leases_and_stays_counted(
    owner: Owner,
) -> None:
    owner.link(2, Recipient())
    owner.prepared(1, 2)
    kept = [body_of(each) for each in owner.send(bytes(SIZE), 1, 2)]
    alone = body_of(owner.send(bytes(SIZE), 1)[0])

    owner.memory.forget(1)

    found = info_of(owner)
    [slab] = found.slabs
    assert (slab.used, slab.leases, slab.abandoned) == (2, 1, 2)
    assert [each.process for each in found.recipients] == ["two"]
    assert found.messages == counters(shared=3, released=2, not_mapped=2)
    del kept, alone

    owner.memory.close()
    assert info_of(owner).messages == counters(shared=3, released=3, not_mapped=2)
    assert info_of(owner).recipients == ()


@clause("MC-39", "MC-32")
def test_an_account_whose_leases_have_all_ended_has_none() -> None:
    account = LeaseAccount()
    account.begin(1)
    account.begin(2)

    account.end_all()

    assert (account.leases, account.since) == (0, None)
    assert account.counters() == counters(shared=2, released=2)


@clause("MC-39", "MC-32")
def test_the_loan_of_a_round_ends_if_its_only_recipient_is_lost_meanwhile(
    owner: Owner,
) -> None:
    owner.memory.pieces(1, message(bytes(SIZE)))
    assert info_of(owner).slabs[0].loans == 1

    owner.memory.forget(1)
    owner.memory.end_round()

    [slab] = info_of(owner).slabs
    assert (slab.used, slab.loans) == (0, 0)


@clause("MC-39", "MC-37")
def test_a_loan_uses_a_buffer_and_is_no_lease(owner: Owner) -> None:
    loan = owner.arena.lease(SIZE)

    [slab] = info_of(owner).slabs

    assert (slab.used, slab.loans, slab.leases) == (1, 1, 0)
    owner.arena.release_loan(loan)
    assert info_of(owner).slabs[0].loans == 0


@clause("MC-39", "MC-21")
def test_releases_of_no_lease_are_counted_apart(owner: Owner) -> None:
    owner.prepared(1)
    owner.send(bytes(SIZE), 1)
    [report] = owner.answers()
    assert isinstance(report, Release)

    owner.memory.on_frame(1, report)

    found = info_of(owner)
    assert found.stray_releases == 1
    assert found.messages == counters(shared=1, released=1, not_mapped=1)


@clause("MC-39")
def test_each_step_and_each_report_is_made_under_one_lock(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a report is one state, though it is made in another thread."""
    recipient = owner.recipients[1].memory
    locks = {
        id(each): end._lock
        for end in (owner.memory, recipient)
        for each in (end._shared, end._lent)
    }
    calls = set[tuple[type, str]]()

    def watch(kind: type, name: str) -> None:
        method = getattr(kind, name)

        def watched(self: object, *args: object) -> object:
            assert locks[id(self)].locked(), name
            calls.add((kind, name))
            return method(self, *args)

        monkeypatch.setattr(kind, name, watched)

    shared = ("pieces", "end_round", "on_answer", "on_release", "info")
    lent = ("on_offer", "on_closed", "resolve_body", "take_ended", "info")
    both = ("forget", "close")
    expected: list[tuple[type, str]] = [
        (SharedBodies, name) for name in (*shared, *both)
    ]
    expected += [(LentBodies, name) for name in (*lent, *both)]
    for kind, name in expected:
        watch(kind, name)

    owner.prepared(1)
    owner.send(bytes(SIZE), 1)
    owner.answers()
    recipient.on_frame(7, CloseSlab(slab=1))
    for end in (owner.memory, recipient):
        end.info()
        end.forget(1)
        end.close()

    assert calls == set(expected)


def test_a_link_of_no_process_has_an_empty_name(owner: Owner) -> None:
    owner.prepared(1)

    found, other = owner.memory.info(), owner.recipients[1].memory.info()

    assert [each.process for each in found.recipients] == [""]
    assert [each.process for each in other.lent] == [""]


@clause("MC-39")
def test_the_accounts_balance_after_each_step() -> None:
    """Sends, ends of views, reports, and lost links, in any order."""
    for seed in range(schedules(15)):
        print(f"seed {seed}")  # shown if the test fails
        chance = random.Random(seed)
        owner = Owner(arena_bytes=8 * MIB, ARENA_SHARE=0.5)
        held = list[Any]()
        number = 0
        while len(owner.recipients) < 3 or number < 60:
            number += 1
            links = [each for each in owner.recipients if chance.random() < 0.6]
            if len(owner.recipients) < 3:
                owner.link(number, Recipient())
            elif chance.random() < 0.05:
                lost = chance.choice(list(owner.recipients))
                owner.memory.forget(lost)
                owner.recipients.pop(lost).memory.forget(7)
            elif chance.random() < 0.6:
                size = chance.choice([SIZE, MIB, 2 * MIB])
                held += map(body_of, owner.send(bytes(size), *links))
            elif held and chance.random() < 0.7:
                del held[chance.randrange(len(held))]
            else:
                answers(owner)
                for link, recipient in owner.recipients.items():
                    views = sum(each.views for each in info_of(recipient).lent)
                    assert views == leases_at(owner, link)
            info_of(owner)
        held.clear()
        gc.collect()
        answers(owner)
        found = info_of(owner)
        assert found.messages.shared == found.messages.released > 0
        assert sum(each.used - each.abandoned for each in found.slabs) <= 0


def answers(owner: Owner) -> list[MemoryFrame]:
    """Take in all reports, and those that are due to the answers."""
    return [*owner.answers(), *owner.answers()]


def leases_at(owner: Owner, link: int) -> int:
    """Return the leases of the recipient at one link."""
    owner.place.names = {link: "it"}
    found = owner.memory.info()
    return sum(each.leases for each in found.recipients if each.process == "it")
