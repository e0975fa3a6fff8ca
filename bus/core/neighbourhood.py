"""`Neighbourhood`: what one process decides about all others; it does nothing itself.

Events are calls: a link was made, a frame came, a link was lost, time has passed, a
task of this process came or left. What is to be done comes back as `actions`; what is
to be said collects, and is put on the links by `flush`, so that what waits together
travels together (BUS-CHAN-6).

Whoever drives it

1. holds one lock around each call, the same as for the `ProcessManager`;
2. does the actions after letting go of it, in order;
3. calls `flush` when it has no more events, `tick` when `next_deadline` has come;
4. puts frames on a link in order, and tells of its loss after all that came by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.correspondence import Correspondence
from bus.core.directory import Directory
from bus.core.disuse import Disuse
from bus.core.finder import Finder
from bus.core.intake import Intake
from bus.core.keep_alive import KeepAlive
from bus.core.links import Links
from bus.core.listening import Listening
from bus.core.neighbours import Neighbours
from bus.core.parting import Parting
from bus.core.relays import Relays
from bus.core.routing_table import Visibility
from bus.core.tidings import Tidings
from bus.core.wire import (
    Ack,
    Batch,
    Bye,
    Error,
    FrameType,
    Hello,
    LinkKind,
    OpenStream,
    Ping,
    Pong,
    Reason,
    Refused,
    Role,
    Welcome,
)
from bus.errors import WireError
from bus.events import BusReason
from bus.rights import UNRESTRICTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bus.core.actions import Action
    from bus.core.interests import Interest
    from bus.core.limits import Limits
    from bus.core.link import Link
    from bus.core.peer import Key, Peer
    from bus.core.process_manager import ProcessManager
    from bus.core.receipts import Taken
    from bus.core.routing_table import Entry
    from bus.core.trace import Trace, Witness
    from bus.core.wire import Characteristics, Frame, Identity
    from bus.message import Incoming
    from bus.payload import Payload
    from bus.rights import Credentials

__all__ = ["Neighbourhood"]

_WORDS_MAX: Final = 256  # characters about what was wrong with a frame
_REPEAT_S: Final = 0.25  # before it is asked again for who was heard and is lost


class Neighbourhood:
    """All other processes, as one process sees them.

    Args:
        me: who this process is; its role may change by `become_master`.
        manager: its own tasks; knows this from now on.
        place: what hosts relays, for who posts to them; stand_in: makes what each is to
          these.
        limits: bounds and times.
        nonce: makes what tells rivals apart (AMO-17).
        addresses: where it listens, for its own machine and for others.
        master: where the master of its machine listens.
        complain: takes a line about what another process did wrong, and keeps it: it
          is called inside the lock.
        witness: told what happens here, inside the lock, too; None if nothing is
          recorded.
    """

    def __init__(
        self,
        me: Identity,
        manager: ProcessManager,
        *,
        place: object,
        limits: Limits,
        nonce: Callable[[], int],
        addresses: tuple[tuple[str, ...], tuple[str, ...]],
        master: tuple[str, ...],
        stand_in: Callable[[Characteristics], object] = lambda _: None,
        complain: Callable[[str], object] = lambda _: None,
        witness: Witness | None = None,
    ) -> None:
        self.neighbours: Final = Neighbours(
            me,
            limits=limits,
            nonce=nonce,
            addresses=addresses,
            complain=complain,
            witness=witness,
        )
        self.neighbours.lose = self.lose
        self.neighbours.part = self.part
        self.manager: Final = manager
        self.directory: Final = Directory(self.neighbours, manager)
        self.relays: Final = Relays(self.neighbours, manager, place, stand_in)
        self.correspondence: Final = Correspondence(
            self.neighbours, manager, self.relays
        )
        self.intake: Final = Intake(self.neighbours, self.relays, self.correspondence)
        self.finder: Final = Finder(
            self.neighbours, manager, self.directory, self.relays
        )
        self.disuse: Final = Disuse(self.neighbours, self.relays)
        self.listening: Final = Listening(
            self.neighbours, manager, self.relays, self.disuse
        )
        self.links: Final = Links(
            self.neighbours, self.relays, self.correspondence, master
        )
        self.parting: Final = Parting(
            self.neighbours,
            self.relays,
            self.correspondence,
            self.listening,
            self.links,
        )
        self._tidings: Final = Tidings(
            self.neighbours,
            directory=self.directory,
            relays=self.relays,
            correspondence=self.correspondence,
            intake=self.intake,
            finder=self.finder,
            listening=self.listening,
            disuse=self.disuse,
            parting=self.parting,
        )
        self.keep_alive: Final = KeepAlive(self.neighbours, self.links)
        self._repeat_at: float | None = None
        manager.remote = self

    # What the manager of this process tells.

    def claim(self, name: str) -> list[Action]:
        """Let a task of this process take a name, from a relay if that has it.

        Raises:
            NameTakenError: another process has it.
        """
        self.directory.check(name)
        present = self.manager.table.find(name)
        if present is not None:
            self.relays.supersede(present)
        return self._drained()

    def named(self, entry: Entry) -> None:
        """Search no more for who is found now."""
        self.finder.named(entry)

    def registered(self, task: Entry, now: float) -> list[Action]:
        """Tell those who have to know, or want to, that a public task is here."""
        self.directory.registered(task, now)
        self._introduce([task])
        self.finder.registered(task, now)
        self.listening.registered(task, now)
        return self._drained()

    def _introduce(self, tasks: Iterable[Entry]) -> None:
        """Tell the master how public tasks are reached, if it is to know at once."""
        master = self.neighbours.master()
        if master is not None and self.neighbours.limits.eager_relays:
            for task in tasks:
                master.announce(self.relays.known(task), task.relay)

    def leaves(self, task: Entry, *, final: bool) -> list[Action]:
        """Tell others that a task of this process is found no more."""
        if task.visibility is Visibility.PUBLIC or task.relay:
            self.directory.left(task, final=final)
        return self._drained()

    def left(self, entry: Entry, now: float, *, final: bool) -> list[Action]:
        """Tell others what a task took, which is emptied now; seek for what it left."""
        if not entry.remote:
            self.disuse.left(entry)  # before relays forget whom they serve
            self.correspondence.left(entry, final=final)
            self.finder.left(entry, now)
        if self.manager.table.find(entry.name) is None:
            self.seek(entry.name, now)
        return self._drained()

    def seek(self, name: str, now: float) -> None:
        """Search for a name that messages wait for."""
        self.finder.seek(name, now)

    def review(self, now: float) -> None:
        """End searches that nobody waits for."""
        self.finder.review(now)

    def subscribed(self, interest: Interest) -> None:
        """Hear tasks of other processes, too."""
        self.listening.subscribed(interest)

    def confirm(
        self, interest: Interest, settled: Callable[[], object]
    ) -> list[Action]:
        """Call a function once all processes have learned of a subscription."""
        self.listening.confirm(interest, settled)
        return self._drained()

    def unsubscribed(self, interest: Interest) -> None:
        """Hear them no more."""
        self.listening.unsubscribed(interest)

    def watched(self, interest: Interest) -> None:
        """See tasks of other processes, too."""
        self.listening.subscribed(interest, presence=True)

    def unwatched(self, interest: Interest) -> None:
        """See them no more."""
        self.listening.unsubscribed(interest, presence=True)

    # Messages of tasks of this process.

    def post(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        """Send commands to what stands for a task; see `Correspondence.post`."""
        self.correspondence.post(entry, messages)

    def open(self, entry: Entry, messages: Iterable[Incoming]) -> None:
        """Let what stands for a task send; first what waited for it."""
        self.correspondence.open(entry, messages)

    def answer(
        self, question: Incoming, payload: Payload = None, *, error: str | None = None
    ) -> bool:
        """Send an answer to what came over a link; False if nobody wants it."""
        return self.correspondence.answer(question, payload=payload, error=error)

    def notify(
        self,
        source: Entry,
        payload: Payload,
        question: int = 0,
        trace: Trace | None = None,
        gap: int = 0,
        *,
        heard: bool = True,
    ) -> None:
        """Send a notification to all processes that have a subscriber to its sender.

        heard: whether a subscriber in this process has got it.
        """
        hearers = self.listening.hearers(source)
        if not (hearers or heard):
            source.unheard += 1
        self.correspondence.notify(hearers, source, payload, question, trace, gap)

    def post_alike(
        self,
        entry: Entry,
        source: Entry,
        payloads: Sequence[bytes],
        size: int,
        deadline: float | None,
    ) -> None:
        """Send commands that differ in nothing but their bytes to a relay."""
        self.correspondence.post_alike(entry, source, payloads, size, deadline)

    def extracted(self, messages: Iterable[Taken], now: float) -> None:
        """Note that tasks took, or dropped, what came over links."""
        self.intake.extracted(messages, now)

    # Links.

    @property
    def stands(self) -> bool:
        """Whether it is among the others: it is master, or has a link with it."""
        if self.neighbours.is_master:
            return True
        master = self.neighbours.master()
        return master is not None and master.session.ready

    def dial_master(self) -> list[Action]:
        """Look for the master of this machine, again and again until there is one."""
        self.links.dial_machine(self.neighbours.me.machine)
        return self._drained()

    def machine_known(self, machine: str, addresses: tuple[str, ...]) -> list[Action]:
        """Note where the master of another machine listens; the lower one dials."""
        self.links.machine_known(machine, addresses)
        return self._drained()

    def become_master(self) -> list[Action]:
        """Be master from now on, since the one that was is lost (OPEN-1)."""
        for peer in self.neighbours.joined():
            self.lose(peer, peer.since)
        self.neighbours.role = Role.MASTER
        self.links.redial.clear()
        self.directory.become_master()
        return self._drained()

    def dialled(
        self,
        number: int,
        kind: LinkKind,
        key: Key,
        now: float,
        credentials: Credentials = UNRESTRICTED,
    ) -> list[Action]:
        """Take a link that was made, as `Dial` asked for it: greet.

        credentials: of who is at its other end.
        """
        self.links.dialled(number, kind, key, now, credentials)
        return self._drained()

    def accepted(
        self, number: int, now: float, credentials: Credentials = UNRESTRICTED
    ) -> list[Action]:
        """Take a link that another process has made."""
        self.links.accepted(number, now, credentials)
        return self._drained()

    def dial_failed(self, kind: LinkKind, key: Key, now: float) -> list[Action]:
        """Note that nobody listens there: that process is gone, if it ever was."""
        self.links.not_there(kind, key, now)
        return self._drained()

    def lost(
        self, number: int, now: float, *, torn: bool = False, why: str = ""
    ) -> list[Action]:
        """Note that a link is gone; all that came by it was told before.

        torn: whether the other side has said no good-bye: its process died.
        why: what it has complained of with its good-bye; then it is still there.
        """
        link = self.links.by_number.pop(number, None)
        if link is not None:
            parted = BusReason.DIED if torn else BusReason.LEFT
            if why:
                parted = BusReason.GIVEN_UP
                self.neighbours.complain(
                    f"the link with {link.who} was closed at the other end: {why}"
                )
            self.links.lost(link, now, parted)
        return self._drained()

    def receive(self, number: int, frame: Frame | None, now: float) -> list[Action]:
        """Take a frame; None for one that was to be skipped (BUS-WIRE-3)."""
        link = self.links.by_number.get(number)
        if link is None or frame is None:
            return []
        if link.peer is not None:
            self.keep_alive.heard(link.peer, now)
        try:
            self._receive(link, frame, now)
        except WireError as error:
            self._violated(link, error, now)
        return self._drained()

    def malformed(self, number: int, error: WireError, now: float) -> list[Action]:
        """Close a link by which something came that is no frame (BUS-WIRE-4)."""
        link = self.links.by_number.get(number)
        if link is not None:
            self._violated(link, error, now)
        return self._drained()

    def _violated(self, link: Link, error: WireError, now: float) -> None:
        words = Error(reason=Reason.WIRE, text=str(error)[:_WORDS_MAX])
        self.neighbours.complain(f"the link with {link.who} is closed: {error}")
        self.neighbours.send(link.id, words)
        self.links.drop(link, now)

    def flush(self, now: float) -> list[Action]:
        """Put on the links all that is to be said; end those that hear nothing."""
        silent: list[tuple[Link, str]] = []
        most = self.neighbours.limits.backlog_frames
        for peer in self.neighbours.peers.values():
            link = peer.session.link
            if link is not None:
                if peer.audience.queue:
                    # What they waited for may have gone elsewhere (BUS-MSG-15).
                    self.correspondence.pump(peer)
                for frame in peer.session.flush(now):
                    self.neighbours.send(link, frame)
                if peer.session.ready and peer.session.backlog > most:
                    words = f"more than {most} frames are not acknowledged"
                    silent.append((self.links.by_number[link], words))
                elif peer.flooded:
                    peer.flooded = False  # who comes back may read them now
                    words = "more answers wait than may"
                    silent.append((self.links.by_number[link], words))
        for each, words in silent:
            self._violated(each, WireError(words), now)
        return self._drained()

    # Time.

    def tick(self, now: float) -> list[Action]:
        """Give up what has taken too long, close what nobody needs, try again."""
        self.intake.expire(now)
        self.correspondence.expire(now)
        self.finder.review(now)
        for link in list(self.links.by_number.values()):
            late_at = self.links.late_at(link)
            if late_at is not None and late_at <= now:
                self.links.drop(link, now)
        for peer in list(self.neighbours.peers.values()):
            if peer.session.link is None and self._lost_at(peer) <= now:
                self.lose(peer, now)
            elif self.parting.is_due(peer, now):
                self.parting.ask(peer)
        for machine, at in list(self.links.redial.items()):
            if at <= now:
                del self.links.redial[machine]
                self.links.dial_machine(machine)
        if self._repeat_at is not None and self._repeat_at <= now:
            self._repeat_at = None
            self.listening.repeat()
        self.keep_alive.tick(now)
        self.disuse.tick(now)
        self.directory.tick(now)
        self.listening.tick(now)
        self.parting.review(now)
        return self._drained()

    def next_deadline(self, now: float) -> float | None:
        """Return when `tick` has something to do, None if never."""
        self.parting.review(now)
        self.disuse.review(now)
        self.directory.review(now)
        self.listening.review(now)
        times = [
            self._repeat_at,
            self.directory.next_deadline(),
            self.listening.next_deadline(),
            self.disuse.next_deadline(),
            self.finder.next_deadline(),
            self.intake.next_deadline(),
            self.keep_alive.next_deadline(),
            *self.links.redial.values(),
            *map(self.links.late_at, self.links.by_number.values()),
        ]
        for peer in self.neighbours.peers.values():
            session = peer.session
            times.append(session.next_ack(now))
            if session.link is None:
                times.append(self._lost_at(peer))
            elif peer.idle_since is not None:
                times.append(self.parting.due_at(peer))
            for relay in peer.relays.values():
                if relay.queue or relay.asked:
                    times.append(relay.next_deadline())
                elif relay.provisional:
                    times.append(self.relays.forgotten_at(relay))
        return min([at for at in times if at is not None], default=None)

    def acknowledge(self, now: float) -> list[Action]:
        """Send due and later acknowledgements now; this process is about to leave."""
        for peer in self.neighbours.peers.values():
            if peer.session.ack_at is not None:
                peer.session.repeat_ack()
        return self.flush(now)

    @property
    def acks_due(self) -> bool:
        """Whether `next_deadline` is soon, since something is to be acknowledged."""
        return any(peer.session.awaits_ack for peer in self.neighbours.peers.values())

    def _lost_at(self, peer: Peer) -> float:
        limits = self.neighbours.limits
        wait = limits.relink_timeout_s if peer.bound else limits.connect_timeout_s
        return peer.since + wait

    # Frames.

    def _receive(self, link: Link, frame: Frame, now: float) -> None:
        peer = link.peer
        if peer is not None and peer.session.link != link.id:
            return  # another link is listened to; what comes here is said again there
        kind = FrameType.MSG if isinstance(frame, Batch) else frame.type
        link.step(kind)
        match frame:
            case Hello():
                self.links.greeted(link, frame, now)
                return
            case Welcome():
                self.links.identify(link, frame, now)
                return
            case Refused():
                self.links.refused(link, frame, now)
                return
            case OpenStream():
                self._opened(link, frame, now)
                return
        assert peer is not None
        match frame:
            case Batch():
                self.intake.arrived(peer, frame, now)
                self.correspondence.acknowledged_by(peer, frame)
            case Ack():
                self.correspondence.acknowledged(peer, frame)
            case Ping():
                peer.session.say(Pong(number=frame.number))
            case Pong():
                self.directory.ponged(peer, frame.number)
                self.listening.ponged(peer, frame.number)
            case Error(reason=Reason.WIRE):
                pass  # said of the link alone, so not counted
            case Bye():
                self.parting.asked(link, peer, now)
            case _:
                peer.session.count()
                self._tidings.told(peer, frame, now)

    def _drained(self) -> list[Action]:
        actions, self.neighbours.todo = self.neighbours.todo, []
        return actions

    # Links, from their first frame to their end.

    def _opened(self, link: Link, frame: OpenStream, now: float) -> None:
        peer = link.peer
        assert peer is not None
        session = peer.session
        if frame.incarnation != self.neighbours.me.incarnation:
            raise WireError(f"OPEN_STREAM is for incarnation {frame.incarnation}")
        if session.their_epoch is not None and frame.epoch > session.their_epoch:
            # It has given this process up, and knows nothing any more; nor does this.
            if peer.joined:
                self._lose_tasks(peer)
            self._forget(peer, now)
            session.reset()
            assert link.identity is not None
            self.links.is_up(peer, link.identity)
        self.intake.opened(peer, frame)
        self.listening.opened(peer)
        self.correspondence.pump(peer)
        if link.kind is LinkKind.SIGNALLING and not peer.joined:
            self._succeed(peer, now)
            peer.joined = True
            self.directory.joined(peer)
            self._introduce(self.directory.own())
            self.finder.joined(peer)
            self.listening.joined(peer)
        self.directory.opened(peer)

    def _succeed(self, peer: Peer, now: float) -> None:
        """Give up who was master where another process is now: there is one."""
        slave = self.neighbours.is_master and peer.machine == self.neighbours.me.machine
        for other in self.neighbours.joined():
            if other.machine == peer.machine and not slave:
                self.lose(other, now)

    # Processes.

    def lose(self, peer: Peer, now: float) -> None:
        """Give a process up: whoever comes back under its name is another one."""
        # Without a link so far, only the master knows whether the process lives.
        if peer.bound and self._lose_tasks(peer):
            self._repeat_at = now + _REPEAT_S
        self.part(peer, now)

    def _lose_tasks(self, peer: Peer) -> bool:
        """Report the tasks of a lost process as gone; return whether there were any."""
        gone = self.manager.far.lost(peer.key, peer.session.incarnation)
        self.neighbours.todo += gone
        return bool(gone)

    def part(self, peer: Peer, now: float) -> None:
        """Drop a process that is lost, or whose link is idle.

        If its link is idle, the tasks that the master has announced stay known.
        """
        link = self.links.by_number.get(peer.session.link or 0)
        if link is not None:
            self.links.hang_up(link)
        master = peer.joined
        self._forget(peer, now)
        self.neighbours.peers.pop(peer.key, None)
        if master and not self.neighbours.is_master:
            self.links.look_again(peer.machine, now)

    def _forget(self, peer: Peer, now: float) -> None:
        if peer.joined:
            self.directory.lost(peer)
        self.finder.lost(peer)
        self.listening.lost(peer, now)
        heard = any(map(self.relays.audience, peer.relays.values()))
        self.intake.lost(peer, now)
        self.correspondence.lose(peer)
        self.links.is_down(peer)
        if heard:
            self._repeat_at = now + _REPEAT_S
