"""`FastPathDriver`: a lone notification goes to all subscribed processes, or waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import bus
from specs.clauses import clause
from tests.kit.clock import Clock
from tests.process.driven import Driven
from tests.simulate.process import CONFIG
from tests.strikes import everywhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.strikes import Blow

# The subscribers of these tests are in two processes.
TWO = ("s3", "s1", "s3")


@clause("BUS-MSG-4")
@pytest.mark.parametrize("here", [False, True])
def test_a_notification_without_subscribers_is_counted_and_not_sent(
    *, here: bool
) -> None:
    """here: whether a task of its own process subscribes, and has received it."""
    talk = Driven()
    [reader] = talk.subscribers
    reader.process.unsubscribe(reader)
    talk.stage.soon()
    before = talk.all_accounts()

    assert talk.notify(subscriptions=(object(),) if here else ())

    assert talk.put == []
    assert talk.source.no_subscriber == int(not here)
    assert talk.all_accounts() == before


# Reasons to post it as usual: then no process gets it at once. Those of one process
# are tested in `tests.simulate.test_fast_path_notifications`; here by one of them.


def _posted_before(talk: Driven) -> None:
    talk.rounds.inbox.push("a request")


def _given_before(talk: Driven) -> None:
    talk.rounds.given.append((1, b"frame"))


def _link_action(talk: Driven) -> None:
    talk.rounds.link_actions.append("an action")


def _monitored(talk: Driven) -> None:
    talk.rounds.links_reserved = True


def _sending(talk: Driven) -> None:
    talk.links.sending = True


def _pending_action(talk: Driven) -> None:
    talk.pending.append("an action")


def _no_lease(talk: Driven) -> None:
    talk.leases = False


def _no_room(talk: Driven) -> None:
    audience = _last(talk).audience
    while audience.under_way < CONFIG.window:
        audience.send_at_once(talk.outbound_run())


def _gap_before_the_relays(talk: Driven) -> None:
    talk.audience._gaps[talk.source] = [2]


def _last(talk: Driven) -> Any:
    """Return the process that the driver considers last."""
    return talk.near.remote.subscribed_peers(talk.source)[-1]


@clause("BUS-MSG-15", "BUS-FLOW-3", "BUS-CHAN-7")
@pytest.mark.parametrize(
    "so",
    [
        _posted_before,
        _given_before,
        _link_action,
        _monitored,
        _sending,
        _pending_action,
        _no_lease,
        _no_room,
        _gap_before_the_relays,
    ],
)
def test_a_notification_goes_at_once_to_all_or_to_none(
    so: Callable[[Driven], None],
) -> None:
    talk = Driven("s3", "s1")
    so(talk)
    before = talk.all_accounts()

    assert not talk.notify()

    assert not [*talk.put, *talk.aborted]
    assert talk.all_accounts() == before
    assert talk.source.no_subscriber == talk.audience.delivered == 0


@clause("BUS-MSG-15", "BUS-FLOW-3")
@pytest.mark.parametrize(
    "changes",
    [
        {"wants_reply": True},
        {"_trace": object()},
        {"payload": bytes(2**16 + 1)},
    ],
)
def test_a_long_recorded_or_answerable_notification_is_posted(
    changes: dict[str, Any],
) -> None:
    talk = Driven(*TWO)
    before = talk.all_accounts()

    assert not talk.notify(**changes)
    assert talk.put == []
    assert talk.all_accounts() == before


@clause("BUS-CHAN-6")
def test_a_notification_joins_the_round_under_way() -> None:
    talk = Driven()
    with talk.driver.hold:
        assert not talk.notify()
    assert talk.put == []


@clause("BUS-CHAN-6", "BUS-CHAN-7")
def test_notifications_that_follow_one_another_fast_go_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk, clock = Driven(), Clock.installed(monkeypatch, 0.0)

    assert [talk.notify(), talk.notify()] == [True, False]
    clock.now += 0.00015  # since the last one that was sent by either path
    assert not talk.notify()
    clock.now += 0.00025
    assert talk.notify()
    assert len(talk.put) == 2


@clause("BUS-CHAN-6")
def test_a_full_link_takes_the_notification_when_there_is_room() -> None:
    """The comm thread sends the rest; the other links are not delayed."""
    talk = Driven(*TWO)
    links = [talk.to.session.link]
    talk.full.update(link for link in links if link is not None)

    assert talk.notify()

    assert talk.checked == links
    assert len(talk.put) == 2


@clause("QB-ERR-9", "BUS-FLOW-7", "BUS-RELAY-10")
def test_an_interrupt_leaves_each_process_its_notification_or_none() -> None:
    """Where its account has it, the link is aborted, and the next one carries it."""
    went = list[tuple[int, ...]]()
    talk = Driven("s3", "s1", window=10_000, STREAM_WINDOW=10_000)
    peers = talk.near.remote.subscribed_peers(talk.source)

    def case(interrupted: Blow) -> None:
        talk.put.clear()
        talk.aborted.clear()
        talk.driver._commanded_at = 0.0
        before = [_account(peer) for peer in peers]
        interrupted(talk.notify)

        after = [_account(peer) for peer in peers]
        counts = tuple(new[0] - old[0] for old, new in zip(before, after, strict=True))
        for peer, count, old, new in zip(peers, counts, before, after, strict=True):
            assert count in (0, 1)
            assert [b - a for a, b in zip(old, new, strict=True)] == [count] * len(old)
            sent = [link for link, _ in talk.put if link == peer.session.link]
            assert len(sent) <= count
            if count and not sent:
                assert peer.session.link in talk.aborted
        assert not talk.driver.hold.locked()
        went.append(counts)

    assert talk.notify()  # so that no later call takes a shorter way than the last one
    everywhere(case, packages=(bus,))
    assert {(0, 0), (1, 0), (1, 1)} == set(went)


def _account(peer: Any) -> list[int]:
    outgoing, audience = peer.session.outgoing, peer.audience
    return [
        outgoing.next,
        len(outgoing),
        peer.notifications.posted,
        peer.counters.posted,
        audience.under_way,
        audience.unacked_bytes,
        len(audience.unacked),
    ]
