"""`Requests`: what was asked for, by whom, and to whom that was passed on.

A search and a subscription go the same ways, from process to process, and are kept in
each until they are taken back: so one that comes later can be told of them too
(BUS-ROUTE-18, OPEN-16).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs
from msgspec.structs import replace

from bus.core.wire import Cancel, Search, Subscribe, Unsubscribe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.core.neighbours import Neighbours
    from bus.core.peer import Key, Peer
    from bus.core.wire import RequestId

__all__ = ["Request", "Requests"]

Asked = TypeVar("Asked", Search, Subscribe)


@attrs.define(eq=False)
class Request(Generic[Asked]):
    """Something that was asked for.

    frame: as it came, or as this process says it.
    machine, name: where it is sought; the name may be a pattern.
    origin: who passed it on to here; None if this process itself asks.
    deadline: when it is forgotten, in seconds; None for not before it is taken back.
    went: to whom it was passed on; lost: of a search of this process, to whom it was,
      and who was given up since.
    adopted: whether the process that passed it on is lost, and the asker is not. It is
      kept on behalf of the asker, is not passed on, and ends as in `Listening.tick`.
    """

    frame: Asked
    machine: str
    name: str
    origin: Peer | None
    deadline: float | None = None
    went: dict[Key, Peer] = attrs.Factory(dict)
    lost: set[Key] = attrs.Factory(set)
    adopted: bool = False

    @property
    def asker(self) -> Key:
        """Which process asks."""
        return _asker(self.frame.id)


class Requests(Generic[Asked]):
    """All that are known here, by their number."""

    __slots__ = ("_by_asker", "_by_id", "_neighbours")

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours: Final = neighbours
        self._by_id: dict[RequestId, Request[Asked]] = {}
        self._by_asker: Counter[Key] = Counter()

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, number: RequestId) -> Request[Asked] | None:
        """Return one that is known."""
        return self._by_id.get(number)

    def all(self) -> list[Request[Asked]]:
        """Return them in the order in which they came."""
        return list(self._by_id.values())

    def of(self, machine: str, name: str) -> list[Request[Asked]]:
        """Return those for one name on one machine."""
        return [
            each
            for each in self._by_id.values()
            if each.name == name and each.machine == machine
        ]

    def has_room(self, number: RequestId, per_process: int, in_all: int) -> bool:
        """Whether one more may be kept that another process asked (BUS-FLOW-1)."""
        if number in self._by_id:
            return True
        others = len(self._by_id) - self._by_asker[self._neighbours.key]
        return self._by_asker[_asker(number)] < per_process and others < in_all

    def count(self, asker: Key) -> int:
        """Return how many are known that one process asks."""
        return self._by_asker[asker]

    def keep(self, request: Request[Asked]) -> None:
        """Remember one, in the place of what it repeats."""
        number: RequestId = request.frame.id
        if number not in self._by_id:
            self._by_asker[_asker(number)] += 1
        self._by_id[number] = request

    def _forget(self, number: RequestId) -> None:
        del self._by_id[number]
        asker = _asker(number)
        self._by_asker[asker] -= 1
        if not self._by_asker[asker]:
            del self._by_asker[asker]

    def spread(
        self,
        request: Request[Asked],
        ways: Iterable[Peer],
        said: Callable[[Asked, Peer], Asked] = lambda frame, _: frame,
    ) -> None:
        """Pass a request on by new ways, if it may go further (OPEN-9).

        said: returns the frame for one of these ways.
        """
        frame = request.frame
        if request.origin is not None:
            if frame.hops <= 1:
                return
            frame = replace(frame, hops=frame.hops - 1)
        for way in ways:
            if way.key not in request.went and way is not request.origin:
                request.went[way.key] = way
                way.session.tell(said(frame, way))

    def end(self, request: Request[Asked], *, answered_by: Peer | None = None) -> None:
        """Forget one, and take it back from those to whom it was passed on."""
        self._forget(request.frame.id)
        frame: Search | Subscribe = request.frame
        ends = Cancel if isinstance(frame, Search) else Unsubscribe
        for way in request.went.values():
            if way is not answered_by:
                way.session.tell(ends(id=frame.id))
        request.went.clear()

    def lose(
        self, peer: Peer, heir: Callable[[Request[Asked]], Peer | None] = lambda _: None
    ) -> list[Request[Asked]]:
        """Remove a lost process from all requests; end those that it passed on.

        Return the requests that are adopted instead (BUS-RELAY-8).

        heir: returns the asker of a request to adopt, None for one to end.
        """
        adopted = []
        for request in self.all():
            request.went.pop(peer.key, None)
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
        """Forget those whose time is up, as all do who know them; return them."""
        late = [
            each
            for each in self._by_id.values()
            if each.deadline is not None and each.deadline <= now
        ]
        for each in late:
            self._forget(each.frame.id)
        return late


def _asker(number: RequestId) -> Key:
    return (number.machine, number.process)
