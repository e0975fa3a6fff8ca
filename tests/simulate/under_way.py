"""`UnderWay`: news sent in a simulated world and not received yet.

It is computed only when an invariant asks for it, from the frames that sessions keep
until they are acknowledged. `Expired` holds the searches that end without a frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from bus.kernel.wire import AddRelay, Cancel, Eliminate, RequestId, Unrelay
from tests.kernel.search_invariants import News

if TYPE_CHECKING:
    from bus.kernel.peer.peer import Peer
    from bus.kernel.wire import ControlFrame
    from bus.model.registration import Key
    from tests.simulate.process import SimProcess
    from tests.simulate.world import World

__all__ = ["Expired", "Numbers", "Registration", "UnderWay"]

Registration: TypeAlias = tuple[str, str, int]  # cheaper to compare than its id
# The registration that a relay number means, by process and incarnation.
Numbers: TypeAlias = "dict[tuple[Key, int, int], Registration]"

_ROUNDED_S: Final = 0.001  # rounding error of a deadline sent in milliseconds


class Expired:
    """The searches whose deadline has passed."""

    def __init__(self, world: World, deadlines: dict[RequestId, float]) -> None:
        self._world = world
        self._deadlines = deadlines

    def __contains__(self, search: object) -> bool:
        assert isinstance(search, RequestId)
        deadline = self._deadlines.get(search)
        if deadline is None:  # a hostile peer made it up: no process has begun it
            return True
        return deadline <= self._world.now + _ROUNDED_S


class UnderWay:
    """News of ends: of tasks, of searches, of processes."""

    def __init__(self, world: World, numbers: Numbers) -> None:
        self._world = world
        self._numbers = numbers

    def __contains__(self, news: object) -> bool:
        assert isinstance(news, News)
        machine, _, name = news.to.partition("/")
        process = self._world.processes[machine, name]
        if isinstance(news.over, RequestId):
            return self._search_ends(process, news.over)
        assert isinstance(news.over, tuple)
        return self._task_leaves(process, news.over)

    def _search_ends(self, process: SimProcess, search: RequestId) -> bool:
        request = process.remote.resolver.ledger.get(search)
        if request is None or request.origin is None:
            return True
        asked = [
            frame
            for way in (request.origin, *request.forwarded_to.values())
            for frame in self._under_way(process, way)
        ]
        return self._is_lost(process, request.origin) or any(
            (isinstance(frame, Cancel) and frame.id == search)
            or (isinstance(frame, AddRelay) and frame.search == search)
            for frame in asked
        )

    def _task_leaves(self, process: SimProcess, task: Registration) -> bool:
        peer = process.remote.topology.peers.get(task[:2])
        if peer is None or self._is_lost(process, peer):
            return True
        there = self._session(process, peer)
        assert there is not None
        leaving = [*self._under_way(process, peer), *there._departing.values()]
        life = peer.session.incarnation
        said = any(
            isinstance(frame, Unrelay)
            and self._numbers.get((peer.key, life, frame.relay)) == task
            for frame in leaving
        )
        return said or (
            any(
                each.provisional and each.entry.id.number == task[2]
                for each in peer.relays.values()
            )
            and self._is_eliminated(process, task)
        )

    def _is_eliminated(self, process: SimProcess, task: Registration) -> bool:
        """Whether an ELIMINATE is under way, which ends a provisional relay."""
        hops = {process.key: process}
        for _ in range(3):
            for each in list(hops.values()):
                for peer in each.remote.topology.joined():
                    if any(
                        isinstance(frame, Eliminate)
                        and (frame.id.machine, frame.id.process, frame.id.number)
                        == task
                        for frame in self._under_way(each, peer)
                    ):
                        return True
                    hops[peer.key] = self._world.processes[peer.key]
        return False

    def _session(self, process: SimProcess, peer: Peer) -> Peer | None:
        """Return the peer's end of the same session; None if it has none."""
        other = self._world.processes[peer.key]
        there = other.remote.topology.peers.get(process.key)
        if not other.alive or other.life != peer.session.incarnation or there is None:
            return None
        mine, its = peer.session, there.session
        same = mine.their_epoch in {None, its.epoch}
        same = same and its.their_epoch in {None, mine.epoch}
        return there if same and its.incarnation == process.life else None

    def _is_lost(self, process: SimProcess, peer: Peer) -> bool:
        """Whether a process is going to declare another one lost."""
        return self._session(process, peer) is None

    def _under_way(self, process: SimProcess, peer: Peer) -> list[ControlFrame]:
        """Return the control frames of another process that have not arrived yet."""
        there = self._session(process, peer)
        if there is None:
            return []
        unacked = [frame for _, frame in there.session._controls]
        received = peer.acks.controls_received - (
            there.session._controls_sent - len(unacked)
        )
        return unacked[max(0, received) :]
