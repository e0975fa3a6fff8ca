"""QB-RDV: tests of the rendezvous that only our own brokers support.

Tests that any implementation can pass are in `specs.conformance`; races are in
`tests.schedules`; step-by-step comparison with the model is in
`tests.queuebroker.test_meeting`.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuebroker import (
    Broker,
    BrokerManager,
    PortInUseError,
    QueueBroker,
    QueueBrokerError,
)
from queuebroker.testing import explore
from specs.clauses import clause
from specs.models.answers import Ending
from specs.models.rendezvous import Brokers, Medium
from tests.depth import among
from tests.meetings import accepts_wait, are_a_pair, connects_wait, nobody_waits
from tests.spec.faces import both_faces
from tests.support import Threads

if TYPE_CHECKING:
    from queuebroker.testing import Run, Spawned
    from tests.spec.faces import Face

# One call of a script: accepts or connects, the broker it is called on, the target
# broker, port, kind. "c" has no face for queues.
CALLS = st.tuples(
    st.booleans(),
    st.sampled_from("abc"),
    st.sampled_from("abc"),
    st.integers(1, 2),
    st.sampled_from(Medium),
)
Script = list[tuple[bool, str, str, int, Medium]]


@clause("QB-RDV-4", "QB-NAME-12")
@settings(max_examples=among(10, 40))
@given(st.lists(CALLS, min_size=2, max_size=8))
def test_name_port_and_kind_must_agree(script: Script) -> None:
    """Blocking calls on several brokers, ports and kinds meet as in the model."""

    def program(run: Run) -> None:
        manager, model = BrokerManager(), Brokers()
        plain = {name: Broker(name, manager=manager) for name in "abc"}
        faces = {name: QueueBroker(plain[name]) for name in "ab"}
        for name in "abc":
            model.create(name, name, queue=name in faces)
        calls: dict[int, Spawned[Any]] = {}
        for ticket, (accepts, source, name, port, medium) in enumerate(script):
            queue = medium is Medium.MESSAGE
            if queue and source not in faces:
                continue
            broker: Any = faces[source] if queue else plain[source]
            if accepts:
                answer = model.accept(ticket, source, port, medium=medium)
                calls[ticket] = run.spawn(broker.accept, port)
            else:
                answer = model.connect(ticket, source, name, port, medium=medium)
                calls[ticket] = run.spawn(broker.connect, name, port)
            run.settle()
            assert calls[ticket].done is (answer.kind is not Ending.WAITS)
            if answer.kind is Ending.UNKNOWN_BROKER:
                assert calls[ticket].result is None
            elif answer.kind is Ending.DONE:
                other = calls[typing.cast("int", answer.value)]
                assert other.done
                are_a_pair(calls[ticket].result, other.result)
        manager.close(disconnect=True)
        for call in calls.values():
            call.join()
            assert call.error is None or isinstance(call.error, QueueBrokerError)

    explore(program, bound=0, random=0, limit=1)


@clause("QB-RDV-6")
def test_connects_on_one_port_are_served_in_their_order(manager: BrokerManager) -> None:
    """Each starts once the one before waits; repeated accepts match them in order."""
    b = QueueBroker("b", manager=manager)
    callers = [QueueBroker(f"a{number}", manager=manager) for number in range(6)]
    with Threads() as threads:
        for number, caller in enumerate(callers):
            threads.start(_greet, caller, b"%d" % number)
            wanted = {1: number + 1}
            connects_wait(b, wanted)

        served = []
        for _ in callers:
            with b.accept(1) as end:
                served.append((end.remote_name, end.receive()))

    expected = [(caller.name, b"%d" % n) for n, caller in enumerate(callers)]
    assert served == expected
    nobody_waits(b, *callers)


def _greet(caller: QueueBroker, message: bytes) -> None:
    with caller.connect("b", 1, required=True) as end:
        end.send(message)
        for _ in end:
            pass


@clause("QB-RDV-8")
def test_a_thousand_matches_on_one_port_leave_no_trace(manager: BrokerManager) -> None:
    """Counts return to 0, and no list of a broker or manager grows."""
    b, a = (QueueBroker(name, manager=manager) for name in "ba")

    def serve() -> None:
        for _ in range(1000):
            b.accept(1).disconnect()

    with Threads() as threads:
        server = threads.start(serve)
        for _ in range(1000):
            a.connect("b", 1, required=True).disconnect()
        server.result()

    nobody_waits(a, b)
    assert len(manager._connections) == 0
    assert manager.names() == ["b", "a"]


@clause("QB-RDV-9")
@both_faces
def test_accepts_on_one_port_are_served_in_their_order(
    face: Face, manager: BrokerManager
) -> None:
    """Each starts once the one before waits; repeated connects match them in order."""
    b, a = face("b", manager=manager), face("a", manager=manager)
    with Threads() as threads:
        accepts = []
        for number in range(5):
            accepts.append(threads.start(lambda: b.accept(1)))
            wanted = {1: number + 1}
            accepts_wait(b, wanted)

        for accept in accepts:
            with a.connect("b", 1, required=True) as end, accept.result() as peer:
                are_a_pair(end, peer)


@clause("QB-RDV-9")
@both_faces
@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        (False, False, False),
        (False, True, True),
        (True, False, True),
        (True, True, True),
    ],
)
def test_an_exclusive_accept_and_another_refuse_one_another(
    face: Face, first: bool, second: bool, refused: bool, manager: BrokerManager
) -> None:
    """If an accept finds the other waiting, it raises and changes nothing."""
    b, a = face("b", manager=manager), face("a", manager=manager)
    with Threads() as threads:
        earlier = threads.start(lambda: b.accept(1, exclusive=first))
        accepts_wait(b, {1: 1})
        later = threads.start(lambda: b.accept(1, exclusive=second))

        if refused:
            assert isinstance(later.error(), PortInUseError)
            assert b.waiting_accepts() == {1: 1}
        else:
            accepts_wait(b, {1: 2})
        with a.connect("b", 1, required=True) as end, earlier.result() as peer:
            are_a_pair(end, peer)
        if not refused:
            with a.connect("b", 1, required=True), later.result():
                pass
    assert b.waiting_accepts() == {}


@clause("QB-RDV-9")
def test_an_exclusive_accept_minds_only_accepts_of_its_port_and_kind(
    manager: BrokerManager,
) -> None:
    """It ignores another port, the other kind, and a connect that waits."""
    plain = Broker("b", manager=manager)
    b, a = QueueBroker(plain), QueueBroker("a", manager=manager)
    with Threads() as threads:
        other_port = threads.start(b.accept, 2)
        other_kind = threads.start(plain.accept, 1)
        connect = threads.start(lambda: a.connect("b", 1, required=True))
        accepts_wait(b, {2: 1})
        accepts_wait(plain, {1: 1})
        connects_wait(b, {1: 1})

        with b.accept(1, exclusive=True) as end, connect.result() as peer:
            are_a_pair(end, peer)
        plain.close()
        other_port.error()
        other_kind.error()


@clause("QB-RDV-10")
def test_a_hundred_brokers_connect_to_themselves(manager: BrokerManager) -> None:
    """Each connects from two threads, all at once, with a ping and a pong."""

    def serve(broker: QueueBroker) -> None:
        with broker.accept(1) as end:
            end.send(end.receive() + b" pong")
            for _ in end:
                pass

    def call(broker: QueueBroker) -> bytes:
        with broker.connect(broker.name, 1, required=True) as end:
            end.send(broker.name.encode())
            return end.receive()

    brokers = [QueueBroker(f"b{number}", manager=manager) for number in range(100)]
    with Threads() as threads:
        for broker in brokers:
            threads.start(serve, broker)
        answers = [(broker, threads.start(call, broker)) for broker in brokers]
        for broker, answer in answers:
            assert answer.result() == broker.name.encode() + b" pong"

    nobody_waits(*brokers)


@pytest.mark.deep
@clause("QB-RDV-15")
def test_32_threads_make_ten_thousand_matches(manager: BrokerManager) -> None:
    """On one broker and four ports, every token arrives once at the matched caller."""
    b, a = (QueueBroker(name, manager=manager) for name in "ba")
    turns = 10_000 // 16

    def serve(number: int) -> list[bytes]:
        received = []
        for _ in range(turns):
            with b.accept(number % 4) as end:
                received.append(end.receive())
        return received

    def call(number: int) -> list[bytes]:
        said = [b"%d %d" % (number, turn) for turn in range(turns)]
        for token in said:
            with a.connect("b", number % 4, required=True) as end:
                end.send(token)
                for _ in end:
                    pass
        return said

    with Threads() as threads:
        servers = [threads.start(serve, number) for number in range(16)]
        callers = [threads.start(call, number) for number in range(16)]
        received = sorted(token for each in servers for token in each.result())
        said = sorted(token for each in callers for token in each.result())

    assert received == said
    assert len(set(said)) == 16 * turns
    nobody_waits(a, b)
