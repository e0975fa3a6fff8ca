"""`Confirmations`: subscriptions that have not yet reached all their destinations.

The subscriber's process puts a number into SUBSCRIBE. A process that receives it
answers with a PONG of that number, once every process that it has forwarded the
subscription to has answered. A link keeps the order of its frames. So by then the
subscriber's process knows all matching tasks, and their processes send it their
notifications.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from bus.kernel.tasks.actions import Settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.features.subscriptions.frames import Subscribe
    from bus.kernel.peer.peer import Peer
    from bus.kernel.searches.requests import Request
    from bus.kernel.topology import Topology
    from bus.kernel.wire import RequestId

__all__ = ["Confirmations"]

# The time for other processes to join a new master. Each of them dials a master at
# least once a second until it has one.
_JOIN_S: Final = 1.0


class _Confirmation(Struct, eq=False):
    """One subscription that awaits confirmation.

    settled: the functions to call on confirmation.
    own: True if the subscriber is in this process.
    abroad: True if a process of this machine subscribes to tasks of another machine.
    numbers: the processes that have not confirmed it, by the number of their PONG.
    waits: True if it is not forwarded yet: there is no link with the master of this
      machine, or of the machine that it names.
    """

    own: bool
    abroad: bool
    settled: list[Callable[[], object]] = field(default_factory=list)
    numbers: dict[int, Peer] = field(default_factory=dict)
    waits: bool = False


class Confirmations:
    """The subscriptions of this process and of others that await confirmation.

    A process that becomes master confirms nothing until the others have had time to
    join it.
    """

    __slots__ = ("_alarm", "_awaits_joins", "_open", "_requests", "_topology")

    def __init__(self, topology: Topology) -> None:
        self._topology: Final = topology
        self._open: Final[dict[RequestId, _Confirmation]] = {}
        # The request that each outstanding PONG confirms, by its number.
        self._requests: Final[dict[int, RequestId]] = {}
        self._alarm: Final = topology.timers.alarm(self._on_due)
        # True while others have time to join this process, which has become master.
        self._awaits_joins: bool = False

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, request: Request[Subscribe], settled: Callable[[], object]) -> None:
        """Call a function once a request is confirmed; forward the request after this.

        If this process subscribes, the function is called as an action, without a lock;
        else at once. If another process subscribes, only the last call counts, since it
        has repeated the request.
        """
        number, origin = request.frame.id, request.origin
        confirmation = self._open.get(number)
        if confirmation is None or origin is not None:
            self.forget(number)
            here = self._topology.me.machine
            by_own = origin is None or origin.machine == here
            abroad = by_own and request.machine != here
            confirmation = _Confirmation(origin is None, abroad)
            self._open[number] = confirmation
        confirmation.settled.append(settled)

    def number(self, request: RequestId, way: Peer) -> int:
        """Return a number for the PONG that a peer owes for a request; 0 for none."""
        confirmation = self._open.get(request)
        if confirmation is None:
            return 0
        # The peer answers a repeated request with the PONG of the last number alone.
        numbers = confirmation.numbers
        for earlier in [each for each, to in numbers.items() if to is way]:
            del numbers[earlier], self._requests[earlier]
        number = self._topology.new_ping()
        numbers[number] = way
        self._requests[number] = request
        confirmation.waits = False
        return number

    def on_forwarded(self, request: RequestId) -> None:
        """Note that a request was forwarded to all its present destinations."""
        confirmation = self._open.get(request)
        if confirmation is None:
            return
        confirmation.waits = not confirmation.numbers and self._lacks_way(confirmation)
        self._review(request, confirmation)

    def _lacks_way(self, confirmation: _Confirmation) -> bool:
        """Return True if a request was forwarded to no process, but must be."""
        if self._topology.is_master:
            return confirmation.abroad
        return confirmation.own

    def forget(self, request: RequestId) -> None:
        """Drop the state of a request that has ended."""
        confirmation = self._open.pop(request, None)
        if confirmation is not None:
            for number in confirmation.numbers:
                self._requests.pop(number, None)

    # Other processes.

    def on_pong(self, peer: Peer, number: int) -> None:
        """Note that a process has sent the PONG of a number."""
        request = self._requests.get(number)
        if request is None:
            return
        confirmation = self._open[request]
        if confirmation.numbers.get(number) is not peer:
            return
        del confirmation.numbers[number], self._requests[number]
        self._review(request, confirmation)

    def unanswered(self, peer: Peer) -> list[tuple[RequestId, int]]:
        """Return the requests that a process has yet to confirm, with their numbers."""
        return [
            (request, number)
            for request, confirmation in self._open.items()
            for number, way in confirmation.numbers.items()
            if way is peer
        ]

    def on_master(self, now: float) -> None:
        """Give the others time to join this process, which has just become master."""
        self._alarm.by(now + _JOIN_S)
        self._awaits_joins = True
        for confirmation in self._open.values():
            confirmation.waits = not confirmation.numbers and self._lacks_way(
                confirmation
            )

    def on_process_lost(
        self, peer: Peer, is_known: Callable[[RequestId], object]
    ) -> None:
        """Stop waiting for a lost process.

        A slave's own requests wait for a new master, and those for another machine wait
        until that machine has joined again.
        """
        for request in [each for each in self._open if not is_known(each)]:
            self.forget(request)
        for request, number in self.unanswered(peer):
            confirmation = self._open[request]
            del confirmation.numbers[number], self._requests[number]
            if not confirmation.numbers:
                confirmation.waits = self._lacks_way(confirmation)
            self._review(request, confirmation)

    def _review(self, request: RequestId, confirmation: _Confirmation) -> None:
        if self._awaits_joins or confirmation.numbers or confirmation.waits:
            return
        del self._open[request]
        if confirmation.own:
            self._topology.todo += [Settled(each) for each in confirmation.settled]
            return
        # At once, not as an action: another thread may perform that, without the lock
        # of the session and without a flush after it.
        for settled in confirmation.settled:
            settled()

    # Time.

    def _on_due(self, _: float) -> None:
        """Stop waiting for processes that have not joined this one."""
        self._awaits_joins = False
        for request, confirmation in list(self._open.items()):
            self._review(request, confirmation)
