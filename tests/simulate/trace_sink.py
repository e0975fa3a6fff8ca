"""`TraceSink`: a simulated world as the invariants of searches and relays see it.

It records the arrivals on each link, and takes a `Snapshot` after each step that
changed anything the invariants depend on. The snapshot shows each process as of its own
last such step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.features.subscriptions.frames import Subscribe
from bus.kernel.wire import AddRelay, Eliminate, RequestId, Search, Unrelay
from bus.model.registration import Visibility
from tests.kernel.search_invariants import (
    AT_REST,
    SAFETY,
    Answer,
    Hosted,
    LedgerEntry,
    Process,
    Relay,
    Release,
    Snapshot,
    a_search_is_answered_once,
    an_elimination_spares_the_newer,
    no_search_goes_in_a_circle,
    only_the_holder_answers,
)
from tests.simulate.counters import BrokenPromiseError
from tests.simulate.under_way import Expired, Numbers, Registration, UnderWay

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from bus.kernel.peer.peer import Peer
    from bus.kernel.peer.relay import Relay as BusRelay
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.wire import Characteristics, Frame
    from bus.model.registration import RegistrationId
    from tests.kernel.search_invariants import Invariant
    from tests.simulate.process import SimProcess
    from tests.simulate.world import World

__all__ = ["TraceSink"]

_OF_THE_PAST: Final = (
    no_search_goes_in_a_circle,
    a_search_is_answered_once,
    only_the_holder_answers,
    an_elimination_spares_the_newer,
)
_OF_NOW: Final = tuple(each for each in SAFETY if each not in _OF_THE_PAST)


class TraceSink:
    """The frames sent so far, and the present state of the world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._marks: dict[SimProcess, object] = {}
        self._processes: dict[str, Process] = {}
        self._public: set[Registration] = set()
        self._deadlines: dict[RequestId, float] = {}  # by search
        self._numbers: Numbers = {}
        # True if the first sender of this answer to a search hosted the task.
        self._hosted: dict[tuple[RequestId, Registration], bool] = {}
        self._sought: list[tuple[RequestId, str]] = []
        self._answers: list[Answer] = []
        self._releases: list[Release] = []
        self._past = 0  # number of past events already checked
        self._known: dict[Entry, Hosted] = {}
        self._news = UnderWay(world, self._numbers)
        self._expired = Expired(world, self._deadlines)

    # Events.

    def sent(self, process: SimProcess, frame: Frame) -> None:
        """Record what a frame states about tasks."""
        match frame:
            case AddRelay(search=RequestId() as search, task=task):
                self._know(process, task)
                number = _plain(task.id)
                own = number[:2] == process.key and number in self._public
                self._hosted.setdefault((search, number), own)
            case AddRelay(task=task) | Search(sender=task) | Subscribe(subscriber=task):
                self._know(process, task)
            case _:
                pass

    def _know(self, process: SimProcess, task: Characteristics) -> None:
        number = _plain(task.id)
        if number[:2] == process.key:
            self._numbers[process.key, process.life, task.relay] = number

    def hears(
        self, process: SimProcess, link: int, frame: Frame | None
    ) -> list[Action]:
        """Let a process receive a frame; record it if the process accepted it."""
        note: Callable[[Peer], None]
        match frame:
            case Search():
                note = self._asked(process, frame)
            case AddRelay(search=RequestId() as search) if search in self._deadlines:
                note = self._answered(process, search, frame)
            case Eliminate() | Unrelay():
                note = self._left(process, frame)
            case _:
                return process.remote.receive(link, frame, self._world.now)
        known = process.remote.links.by_number.get(link)
        peer = None if known is None else known.peer
        counted = 0 if peer is None else peer.acks.controls_received
        actions = process.remote.receive(link, frame, self._world.now)
        if peer is not None and peer.acks.controls_received > counted:
            note(peer)
        return actions

    def _asked(self, process: SimProcess, frame: Search) -> Callable[[Peer], None]:
        own = frame.id in _searches(process)
        key = (frame.id, process.name if own else _incarnation(process))
        kept = process.remote.resolver.ledger.get(frame.id)

        def note(_: Peer) -> None:
            # A process that has answered a search, or received its end, may receive it
            # again on behalf of a process that was lost and has come back.
            if not kept and key in self._sought:
                self._sought.remove(key)
            self._sought.append(key)

        return note

    def _answered(
        self, process: SimProcess, search: RequestId, frame: AddRelay
    ) -> Callable[[Peer], None]:
        # Several slaves may answer a master that searches; it takes the first answer.
        taken = search in _searches(process) or not process.remote.topology.is_master
        request = process.remote.resolver.ledger.get(search)
        about: Hashable = search
        if request is not None and process.remote.resolver.anywhere.is_collected(
            request
        ):
            about = (search, frame.task.id.machine)  # each machine answers once

        def note(_: Peer) -> None:
            if taken and (search.machine, search.process) == process.key:
                hosted = self._hosted[search, _plain(frame.task.id)]
                self._answers.append(Answer(about, hosted))

        return note

    def _left(
        self, process: SimProcess, frame: Eliminate | Unrelay
    ) -> Callable[[Peer], None]:
        before = _standing(process)

        def note(peer: Peer) -> None:
            if isinstance(frame, Eliminate):
                said: object = _plain(frame.id)
            else:
                key = (peer.key, peer.session.incarnation, frame.relay)
                said = self._numbers.get(key)
            gone = before - _standing(process)
            self._releases += [Release(each, said) for each in gone]

        return note

    def ended(self, process: SimProcess) -> None:
        """Record that a process has ended."""
        self._processes.pop(process.name, None)

    # Invariants.

    def step(self, process: SimProcess) -> None:
        """Check the invariants after a step of a process."""
        mark = _mark(process)
        if self._marks.get(process) != mark:
            self._marks[process] = mark
            self._processes[process.name] = self._seen(process)
            past = len(self._sought) + len(self._answers) + len(self._releases)
            self._hold(_OF_NOW if past == self._past else SAFETY)
            self._past = past

    def rest(self) -> None:
        """Check the safety invariants, and those that hold at rest."""
        self._look_again(at_rest=True)
        self._all((*SAFETY, *AT_REST))

    def _hold(self, invariants: tuple[Invariant, ...]) -> None:
        try:
            self._all(invariants)
        except AssertionError:
            # A change that the mark does not cover, such as time, may be the reason.
            self._look_again()
            self._all(invariants)

    def _look_again(self, *, at_rest: bool = False) -> None:
        for process in self._world.living():
            self._processes[process.name] = self._seen(process, at_rest=at_rest)

    def _all(self, invariants: tuple[Invariant, ...]) -> None:
        snapshot = Snapshot(
            self._processes,
            news=self._news,
            expired=self._expired,
            sought=self._sought,
            answers=self._answers,
            releases=self._releases,
        )
        for each in invariants:
            try:
                each(snapshot)
            except AssertionError as error:
                raise BrokenInvariantError(f"{each.__name__}: {error}") from None

    def _seen(self, process: SimProcess, *, at_rest: bool = False) -> Process:
        """Return the state of a process; at rest with the users of each relay."""
        remote = process.remote
        hosted = [
            self._known.get(each) or self._meet(each)
            for each in process.manager.table
            if not each.remote
        ]
        for request in remote.resolver.own.by_name.values():
            self._sought_by(process, request.frame.id, request.deadline)
        everybody = frozenset(each.id for each in hosted)
        return Process(
            hosted=tuple(hosted),
            relays=tuple(
                Relay(
                    _plain(relay.entry.id),
                    None if relay.provisional else peer.key,
                    _made_for(process, relay) if at_rest else everybody,
                    lingers=_lingers(process, peer, relay),
                )
                for peer in remote.topology.peers.values()
                for relay in peer.relays.values()
                if not (at_rest and self._stays(process, peer, relay))
            ),
            ledger=tuple(
                LedgerEntry(each.frame.id, frozenset(map("/".join, each.forwarded_to)))
                for each in remote.resolver.ledger.all()
                if each.origin is not None
            ),
            searches=_searches(process),
        )

    def _stays(self, process: SimProcess, peer: Peer, relay: BusRelay) -> bool:
        """Whether a relay stays because its link is needed for something else."""
        whose = self._world.processes[peer.key]
        if relay.entry.id not in {each.id for each in whose.manager.table}:
            return False
        return peer.joined or any(
            _made_for(here, each)
            for here, there in ((process, whose.key), (whose, process.key))
            for each in here.remote.topology.peers[there].relays.values()
        )

    def _meet(self, task: Entry) -> Hosted:
        public = task.visibility is Visibility.PUBLIC
        number = _plain(task.id)
        if public:
            self._public.add(number)
        known = self._known[task] = Hosted(number, task.name, public, task.id.machine)
        return known

    def _sought_by(
        self, process: SimProcess, search: RequestId, deadline: float | None
    ) -> None:
        if search not in self._deadlines:
            assert deadline is not None
            self._deadlines[search] = deadline
            self._sought.append((search, process.name))


class BrokenInvariantError(BrokenPromiseError):
    """An invariant of searches and relays does not hold."""


def _plain(number: RegistrationId) -> Registration:
    return (number.machine, number.process, number.number)


def _standing(process: SimProcess) -> set[Registration]:
    peers = process.remote.topology.peers.values()
    return {_plain(each.entry.id) for peer in peers for each in peer.relays.values()}


def _searches(process: SimProcess) -> frozenset[RequestId]:
    own = process.remote.resolver.own.by_name.values()
    return frozenset(request.frame.id for request in own)


def _incarnation(process: SimProcess) -> str:
    """Return a process as its peers identify it; after a rejoin it is another one."""
    sessions = [peer.session for peer in process.remote.topology.joined()]
    return f"{process.name} {[(each.epoch, each.their_epoch) for each in sessions]}"


def _made_for(process: SimProcess, relay: BusRelay) -> frozenset[Registration]:
    """Return the tasks that use a relay, subscribe to its task, or await an answer."""
    hearers = {each.entry for each in process.remote.relays.audience(relay)}
    asked = {source for source, _ in relay.asked}
    everybody = relay.users | hearers | asked
    return frozenset(
        _plain(each.id) for each in everybody if each in process.manager.table
    )


def _lingers(process: SimProcess, peer: Peer, relay: BusRelay) -> bool:
    """Whether a relay is certain to be released in time.

    If a relay is provisional and in use, the process that receives its messages
    reports the departure of the task.
    """
    if peer.session.link is None:
        return True
    written = relay.provisional and relay.busy
    return written or process.remote.relays.may_expire(relay)


def _mark(process: SimProcess) -> object:
    """Return a value that differs after each step that matters to the invariants.

    Frames sent to other processes do not count: news under way can only excuse a state.
    """
    remote = process.remote
    return (
        process.life,
        len(process.manager.table),
        len(remote.resolver.ledger),
        [request.frame.id.number for request in remote.resolver.own.by_name.values()],
        [
            (len(peer.relays), peer.session.link, peer.acks.controls_received)
            for peer in remote.topology.peers.values()
        ],
    )
