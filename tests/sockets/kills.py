"""``python -m tests.sockets.kills --count 200 --seed S``: kill -9 at the other end.

Each kill has its own process at the other end of its own connection. After each: no
call hangs; the queue ended abnormally, with its cause, after the messages that had
arrived; the counters balance; no descriptor and no thread is left. The seed determines
the victims, the media and the points at which they are killed. Exit 0 if all went well,
1 if not.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from queuebroker import BrokerClosedError, DisconnectedQueueError, Status
from queuebroker.sockets import PeerLostError
from tests.leaks import Snapshot
from tests.sockets.support import PORT, brokers
from tests.sockets.victims import VICTIMS, payload
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from queuebroker import MessageQueue
    from queuebroker.sockets import SocketQueueBroker

__all__ = ["Killer", "kill_one", "main"]

CAPACITY: Final = 16
MEDIA: Final = {"unix": None, "tcp": "tcp://127.0.0.1:0"}


class Killer:
    """Has victims started, one after the other, and kills them."""

    def __init__(self) -> None:
        self._maker = subprocess.Popen(
            [sys.executable, "-m", "tests.sockets.victims"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._victim = 0
        self._rest = b""

    def order(self, name: str, address: str, number: int, cut: int) -> None:
        """Have a victim started."""
        assert self._maker.stdin is not None
        self._maker.stdin.write(f"{name} {address} {number} {cut}\n".encode())
        self._victim = int(self._line())

    def wait_ready(self) -> None:
        """Wait until it is at or on its way to the point where to kill it."""
        answer = self._line()
        assert answer == "ready", answer

    def kill(self) -> None:
        """Kill it; return when it has exited."""
        os.kill(self._victim, signal.SIGKILL)
        while self._line() != "gone":
            pass  # it was ready earlier
        self._victim = 0

    def _line(self) -> str:
        assert self._maker.stdout is not None
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._maker.stdout], [], [], LIMIT_S)
            received = os.read(self._maker.stdout.fileno(), 4096) if ready else b""
            assert received, "no answer from the process that starts the victims"
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._maker.kill()
        self._maker.wait()
        if self._victim:
            with suppress(ProcessLookupError):
                os.kill(self._victim, signal.SIGKILL)
        for stream in (self._maker.stdin, self._maker.stdout):
            assert stream is not None
            stream.close()


class _Survivor:
    """The other end: its sent and received messages, and how its queue has ended."""

    def __init__(
        self, killer: Killer, host: SocketQueueBroker, chance: random.Random
    ) -> None:
        self.killer = killer
        self.host = host
        self.number = chance.randrange(CAPACITY)
        self.cut = chance.randrange(1 << 20)
        self.received = 0
        self.sent = 0

    def meet(self, name: str) -> MessageQueue:
        """Have a victim started, and accept it."""
        assert self.host.address is not None
        with Threads() as threads:
            accepting = threads.start(self.host.accept, PORT)
            self.killer.order(name, self.host.address, self.number, self.cut)
            local = accepting.result()
        self.killer.wait_ready()
        return local

    def receive(self, local: MessageQueue, count: int | None = None) -> None:
        """Receive that many in order; None to receive until there is an error."""
        while count is None or self.received < count:
            message = local.receive(timeout=LIMIT_S)
            assert message == payload(self.received), f"message {self.received}"
            self.received += 1

    def send(self, local: MessageQueue, count: int | None = None) -> None:
        """Send that many; None to send until there is an error."""
        while count is None or self.sent < count:
            local.send(payload(self.sent), timeout=LIMIT_S)
            self.sent += 1

    def check(self, local: MessageQueue) -> None:
        """Check how the queue has ended and that its counters balance (QB-SOCK-4)."""
        for act in (self.receive, self.send):
            with pytest.raises(DisconnectedQueueError) as caught:
                act(local)
            cause = caught.value.__cause__
            assert isinstance(cause, PeerLostError), repr(cause)
        assert local.status is Status.DISCONNECTED
        counters = local.stats()
        assert (counters.sent, counters.received) == (self.sent, self.received), (
            counters
        )
        assert counters.pending == 0, counters
        assert 0 <= counters.peer_lost == counters.dropped <= self.sent, counters
        local.disconnect()

    # One method for each kind of victim.

    def handshake(self) -> None:
        """Kill it before an accept, or during one."""
        assert self.host.address is not None
        name = "in_handshake"
        if self.number % 2:
            self.killer.order(name, self.host.address, self.number, self.cut)
            self.killer.wait_ready()
            self.killer.kill()
        else:
            with Threads() as threads:
                accepting = threads.start(self.host.accept, PORT)
                self.killer.order(name, self.host.address, self.number, self.cut)
                self.killer.kill()
                self.wait_forgotten()
                self.host.close()
                try:
                    self.check(accepting.result())
                except BrokerClosedError:
                    return  # its hello was not whole
        self.wait_forgotten()

    def wait_forgotten(self) -> None:
        """Wait until the listener has forgotten a victim killed before its accept."""
        listener = self.host._listener
        assert listener is not None
        until(
            lambda: not (listener.unknown or listener.waiting),
            "the killed process is forgotten",
        )

    def mid_frame(self) -> None:
        """Kill it in a frame: whole messages are received, and nothing else."""
        local = self.meet("in_mid_frame")
        self.killer.kill()
        self.check(local)
        assert self.received == self.number

    def bulk(self) -> None:
        """Kill it while it sends, and this end receives."""
        local = self.meet("in_bulk")
        with Threads() as threads:
            receiving = threads.start(self.receive, local)
            until(lambda: self.received >= self.cut % 300, "so many were received")
            self.killer.kill()
            assert isinstance(receiving.error(), DisconnectedQueueError)
        self.check(local)

    def receiving(self) -> None:
        """Kill it in a round trip, or between two of them."""
        local = self.meet("in_receive")
        for count in range(1, self.number):
            self.send(local, count)
            self.receive(local, count)
        with Threads() as threads:
            waiting = threads.start(self.receive, local)
            self.killer.kill()
            assert isinstance(waiting.error(), DisconnectedQueueError)
        self.check(local)

    def credit(self) -> None:
        """Kill it while it waits for credit: its messages within its credit arrive."""
        local = self.meet("in_wait_for_credit")
        until(lambda: local.pending == CAPACITY, "it has sent what it may")
        self.receive(local, self.number // 3)
        self.killer.kill()
        self.check(local)
        assert self.received >= CAPACITY

    def owing(self) -> None:
        """Kill it while this end waits for its credit, in a send."""
        local = self.meet("without_receiving")
        with Threads() as threads:
            sending = threads.start(self.send, local)
            until(lambda: self.sent == CAPACITY, "this end has sent what it may")
            self.killer.kill()
            assert isinstance(sending.error(), DisconnectedQueueError)
        self.check(local)
        assert local.stats().peer_lost == self.sent == CAPACITY


STATES: Final[dict[str, Callable[[_Survivor], None]]] = {
    "during the handshake": _Survivor.handshake,
    "in the middle of a frame": _Survivor.mid_frame,
    "in bulk": _Survivor.bulk,
    "waiting in receive": _Survivor.receiving,
    "waiting for credit": _Survivor.credit,
    "owing credit": _Survivor.owing,
}
assert len(STATES) == len(VICTIMS)


def kill_one(killer: Killer, state: str, medium: str, chance: random.Random) -> None:
    """Kill a victim in a state.

    Raises:
        AssertionError: a call hangs, or the state afterwards is wrong.
    """
    before = Snapshot.take()
    with brokers(MEDIA[medium], {"capacity": CAPACITY}) as (host, _):
        STATES[state](_Survivor(killer, host, chance))
    left = before.leaks()
    assert not left, left


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill as many as requested; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.sockets.kills")
    parser.add_argument("--count", type=int, default=200, help="how many are killed")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().getrandbits(32)
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    done: Counter[tuple[str, str]] = Counter()
    with Killer() as killer:
        for number in range(options.first, options.first + options.count):
            # So that each kill can be repeated without those before it.
            chance = random.Random(f"{options.seed}/{number}")
            state = list(STATES)[number % len(STATES)]
            medium = chance.choice(list(MEDIA))
            try:
                kill_one(killer, state, medium, chance)
            except BaseException:
                print(f"kill {number} {state} over {medium} of seed {options.seed}:")
                raise
            done[state, medium] += 1
    for state in STATES:
        counts = ", ".join(f"{done[state, medium]} over {medium}" for medium in MEDIA)
        print(f"{state:<26}{counts}")
    print(f"{done.total()} killed: nobody hung, books balanced, nothing left behind")
    return 0


if __name__ == "__main__":
    sys.exit(main())
