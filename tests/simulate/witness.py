"""`Witness`: a simulated world as the invariants of searches and relays see it.

It notes what came by each link, and takes a `Snapshot` after each step that changed
anything they speak of: each process as it was after its own last such step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.routing_table import Visibility
from bus.core.wire import (
    AddRelay,
    Eliminate,
    RequestId,
    Search,
    Subscribe,
    Unrelay,
)
from tests.core.search_invariants import (
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
from tests.simulate.books import BrokenPromiseError
from tests.simulate.under_way import Expired, Numbers, Registration, UnderWay

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.actions import Action
    from bus.core.peer import Peer
    from bus.core.relay import Relay as BusRelay
    from bus.core.routing_table import Entry, RegistrationId
    from bus.core.wire import Characteristics, Frame
    from tests.core.search_invariants import Invariant
    from tests.simulate.process import SimProcess
    from tests.simulate.world import World

__all__ = ["Witness"]

_OF_THE_PAST: Final = (
    no_search_goes_in_a_circle,
    a_search_is_answered_once,
    only_the_holder_answers,
    an_elimination_spares_the_newer,
)
_OF_NOW: Final = tuple(each for each in SAFETY if each not in _OF_THE_PAST)


class Witness:
    """What was said so far, and how the world is now."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._marks: dict[SimProcess, object] = {}
        self._processes: dict[str, Process] = {}
        self._public: set[Registration] = set()
        self._deadlines: dict[RequestId, float] = {}  # of searches
        self._numbers: Numbers = {}
        # Whether who said first that this is the answer to a search hosted it.
        self._hosted: dict[tuple[RequestId, Registration], bool] = {}
        self._sought: list[tuple[RequestId, str]] = []
        self._answers: list[Answer] = []
        self._releases: list[Release] = []
        self._past = 0  # how much of it was looked at
        self._known: dict[Entry, Hosted] = {}
        self._news = UnderWay(world, self._numbers)
        self._expired = Expired(world, self._deadlines)

    # What happens.

    def sent(self, process: SimProcess, frame: Frame) -> None:
        """Note what a process says of tasks."""
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
        """Let a process take a frame, and note that if it listened."""
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
        heard = 0 if peer is None else peer.session.heard
        actions = process.remote.receive(link, frame, self._world.now)
        if peer is not None and peer.session.heard > heard:
            note(peer)
        return actions

    def _asked(self, process: SimProcess, frame: Search) -> Callable[[Peer], None]:
        own = frame.id in _searches(process)
        came = (frame.id, process.name if own else _incarnation(process))
        kept = process.remote.finder.ledger.get(frame.id)

        def note(_: Peer) -> None:
            # Who has answered it, or was told that it is over, can be asked again on
            # behalf of who was lost and has come back.
            if not kept and came in self._sought:
                self._sought.remove(came)
            self._sought.append(came)

        return note

    def _answered(
        self, process: SimProcess, search: RequestId, frame: AddRelay
    ) -> Callable[[Peer], None]:
        # Several slaves may tell a master that asks, which takes the first.
        taken = search in _searches(process) or not process.remote.neighbours.is_master

        def note(_: Peer) -> None:
            if taken and (search.machine, search.process) == process.key:
                hosted = self._hosted[search, _plain(frame.task.id)]
                self._answers.append(Answer(search, hosted))

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
        """Note that a process has ended."""
        self._processes.pop(process.name, None)

    # What must hold.

    def step(self, process: SimProcess) -> None:
        """See whether all is well after a step of a process."""
        mark = _mark(process)
        if self._marks.get(process) != mark:
            self._marks[process] = mark
            self._processes[process.name] = self._seen(process)
            past = len(self._sought) + len(self._answers) + len(self._releases)
            self._hold(_OF_NOW if past == self._past else SAFETY)
            self._past = past

    def rest(self) -> None:
        """See whether all has come that must come in the end."""
        self._look_again(at_rest=True)
        self._all((*SAFETY, *AT_REST))

    def _hold(self, invariants: tuple[Invariant, ...]) -> None:
        try:
            self._all(invariants)
        except AssertionError:
            # Something may have changed that leaves no mark, such as time.
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
        """Return a process as it is; at rest with what each relay is there for."""
        remote = process.remote
        hosted = [
            self._known.get(each) or self._meet(each)
            for each in process.manager.table
            if not each.remote
        ]
        for request in remote.finder.own.values():
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
                for peer in remote.neighbours.peers.values()
                for relay in peer.relays.values()
                if not (at_rest and self._stays(process, peer, relay))
            ),
            ledger=tuple(
                LedgerEntry(each.frame.id, frozenset(map("/".join, each.went)))
                for each in remote.finder.ledger.all()
                if each.origin is not None
            ),
            searches=_searches(process),
        )

    def _stays(self, process: SimProcess, peer: Peer, relay: BusRelay) -> bool:
        """Whether it is kept along with a link that is needed for something else."""
        whose = self._world.processes[peer.key]
        if relay.entry.id not in {each.id for each in whose.manager.table}:
            return False
        return peer.joined or any(
            _made_for(here, each)
            for here, there in ((process, whose.key), (whose, process.key))
            for each in here.remote.neighbours.peers[there].relays.values()
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
    peers = process.remote.neighbours.peers.values()
    return {_plain(each.entry.id) for peer in peers for each in peer.relays.values()}


def _searches(process: SimProcess) -> frozenset[RequestId]:
    own = process.remote.finder.own.values()
    return frozenset(request.frame.id for request in own)


def _incarnation(process: SimProcess) -> str:
    """Say who it is to those it is joined with: who joins again is another one."""
    sessions = [peer.session for peer in process.remote.neighbours.joined()]
    return f"{process.name} {[(each.epoch, each.their_epoch) for each in sessions]}"


def _made_for(process: SimProcess, relay: BusRelay) -> frozenset[Registration]:
    """Return who uses a relay, hears its task, or waits for it."""
    hearers = {each.entry for each in process.remote.relays.audience(relay)}
    asked = {source for source, _ in relay.asked}
    everybody = relay.users | hearers | asked
    return frozenset(
        _plain(each.id) for each in everybody if each in process.manager.table
    )


def _lingers(process: SimProcess, peer: Peer, relay: BusRelay) -> bool:
    """Whether it is released in time, whatever happens.

    What is known by hearsay and written to is told of by who gets that.
    """
    if peer.session.link is None:
        return True
    written = relay.provisional and relay.busy
    return written or process.remote.relays.forgotten_at(relay) is not None


def _mark(process: SimProcess) -> object:
    """Return what differs after each step that changed anything of this.

    What it says to others is not looked at: news under way only excuse what is there.
    """
    remote = process.remote
    return (
        process.life,
        len(process.manager.table),
        len(remote.finder.ledger),
        [request.frame.id.number for request in remote.finder.own.values()],
        [
            (len(peer.relays), peer.session.link, peer.session.heard)
            for peer in remote.neighbours.peers.values()
        ],
    )
