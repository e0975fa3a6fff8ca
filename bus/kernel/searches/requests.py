"""`Requests`: searches or subscriptions, each with its asker and its route.

Searches and subscriptions take the same routes from process to process. Each process
keeps them until they are cancelled, so that a later registration or a newly joined peer
is included (BUS-ROUTE-18, OPEN-16).
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from bus.errors import WireError
from bus.kernel.peer.peer import Peer
from bus.kernel.timers import Deadlines
from bus.kernel.wire import AddRelay, Search
from bus.kernel.wire.frames import RequestFrame
from bus.model.registration import Key
from bus.model.specification import Specification

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.kernel.timers import Alarm
    from bus.kernel.topology import Topology
    from bus.kernel.wire import Error, RequestId
    from bus.model.registration import RegistrationId

__all__ = ["HOPS", "AnswerCollector", "Request", "Requests", "check_passed_on"]

HOPS: Final = 3  # slave, master, master, slave (BUS-ROUTE-17)

Asked = TypeVar("Asked", bound=RequestFrame)


class Request(Struct, Generic[Asked], eq=False, dict=True):
    """One search or subscription.

    frame: as received, or as this process sends it.
    machine, name: the machine and the name that are sought; the name may be a pattern.
    origin: the peer that forwarded it; None if this process itself asks.
    deadline: when it expires, in seconds; None if it is kept until it is cancelled.
    forwarded_to: the peers that it was forwarded to.
    refused_by: the slaves that keep no more searches (BUS-FLOW-1). `Requests.spread`
      leaves them out, else each review of a search would ask them again; one that
      exports the name is asked again.
    candidates: for a search whose answers an `AnswerCollector` collects: these.
    absent: True if this master has reported that its machine lacks the name.
    lost: for a search of this process, the peers of ``forwarded_to`` that were lost
      since.
    adopted: True if the process that forwarded it is lost, and the asker is not. The
      request is kept on behalf of the asker, is not forwarded, and ends as in
      `RemoteSubscriptions.tick`.
    """

    frame: Asked
    machine: str
    name: str
    origin: Peer | None
    deadline: float | None = None
    forwarded_to: dict[Key, Peer] = field(default_factory=dict)
    refused_by: set[Key] = field(default_factory=set)
    lost: set[Key] = field(default_factory=set)
    adopted: bool = False
    candidates: Any = None
    absent: bool = False

    @cached_property
    def specification(self) -> Specification:
        """The names that are sought; each notification is compared with it."""
        return Specification(self.name)

    @property
    def anywhere(self) -> bool:
        """True if it is a search for a name that may be of any machine."""
        return isinstance(self.frame, Search) and self.frame.anywhere

    @property
    def asker(self) -> Key:
        """The process that asks."""
        return _asker(self.frame.id)


class Requests(Generic[Asked]):
    """The searches, or the subscriptions, that this process keeps, by number.

    Args:
        owner_of: returns the process known to have what a request seeks, or None.
        frame_for: returns the frame of a request for one of the peers it goes to.
        alarm: is set for the first request that expires; calls `expire`.

    Attributes:
        revision: it changes whenever a request is added or removed.
    """

    __slots__ = (
        "_alarm",
        "_by_asker",
        "_by_id",
        "_by_place",
        "_deadlines",
        "_frame_for",
        "_owner_of",
        "_topology",
        "revision",
    )

    def __init__(
        self,
        topology: Topology,
        *,
        owner_of: Callable[[Request[Asked]], Key | None] = lambda _: None,
        frame_for: Callable[[Asked, Peer], Asked] = lambda frame, _: frame,
        alarm: Alarm | None = None,
    ) -> None:
        self._alarm: Final = alarm
        self._topology: Final = topology
        self._owner_of: Final[Callable[[Request[Asked]], Key | None]] = owner_of
        self._frame_for: Final[Callable[[Asked, Peer], Asked]] = frame_for
        self._by_id: dict[RequestId, Request[Asked]] = {}
        self.revision: int = 0
        self._by_asker: Counter[Key] = Counter()
        # By machine and name, in order of arrival.
        self._by_place: dict[tuple[str, str], dict[RequestId, Request[Asked]]] = {}
        self._deadlines: Final[Deadlines[Request[Asked]]] = Deadlines(self._deadline_of)

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, number: RequestId | None) -> Request[Asked] | None:
        """Return a request by its number, or None."""
        return None if number is None else self._by_id.get(number)

    def all(self) -> list[Request[Asked]]:
        """Return all requests, in order of arrival."""
        return list(self._by_id.values())

    def of(self, machine: str, name: str) -> list[Request[Asked]]:
        """Return the requests for one name on one machine."""
        return list(self._by_place.get((machine, name), {}).values())

    def has_room(self, number: RequestId, per_process: int, in_all: int) -> bool:
        """Return True if one more request of a process may be kept (BUS-FLOW-1)."""
        if number in self._by_id:
            return True
        others = len(self._by_id) - self._by_asker[self._topology.key]
        return self._by_asker[_asker(number)] < per_process and others < in_all

    def count(self, asker: Key) -> int:
        """Return how many requests of one process are kept."""
        return self._by_asker[asker]

    def keep(self, request: Request[Asked]) -> None:
        """Keep a request; it replaces the one that it repeats."""
        number: RequestId = request.frame.id
        place = (request.machine, request.name)
        known = self._by_id.get(number)
        if known is not None and (known.machine, known.name) != place:
            self._forget(number)
            known = None
        if known is None:
            self._by_asker[_asker(number)] += 1
        if request.deadline is not None:
            assert self._alarm is not None
            self._alarm.by(request.deadline)
            self._deadlines.add((request, request.deadline))
        there = self._by_place.setdefault(place, {})
        # No call between these lines: an interrupt finds both changes or none.
        self.revision += 1
        self._by_id[number] = request
        there[number] = request

    def _forget(self, number: RequestId) -> None:
        request = self._by_id[number]
        place = (request.machine, request.name)
        there, asker = self._by_place[place], _asker(number)
        last = len(there) == 1
        # No call between these lines: an interrupt finds all changes or none.
        self.revision += 1
        del self._by_id[number]
        if last:
            del self._by_place[place]
        else:
            del there[number]
        self._by_asker[asker] -= 1
        if not self._by_asker[asker]:
            del self._by_asker[asker]

    def spread(self, request: Request[Asked]) -> None:
        """Forward a request to all peers on its routes that have not received it."""
        refused = request.refused_by
        ways = [each for each in self._ways(request) if each.key not in refused]
        self.forward(request, ways)

    def offer(self, peer: Peer) -> None:
        """Forward to a newly joined peer the requests that it has not received."""
        for request in self.all():
            if peer in self._ways(request) and not request.adopted:
                self.forward(request, [peer])

    def _ways(self, request: Request[Asked]) -> list[Peer]:
        owner = self._owner_of(request)
        return self._topology.next_hops(
            request.machine, request.origin, owner, anywhere=request.anywhere
        )

    def forward(self, request: Request[Asked], ways: Iterable[Peer]) -> None:
        """Forward a request to further peers, if it may cross more links (OPEN-9)."""
        frame = request.frame
        if request.origin is not None:
            if frame.hops <= 1:
                return
            frame = replace(frame, hops=frame.hops - 1)
        for way in ways:
            if way.key not in request.forwarded_to and way is not request.origin:
                request.forwarded_to[way.key] = way
                way.session.send_control(self._frame_for(frame, way))

    def end(self, request: Request[Asked], *, answered_by: Peer | None = None) -> None:
        """Drop a request, and cancel it at the peers that it was forwarded to."""
        if request.frame.id not in self._by_id:
            return  # an interrupt has ended the decision that was to keep it
        frame = request.frame
        for key, way in list(request.forwarded_to.items()):
            if way is not answered_by:
                way.session.send_control(frame.end(id=frame.id))
            del request.forwarded_to[key]
        self._forget(frame.id)  # last: after an interrupt the call is repeated

    def lose(
        self, peer: Peer, heir: Callable[[Request[Asked]], Peer | None] = lambda _: None
    ) -> list[Request[Asked]]:
        """Remove a lost process from all requests; end those that it forwarded.

        Return the requests that are adopted instead (BUS-RELAY-8).

        heir: returns the asker of a request to adopt, None for a request to end.
        """
        adopted = []
        for request in self.all():
            request.forwarded_to.pop(peer.key, None)
            request.refused_by.discard(peer.key)
            if request.origin is not peer:
                continue
            asker = heir(request)
            if asker is None or asker is peer:
                self.end(request)
                continue
            request.origin, request.adopted = asker, True
            adopted.append(request)
        return adopted

    def expire(self, now: float) -> list[Request[Asked]]:
        """Drop and return the expired requests; every other process drops them, too."""
        late = []
        for request in self._deadlines.due(now):
            self._forget(request.frame.id)
            late.append(request)
        return late

    def next_deadline(self) -> float | None:
        """Return when the next request expires, in seconds; None for never."""
        return self._deadlines.next()

    def _deadline_of(self, request: Request[Asked]) -> float | None:
        kept = self._by_id.get(request.frame.id) is request
        return request.deadline if kept else None


class AnswerCollector:
    """The slot for searches that several machines answer; this one collects nothing.

    `bus.features.machines.any_machine.AnyMachineSearches` fills it.
    """

    __slots__ = ()

    def __init__(self, *_: object) -> None:
        """Keep none of the parts of the `Resolver`."""

    def is_collected(self, _request: Request[Search]) -> bool:
        """Return True if this process collects the answers of all machines."""
        return False

    def review(self, now: float) -> None:
        """Continue all searches: a process, a name or a link may have been lost."""

    def review_one(self, request: Request[Search], now: float) -> None:
        """Continue a search that was kept, or whose answers have changed."""

    def on_answer(
        self, peer: Peer, request: Request[Search], frame: AddRelay, now: float
    ) -> None:
        """Collect the answer of a machine."""

    def on_absent(self, peer: Peer, error: Error, now: float) -> None:
        """Handle the report of a machine that it lacks a name."""

    def on_process_lost(self, peer: Peer) -> None:
        """Drop the answers of a lost process."""

    def on_eliminated(self, number: RegistrationId, name: str, now: float) -> None:
        """Drop the answers with a task that has ended."""


def _asker(number: RequestId) -> Key:
    return (number.machine, number.process)


def check_passed_on(frame: AddRelay, to: Peer) -> None:
    """Raise if a forwarded answer would lack the address to dial.

    Raises:
        WireError: it has no address, and its receiver does not host the task.
    """
    own = (frame.task.id.machine, frame.task.id.process)
    if not frame.addresses and to.key != own:
        raise WireError(f"ADD_RELAY of {own} has no address, but must be forwarded")
