"""QB-CONC: threads, progress, wake-ups."""

from __future__ import annotations

import statistics
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from specs.clauses import clause
from specs.conformance.expectation import expect, require
from specs.conformance.scenario import Style, scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage

CPU_S_MAX = 0.005
BLOCKED_S = 1.0
ROUND_TRIP_S_MAX = 0.005


@scenario(style=Style.RACE)
@clause("QB-CONC-1")
def everything_at_once(stage: Stage) -> None:
    """All operations from threads of their own: nothing but values and goodbyes."""
    left, right = stage.pair(capacity=1)
    calls = [
        stage.spawn(left.send, b"1"),
        stage.spawn(right.receive),
        stage.spawn(left.disconnected),
        stage.spawn(right.disconnect),
    ]

    stage.join(*calls)

    stage.values(*calls[2:])
    stage.raises(None, *(call for call in calls if call.error is not None))


@scenario()
@clause("QB-CONC-2")
def a_waiting_receive_does_not_delay_a_send(stage: Stage) -> None:
    """While a receive waits on an end, a send on the same end goes through."""
    left, right = stage.pair()
    receive = stage.spawn(left.receive)
    stage.waits(receive)

    stage.at_once(left.send, b"out")

    expect(right.receive(), b"out", "received by the peer")
    stage.waits(receive)
    right.send(b"in")
    expect(stage.value(receive), b"in", "received by the receive that waited")


@scenario("bounded")
@clause("QB-CONC-2")
def a_waiting_send_does_not_delay_a_receive(stage: Stage) -> None:
    """While a send waits on an end, a receive on the same end goes through."""
    left, right, sent = stage.full_pair()
    send = stage.spawn(left.send, b"stuck")
    stage.waits(send)

    right.send(b"in")

    expect(stage.at_once(left.receive), b"in", "received by the end whose send waits")
    received = [right.receive() for _ in range(len(sent) + 1)]
    expect(received[-1], b"stuck", "received at last")
    stage.value(send)


@scenario()
@clause("QB-CONC-3")
def an_end_belongs_to_no_thread(stage: Stage) -> None:
    """Other threads use an end after the threads that made and used it are gone."""
    left, right = stage.pair()
    for number in range(3):
        stage.value(stage.spawn(left.send, b"%d" % number))
        received = stage.value(stage.spawn(right.receive))
        expect(received, b"%d" % number, "received in yet another thread")
    stage.value(stage.spawn(left.disconnect))
    stage.raises(None, stage.spawn(right.receive))


@scenario(style=Style.RACE)
@clause("QB-CONC-4")
def no_wake_up_is_lost_in_a_narrow_queue(stage: Stage) -> None:
    """Two senders and two receivers on a small buffer all come through, promptly."""
    left, right = stage.pair(capacity=1)
    began = stage.now()
    receives = [stage.spawn(right.receive) for _ in range(2)]
    sends = [stage.spawn(left.send, message) for message in (b"1", b"2")]

    stage.promptly(began, *receives, *sends)

    stage.values(*sends)
    expect(sorted(stage.values(*receives)), [b"1", b"2"], "received")


@scenario(style=Style.RACE)
@clause("QB-CONC-4")
def no_wake_up_is_lost_in_a_rendezvous(stage: Stage) -> None:
    """Accepts and connects on two ports all come through, promptly."""
    b, a = stage.brokers("b", "a")
    began = stage.now()
    calls = [
        stage.spawn(b.accept, 1),
        stage.spawn(a.connect, "b", 2),
        stage.spawn(a.connect, "b", 1),
        stage.spawn(b.accept, 2),
    ]

    stage.promptly(began, *calls)

    left, far, right, near = stage.values(*calls)
    stage.talk(left, right)
    stage.talk(near, far)


@scenario(style=Style.CROWD)
@clause("QB-CONC-4")
def a_long_ping_pong_never_stops(stage: Stage) -> None:
    """Thousands of messages to and fro through a small buffer."""
    left, right = stage.pair(capacity=1)
    turns = 5_000 * stage.volume

    def answer() -> None:
        for _ in range(turns):
            right.send(right.receive())

    answerer = stage.spawn(answer)
    for number in range(turns):
        message = b"%d" % number
        left.send(message)
        expect(left.receive(), message, "the answer")
    stage.value(answerer)


@scenario()
@clause("QB-CONC-5")
def a_sleeper_is_woken_by_the_event(stage: Stage) -> None:
    """After a long wait it is the event that wakes, not the next look at a clock."""
    left, right = stage.pair()
    b, a = stage.brokers("b", "a")
    receive = stage.spawn(right.receive)
    accept = stage.spawn(b.accept, 2)
    stage.waits(receive, accept)
    stage.driver.pause(0.7)

    began = stage.now()
    left.send(b"m")
    connect = stage.spawn(a.connect, "b", 2)
    stage.settle()

    for call in (receive, accept, connect):
        require(call.done, f"{call.told()} after the event: it looks at a clock")
    stage.promptly(began, receive, accept, connect)


@scenario(style=Style.CROWD)
@clause("QB-CONC-5")
def a_blocked_call_uses_no_processor_time(stage: Stage) -> None:
    """Blocked for a second, receive and accept use less than 5 ms of processor time."""
    left, right = stage.pair()
    b, a = stage.brokers("b", "a")

    def cost(function: Any, *args: Any) -> tuple[float, Any]:
        began = time.thread_time()
        came = function(*args)
        return time.thread_time() - began, came

    blocked = [stage.spawn(cost, right.receive), stage.spawn(cost, b.accept, 2)]
    stage.driver.pause(BLOCKED_S)
    left.send(b"m")
    stage.value(stage.spawn(a.connect, "b", 2))

    (received_s, _), (accepted_s, end) = stage.values(*blocked)
    end.disconnect()
    for name, used_s in (("receive", received_s), ("accept", accepted_s)):
        text = f"{name} used {used_s * 1e3:.1f} ms while blocked for a second"
        require(used_s < CPU_S_MAX, text)


@scenario(style=Style.CROWD)
@clause("QB-CONC-5")
def a_round_trip_takes_milliseconds(stage: Stage) -> None:
    """The median round trip between two threads is below 5 ms.

    On a busy machine it is below five round trips over queues of the standard library.
    """
    left, right = stage.pair()
    there, back = SimpleQueue[bytes](), SimpleQueue[bytes]()

    def answer() -> None:
        for _ in range(51):
            right.send(right.receive())
            back.put(there.get())

    answerer = stage.spawn(answer)
    trips, others = [], []
    for _ in range(51):
        began = time.perf_counter()
        left.send(b"m")
        left.receive()
        halfway = time.perf_counter()
        there.put(b"m")
        back.get()
        trips.append(halfway - began)
        others.append(time.perf_counter() - halfway)
    stage.value(answerer)
    median = statistics.median(trips)
    most = max(ROUND_TRIP_S_MAX, 5 * statistics.median(others))
    require(median < most, f"a round trip takes {median * 1e3:.1f} ms")


@scenario(spurious=2)
@clause("QB-CONC-6")
def a_receive_woken_in_vain_goes_on_waiting(stage: Stage) -> None:
    """Two receives, one message: one gets it, whoever else wakes waits on."""
    left, right = stage.pair()
    receives = [stage.spawn(right.receive) for _ in range(2)]
    stage.waits(*receives)

    left.send(b"1")
    stage.only_one("one send", *receives)
    left.send(b"2")
    expect(sorted(stage.values(*receives)), [b"1", b"2"], "received")


@scenario(style=Style.RACE, spurious=1)
@clause("QB-CONC-6")
def a_receive_that_was_overtaken_goes_on_waiting(stage: Stage) -> None:
    """A receive woken for a message that another one took waits for the next."""
    left, right = stage.pair(capacity=2)
    receives = [stage.spawn(right.receive) for _ in range(2)]
    left.send(b"1")
    overtaker = stage.spawn(right.receive)
    left.send(b"2")
    left.send(b"3")

    received = stage.values(*receives, overtaker)
    expect(sorted(received), [b"1", b"2", b"3"], "received by the three")


@scenario("bounded", spurious=2)
@clause("QB-CONC-6")
def a_send_woken_in_vain_goes_on_waiting(stage: Stage) -> None:
    """Two sends on a full buffer, room for one: the other waits on."""
    left, right, sent = stage.full_pair()
    sends = [stage.spawn(left.send, message) for message in (b"x", b"y")]
    stage.waits(*sends)

    received = [right.receive()]
    stage.only_one("one receive", *sends)
    received += [right.receive() for _ in range(len(sent) + 1)]
    stage.values(*sends)
    expect(sorted(received), sorted([*sent, b"x", b"y"]), "received")


@scenario(spurious=2)
@clause("QB-CONC-6")
def a_rendezvous_woken_in_vain_goes_on_waiting(stage: Stage) -> None:
    """Accepts and connects that wake for nothing wait on, and are matched later."""
    b, a = stage.brokers("b", "a")
    accepts = [stage.spawn(b.accept, 1), stage.spawn(b.accept, 1)]
    connect = stage.spawn(a.connect, "b", 2)
    stage.waits(*accepts, connect)

    first = stage.soon(a.connect, "b", 1)
    met = stage.only_one("one connect", *accepts)
    stage.talk(stage.value(met), first)
    stage.waits(connect)
    stage.talk(stage.soon(b.accept, 2), stage.value(connect))
    stage.soon(a.connect, "b", 1)
    stage.values(*accepts)


class _Nosy:
    """A number whose conversion uses the queue."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def __index__(self) -> int:
        self._queue.send(b"from within")
        return 0


@scenario("queue.send(offset)", "queue.send(length)")
@clause("QB-CONC-8")
def no_lock_is_held_while_arguments_are_read(stage: Stage) -> None:
    """An argument whose __index__ sends on the same queue does not deadlock."""
    left, right = stage.pair(capacity=2)

    stage.at_once(left.send, b"outer", offset=_Nosy(left))

    received = [right.receive(), right.receive()]
    expect(received, [b"from within", b"outer"], "received")


@scenario("queue.send_many")
@clause("QB-CONC-8")
def no_lock_is_held_while_messages_are_made(stage: Stage) -> None:
    """A generator given to send_many may use both ends of the connection."""
    left, right = stage.pair(capacity=4)

    def nosy() -> Any:
        yield b"1"
        right.send(b"back")
        yield b"2"
        left.receive()
        yield b"3"

    expect(stage.at_once(left.send_many, nosy()), 3, "send_many() returned")
    expect([right.receive() for _ in range(3)], [b"1", b"2", b"3"], "received")
