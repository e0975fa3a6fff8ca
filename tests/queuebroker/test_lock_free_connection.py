"""The buffers of a connection are created once, at their first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import DisconnectedQueueError
from queuebroker.channel.queue_connection import UnobservedConnection
from queuebroker.lockfree import lock_free_connection
from queuebroker.lockfree.lock_free_buffer import LockFreeBuffer
from queuebroker.lockfree.lock_free_connection import LockFreeConnection
from queuebroker.meeting import meet
from specs.clauses import clause
from tests import pairs
from tests.support import Threads

if TYPE_CHECKING:
    from queuebroker import MessageQueue
    from queuebroker.channel.queue_connection import Messages


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> tuple[MessageQueue, MessageQueue]:
    """Return both ends as a rendezvous leaves them."""
    monkeypatch.setattr(meet, "LOCKED", False)
    monkeypatch.setattr(pairs, "STAGE", "fresh")
    return pairs.loose_queue_pair()


def test_an_end_that_only_disconnects_makes_no_lock_free_buffer(
    fresh: tuple[MessageQueue, MessageQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a buffer was made")

    monkeypatch.setattr(lock_free_connection, "LockFreeBuffer", refuse)

    for end in fresh:
        end.disconnect()


@clause("QB-CONC-4", "QB-CONC-7")
@pytest.mark.parametrize("locked", [False, True])
def test_threads_that_race_to_make_the_buffers_share_one_pair(
    monkeypatch: pytest.MonkeyPatch, locked: bool
) -> None:
    """Another thread sends in the middle; its message must not be lost."""
    monkeypatch.setattr(meet, "LOCKED", locked)
    monkeypatch.setattr(pairs, "STAGE", "fresh")
    left, right = pairs.loose_queue_pair()
    overtakers = [right]
    kind = UnobservedConnection if locked else LockFreeConnection
    make: Any = kind._new_buffer

    def overtaken(connection: UnobservedConnection) -> Messages:
        if overtakers:
            overtakers.pop().send(b"overtook")
        made: Messages = make(connection)
        return made

    monkeypatch.setattr(kind, "_new_buffer", overtaken)

    assert left.pending == 1
    assert left.receive(timeout=0) == b"overtook"
    left.disconnect()
    right.disconnect()


@clause("QB-RECV-4", "QB-RECV-5", "QB-DISC-3", "QB-DISC-7", "QB-CONC-4")
@pytest.mark.parametrize("when", ["before", "while"])
@pytest.mark.parametrize("hangs_up", [0, 1], ids=["its own end", "the peer"])
def test_a_receive_learns_of_a_hang_up_that_found_no_lock_free_buffer_to_shut(
    fresh: tuple[MessageQueue, MessageQueue],
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    hangs_up: int,
) -> None:
    """The disconnect came before the buffers were created, or meanwhile."""

    def overtaken(*args: Any, **kwargs: Any) -> LockFreeBuffer:
        fresh[hangs_up].disconnect()
        return LockFreeBuffer(*args, **kwargs)

    if when == "before":
        fresh[hangs_up].disconnect()
    monkeypatch.setattr(lock_free_connection, "LockFreeBuffer", overtaken)
    assert fresh[0].pending == 0

    with Threads() as threads:
        for _ in range(2):  # the first looks under the lock, the second does not
            receive = threads.start(fresh[0].receive)
            with pytest.raises(DisconnectedQueueError):
                receive.result()
    for end in fresh:
        end.disconnect()
