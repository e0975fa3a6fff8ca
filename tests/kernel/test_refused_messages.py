"""The messages under way that the process of their addressee refuses (BUS-MSG-20)."""

from __future__ import annotations

from typing import Any

from bus.kernel.peer.peer import Peer
from bus.kernel.peer.relay import Relay
from bus.kernel.peer.session import Session
from bus.kernel.streams.receipts import Receipts
from bus.kernel.wire import Characteristics
from bus.model.config import BusConfig
from bus.model.message import Incoming, Kind
from bus.model.registration import RegistrationId
from specs.clauses import clause
from tests.kernel.sessions import link_up, new_alarm, outbound_run

CONFIG = BusConfig()
ADDRESSEE = Characteristics(
    relay=3, id=RegistrationId("m1", "s2", 1), name="f", incarnation=2
)


def linked_relay() -> Relay:
    """Return a relay of a peer that knows the sender, on a link."""
    session = Session(
        5, own=1, incarnation=2, nonce=0, config=CONFIG, ack_alarm=new_alarm()
    )
    peer = Peer(
        ("m1", "s2"),
        session,
        0.0,
        config=CONFIG,
        message_alarm=new_alarm(),
    )
    link_up(session)
    peer.announced.add(1)
    return Relay(peer, ADDRESSEE, 0.0, config=CONFIG)


@clause("BUS-MSG-20", "BUS-FLOW-7")
def test_one_of_several_in_a_run_is_taken_out() -> None:
    """The others stay under way, each under its number."""
    relay = linked_relay()
    relay.append([outbound_run([b"a", b"bb", b"ccc"])])
    relay.pump()

    refused = relay.take_refused(2)

    assert refused is not None
    assert list(refused.bodies) == [b"bb"]
    assert [(at, list(run.bodies)) for at, run in relay.unacked] == [
        (1, [b"a"]),
        (3, [b"ccc"]),
    ]
    assert (relay.under_way, relay.unacked_bytes) == (2, 4)
    assert relay.counters.posted == relay.counters.ended + relay.in_transit
    assert relay.take_refused(2) is None
    assert [relay.take_refused(number) is not None for number in (1, 3)] == [True] * 2
    assert not relay.unacked


@clause("BUS-MSG-20")
def test_no_answer_to_a_refused_request_is_awaited() -> None:
    """One that comes in spite of the refusal is passed over; other requests wait on."""
    relay = linked_relay()
    source: Any = "d"
    for number in (7, 8):
        message = Incoming(Kind.COMMAND, b"x", _source=source, wants_reply=True)
        relay.append([outbound_run([b"x"], id=number, message=message, name=None)])
    relay.pump()
    assert relay.is_unanswered(source, 7)

    relay.take_refused(1)

    assert [relay.is_unanswered(source, number) for number in (7, 8)] == [False, True]


@clause("BUS-CHAN-9")
def test_receipts_that_were_lost_are_settled_together() -> None:
    receipts = Receipts()
    receipts.expect(1, 3)
    receipts.expect(7)
    receipts.take(2)

    receipts.take_all()

    assert (list(receipts.unread), receipts.extracted) == ([], 7)
    receipts.expect(8)
    assert receipts.take(8)
    assert receipts.extracted == 8
