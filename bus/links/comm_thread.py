"""`CommThread`: the one thread of a process that speaks with other processes.

It serves all links and empties the relays (BUS-CHAN-2, BUS-RELAY-2). What it does is
decided by `Neighbourhood`, under the exchange's lock, as is all that the manager
decides.

One round: take in what came by links and what tasks have posted, let all of it be
decided on at once, put on the links what is to be said. So what waits together travels
together, and a lone message leaves at once (BUS-CHAN-6).

Whatever is decided in another thread, links are touched by one thread at a time, mostly
this one: what is to be done with them waits in ``outbox``, in the order in which it
was decided. A thread of tasks that waits at a link does so, too: see `Bypass`.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from typing import TYPE_CHECKING, Final

from bus.address import Address
from bus.core.actions import Action, Dial, HangUp, Post, Reply, Resume, Send, Vacate
from bus.core.neighbourhood import Neighbourhood
from bus.core.routing_table import RegistrationId, Visibility
from bus.core.wire import pieces
from bus.links.arrivals import Arrivals
from bus.links.bypass import Bypass
from bus.links.complaints import Complaints
from bus.links.extractions import Extractions
from bus.links.frame_readers import FrameReaders
from bus.links.joining import Joining
from bus.links.lines import Lines
from bus.links.new_links import NewLinks
from bus.links.relay_host import Posted, RelayHost, Said
from bus.rights import UNRESTRICTED
from bus.threads.delivery import answer_of
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bus.config import BusConfig
    from bus.core.command_run import CommandRun
    from bus.core.limits import Limits
    from bus.core.routing_table import Entry
    from bus.core.tap import Tap
    from bus.core.wire import Identity
    from bus.links.frame_readers import Read
    from bus.links.lines import LinkBroker
    from bus.links.sleep import Sleep
    from bus.message import Incoming
    from bus.payload import Payload
    from bus.rights import Credentials
    from bus.threads.account import Account
    from bus.threads.exchange import Exchange
    from bus.threads.thread_manager import Request, ThreadManager
    from queuebroker.message_queue import MessageQueue

__all__ = ["CommThread"]

_log: Final = logging.getLogger("bus")

# At most so late is what is due seen to.
_REVIEW_S: Final = 0.005


def _no_refusal(_: MessageQueue) -> None:
    """Want every link."""


def _nobody_asked(_: MessageQueue) -> Credentials:
    """Let every process do everything."""
    return UNRESTRICTED


def _no_claim() -> None:
    """Leave it to others who is master."""


class CommThread:
    """The links of one process, and what comes and goes by them.

    Made, and then started, once. Methods are for any thread unless they say otherwise;
    it is the `bus.threads.comm.Comm` of its process.

    Args:
        exchange: that of its process.
        me: who the process is.
        config, limits: what the bus is configured to.
        nonce: makes what tells rivals apart (AMO-17).
        listens: where it lets others in. master: where the master of its machine does.
        sleep, refusal: see `Lines`.
        credentials, claim: see `NewLinks`. patient: see `Joining`.
        ended: called when it serves no link any more, whatever the reason.

    Attributes:
        joining: whether this process has found the others.
        inbox, outbox, watched: see `bus.links.bypass.Rounds`.
    """

    def __init__(
        self,
        exchange: Exchange,
        me: Identity,
        *,
        config: BusConfig,
        limits: Limits,
        nonce: Callable[[], int],
        listens: str,
        master: str,
        sleep: Sleep,
        refusal: Callable[[MessageQueue], str | None] = _no_refusal,
        credentials: Callable[[MessageQueue], Credentials] = _nobody_asked,
        claim: Callable[[], LinkBroker | None] = _no_claim,
        patient: bool = False,
        ended: Callable[[], object] = list,
    ) -> None:
        self._exchange: Final = exchange
        here = Address("audience", machine=me.machine, bus=me.bus)
        nobody = RegistrationId(me.machine, me.process, 0)
        self._host: Final = RelayHost(here, nobody, config, self.taken, self.command)
        self._complaints: Final = Complaints()
        self._lines: Final = Lines(
            self._host.inbox,
            self._host.ask,
            capacity=config.link_frames,
            timeout_s=limits.connect_timeout_s,
            sleep=sleep,
            refusal=refusal,
            backlog=(config.backlog_frames, config.backlog_bytes),
            given_up=self._given_up,
            turned_away=self._complaints.note,
        )
        self._when_ended: Final = ended
        # Taken by whoever is first: the thread, to serve, or who says that it shall
        # not.
        self._turn: Final = _sync.Lock()
        self.joining: Final = Joining(me, patient=patient)
        self._tap: Tap | None = None
        self.watched: bool = False
        self.remote: Final = Neighbourhood(
            me,
            exchange.manager,
            place=self._host,
            limits=limits,
            nonce=nonce,
            addresses=((listens,), (listens,)),
            master=(master,),
            stand_in=self._host.stand_in,
            complain=self._complaints.note,
            witness=exchange.witness,
        )
        self._new_links: Final = NewLinks(
            exchange,
            self.remote,
            self._lines,
            credentials=credentials,
            claim=claim,
            joining=self.joining,
        )
        self._readers: Final = FrameReaders(self._lines.cause, limits.message_bytes_max)
        self.audience: Final[Entry] = self._host.audience
        self.account: Final[Account] = self._host.account
        self._extractions: Final = Extractions(
            max(1, config.window // 4), max(1, config.window_bytes // 4)
        )
        self.inbox: Final = self._host.inbox
        self._bypass: Final = Bypass(
            exchange,
            self.remote,
            self._lines,
            rounds=self,
            wake=self._wake,
            soon=self._soon,
            midway=self._readers.midway,
            extractions=self._extractions,
            attend=self._attend,
        )
        self._thread: _sync.Thread | None = None
        # Until when to go on, and what to do then; None before `stop`.
        self._end_at: float | None = None
        self._then: Callable[[], object] = list
        # Whether another thread has something to be said; how often this one had.
        self._nudged: bool = False
        self._own_nudges: int = 0
        # Which other thread is in the place of this one; what went wrong there.
        self._substitute: int | None = None
        self._fault: Exception | None = None
        self.outbox: Final[deque[Send | HangUp | Dial]] = deque()
        self._arrivals: Final = Arrivals(
            messages_max=config.task_fifo_messages, bytes_max=config.task_fifo_bytes
        )
        # When the manager has something to do next, as it was when that was looked at;
        # when it is to be looked at again, if anything happens.
        self._due_at: float | None = None
        self._review_at: float = 0.0
        self._review_s: Final = min(config.ack_delay_s / 2, _REVIEW_S)
        # Whether nobody stands in for this thread any more; then, whether this looks no
        # more at what it is asked.
        self._left: bool = False
        self._ended: bool = False

    # Its life.

    def start(self, broker: LinkBroker, begin: Callable[[], list[Action]]) -> None:
        """Let others in at a broker, and serve until `stop`.

        begin: the first event, such as to look for a master.
        """
        self._exchange.comm = self
        self._new_links.let_in(broker)
        self._exchange.decide(lambda: self._begin(begin))

        def run() -> None:
            if self._turn.acquire(False):
                self._run()

        self._thread = _sync.Thread(target=run, name=f"{broker.name} comm", daemon=True)
        self._thread.start()

    def forestall(self) -> bool:
        """Let it not serve, since to start it failed; False if it does, and will end.

        Whoever starts a thread and is struck may not know whether it runs.
        """
        self.stop(_sync.monotonic(), list)
        if not self._turn.acquire(False):
            return False
        self._lines.close()
        return True

    def _begin(self, begin: Callable[[], list[Action]]) -> list[Action]:
        """Tell others of the tasks that are here, and ask what these have wanted."""
        now, manager = _sync.monotonic(), self._exchange.manager
        actions = begin()
        for name in manager.parked.waiting():
            self.remote.seek(name, now)
        for entry in manager.table:
            if entry.visibility is Visibility.PUBLIC:
                actions += self.remote.registered(entry, now)
            for interest in manager.subscriptions.of(entry):
                self.remote.subscribed(interest)
            for watch in manager.watches.of(entry):
                self.remote.watched(watch)
        return actions + self.remote.flush(now)

    def let_in(self, broker: LinkBroker) -> None:
        """Let others in at one more broker."""
        self._host.ask(lambda: self._new_links.let_in(broker))

    def decide(self, event: Callable[[], list[Action]]) -> None:
        """Let something be decided in this thread, after what was posted before."""
        self._host.ask(lambda: self._exchange.decide(event))
        if self._ended:
            self._do_what_is_left()

    def stop(self, until: float, then: Callable[[], object]) -> None:
        """End when no task is here and nothing under way, or at a point of the clock.

        then: called at the end, in this thread.
        """

        def end() -> None:
            self._end_at, self._then = until, then
            self._exchange.decide(lambda: self.remote.acknowledge(_sync.monotonic()))

        self._host.ask(end)

    def join(self) -> None:
        """Wait until it has ended."""
        assert self._thread is not None
        self._thread.join()

    @property
    def tap(self) -> Tap | None:
        """Notes the frames of all links; None while nobody listens (OPEN-12)."""
        return self._tap

    @tap.setter
    def tap(self, tap: Tap | None) -> None:
        self._tap = tap
        self.watched = tap is not None or self._ended

    # What the exchange wants.

    def nudge(self) -> None:
        """Let what was decided just now be said to others."""
        if self._in_turn():
            self._own_nudges += 1  # seen to in `_round`
        else:
            self._nudged = True
            self._wake()

    def command(self, command: Incoming) -> bool:
        """Send a command at once; False if it is to be posted as any other."""
        return self._bypass.command(command)

    def answer(self, question: Incoming, payload: Payload, error: str | None) -> None:
        """Send the answer to what came from another process."""
        try:
            if error is not None or not self._bypass.answer(question, payload):
                self._host.inbox.push(Said(question, payload, error))
        finally:
            question._to.order = object()

    def taken(self, message: Incoming) -> None:
        """Note that a task took, or dropped, a message, wherever it came from."""
        if message._receipt is not None:
            self._extractions.note(message)
            watched = message._receipt.peer.session.watched
            if self._extractions.is_due(watched=watched):
                self._wake()
        self._has_room(message._to, message._account)

    def reading(self, run: CommandRun) -> None:
        """Note that a task reads, or has read, of what came from another process."""
        if self._extractions.note_run(run) and not self._tells_itself(run._to.place):
            self._wake()
        self._has_room(run._to, run._account)

    def _tells_itself(self, place: ThreadManager | None) -> bool:
        """Whether a thread tells soon what its tasks have taken, or this one does."""
        if place is None or place.main or place.way is None:
            return False
        return self._extractions.awaited  # if it hangs in a callback

    def _has_room(self, entry: Entry, account: Account) -> None:
        # Not for each message that it takes: what is held back would come one by one.
        if self._arrivals.holds(entry) and account.roomy:
            self._exchange.decide(lambda: [Resume(entry)])

    def left(self, entry: Entry) -> None:
        """Note that a task has room, or has gone from its place."""
        if self._arrivals.holds(entry):
            self._exchange.decide(lambda: [Resume(entry)])

    def holds(self, entry: Entry) -> bool:
        """Whether anything is held back for a task that had no room for it."""
        return self._arrivals.holds(entry)

    def open(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        """Let a relay send; first what waited for its name."""

        def opened() -> list[Action]:
            if entry.place is self._host:
                self.remote.open(entry, messages)
            else:
                # It was given up since that was decided; this goes back with the rest.
                self._host.put_back(entry, messages)
            return self.remote.flush(_sync.monotonic())

        self._exchange.decide(opened)

    def do(self, action: Action) -> None:
        """Do what concerns other processes, or came from them; one at a time."""
        match action:
            case Post(entry, messages):
                if (place := entry.place) is not None:
                    self._bypass.show(messages[-1], place)
                self._arrivals.deliver(entry, messages)
            case Resume(entry):
                self._arrivals.resume(entry)
            case Reply():
                self._arrivals.answer(action.entry, answer_of(action))
            case Vacate(entry, messages, final):
                self._host.ask(lambda: self._vacate(entry, messages, final=final))
            case Send() | HangUp() | Dial():
                self.outbox.append(action)
                if not self._in_turn():
                    self._wake()
            case _:
                raise AssertionError(action)

    def report(self, text: str) -> None:
        """Put an error into the log, when this thread holds nothing."""
        self._complaints.report(text)
        self._soon()

    def _wake(self) -> None:
        # What it is woken for was noted before this; it notes that it sleeps, and then
        # looks for that. So one of the two sees the other, without a lock.
        arrived = self._host.inbox.arrived
        if arrived.asleep:
            with self._host.inbox.lock:
                arrived.wake_one()

    # The thread itself.

    def _run(self) -> None:
        self._host.ident = _sync.get_ident()
        try:
            while not self._leaves():
                self._lines.wait(self._due, self._deadline())
                with self._bypass.hold:
                    self._round()
                # Not under it: who waits for its links may hold what a handler wants.
                self._complaints.tell(_sync.monotonic())
        except Exception:
            _log.exception("a fault of the bus: this process leaves it")
            raise
        finally:
            self._left = True
            # Whatever happened, others shall not wait for a process that says nothing.
            self._lines.close()
            self._ended = self.watched = True
            self._when_ended()
            self._do_what_is_left()
            self._then()

    def _do_what_is_left(self) -> None:
        """Do what is asked at the end, or later; in whichever thread.

        Links that are handed over end; tasks that leave late are emptied.
        """
        _, requests = self._host.take()
        for request in requests:
            request.run()

    def _due(self) -> bool:
        """Whether there is anything to do but for what comes by links."""
        return bool(
            self._host.inbox.items
            or self.outbox
            or self._nudged
            or self._extractions.due
            or self._bypass.due
            or self._fault
        )

    def _soon(self) -> None:
        """See to it that this thread wakes within ``ack_delay_s``."""
        if not self._extractions.awaited:
            self._nudged = True
            self._wake()

    def _in_turn(self) -> bool:
        """Whether the calling thread is this one, or in its place."""
        return self._host.owned() or self._substitute == _sync.get_ident()

    def _deadline(self) -> float | None:
        """Return until when to sleep; note whether that is soon for what was taken.

        All deadlines are gone through now and then, not for each message of many; in
        between this thread wakes for that.
        """
        now, extractions = _sync.monotonic(), self._extractions
        look_at = extractions.look_at
        if now < self._review_at:
            extractions.awaited = self._end_at is None
            return _first(self._due_at, self._review_at, self._end_at, look_at)
        self._due_at = self._exchange.look(lambda: self._next_deadline(now))
        self._review_at = now + self._review_s
        return _first(self._due_at, self._end_at, look_at)

    def _next_deadline(self, now: float) -> float | None:
        parked = self._exchange.manager.parked.next_deadline()
        self._extractions.awaited = self._end_at is None and self.remote.acks_due
        return _first(self.remote.next_deadline(now), parked)

    def _leaves(self) -> bool:
        """Whether it is over; then nobody has anything in hand that is to be sent."""
        if self._end_at is None:
            return False
        with self._bypass.hold:
            self._left = self._over()
            return self._left

    def _over(self) -> bool:
        if self._end_at is None or self._due():
            return False
        if self._end_at <= _sync.monotonic():
            return True  # though a link may be full of what nobody reads (BUS-DEREG-12)
        return not self._lines.sending and self._exchange.look(self._quiet)

    def _quiet(self) -> bool:
        """Whether no task is here, and all of theirs was taken, and said to be."""
        if any(not entry.remote for entry in self._exchange.manager.table):
            return False
        return not any(
            peer.session.ack_at is not None
            or any(relay.queue or relay.unacked for relay in peer.all_relays())
            for peer in self.remote.neighbours.peers.values()
        )

    def _round(self) -> None:
        if self._fault is not None:
            raise self._fault
        # Before what was taken is looked at: who takes something later wakes this.
        self._nudged = self._extractions.awaited = False
        frames = [*self._bypass.take(), *self._lines.take()]
        posted, requests = self._host.take()
        now = _sync.monotonic()
        self._let_decide(frames, posted, requests, now)
        self._carry_out()
        self._lines.resume()
        self._host.review()
        if not self.joining.settled:
            self.joining.look(self.remote.links, stands=self.remote.stands)

    def _attend(self) -> None:
        """Do as much of a round, in the place of this thread, as cannot wait for it.

        What was read, and what was taken of that; all else is left to this thread.
        """
        if self._left or self._fault is not None:
            return
        self._substitute = _sync.get_ident()
        try:
            self._let_decide(self._bypass.take(), (), (), _sync.monotonic())
            self._send_first()  # a call: see `_sync.Lock`
            self._host.review()
        except Exception as fault:  # noqa: BLE001 # that thread leaves the bus by it
            self._fault = fault
        finally:
            self._substitute = None
        if self._due() or self._lines.sending or not self.joining.settled:
            self._wake()
        self._soon()  # for what is due at some time from now on

    def _send_first(self) -> None:
        while self.outbox and type(self.outbox[0]) is Send:
            self._carry_out(1)

    def _let_decide(
        self,
        frames: Iterable[tuple[int, bytes | None]],
        posted: Iterable[Posted],
        requests: Sequence[Request],
        now: float,
    ) -> None:
        """Let all that happened be decided on, and do what that wants done."""
        came = [(number, self._readers.read(number, data)) for number, data in frames]
        own_nudges = self._own_nudges
        self._exchange.decide(lambda: self._decide(came, posted, now))
        for request in requests:
            request.run()
        # One nudge is for that decision. More are for what was decided while actions
        # were done, as when a task is cut off; that is to be said at once, too.
        if requests or self._own_nudges > own_nudges + 1:
            self._exchange.decide(lambda: self.remote.flush(now))

    def _decide(
        self,
        came: Iterable[tuple[int, Read]],
        posted: Iterable[Posted],
        now: float,
    ) -> list[Action]:
        """Let the manager decide on all that happened; see `Neighbourhood`."""
        remote = self.remote
        actions: list[Action] = []
        tap = self._tap
        for number, read in came:
            if tap is not None and read.frame is not None:
                tap.came(number, read.frame)
            if read.lost:
                actions += remote.lost(number, now, torn=read.torn, why=read.why)
            elif read.error is not None:
                actions += remote.malformed(number, read.error, now)
            else:
                actions += remote.receive(number, read.frame, now)
        if taken := self._extractions.take(now):
            remote.extracted(taken, now)
        self._host.pass_on(posted, remote)
        # As of before all this; what is due by then is seen to in the next round. In
        # this thread, which looks again then.
        late = self._due_at is not None and self._due_at <= now
        if late and self._host.owned():
            actions += self._exchange.manager.expire(now)
            actions += remote.tick(now)
            self._review_at = 0.0  # what was due is not any more
        return actions + remote.flush(now)

    def _vacate(
        self, entry: Entry, messages: Sequence[Incoming], *, final: bool
    ) -> None:
        """Give back what a relay has left, and then what was posted to it since."""
        unread = [*self._host.unopened(entry), *messages, *self._host.strays(entry)]
        now = _sync.monotonic()
        manager = self._exchange.manager
        self._exchange.decide(lambda: manager.left(entry, unread, now, final=final))

    def _carry_out(self, most: float = math.inf) -> None:
        """Do with links what was decided, in that order; no more than so much."""
        tap, done = self._tap, 0
        while self.outbox and done < most:
            done += 1
            match self.outbox.popleft():
                case Send(link, frame):
                    if tap is not None:
                        tap.goes(link, frame)
                    for piece in pieces(frame):
                        self._lines.send(link, piece)
                case HangUp(link):
                    self._lines.hang_up(link)
                    self._readers.forget(link)
                case Dial() as dial:
                    self._new_links.dial(dial)

    def _given_up(self, number: int, why: str) -> None:
        link = self.remote.links.by_number.get(number)
        if link is not None:
            self._complaints.note(f"the link with {link.who} is given up: {why}")


def _first(*times: float | None) -> float | None:
    return min((each for each in times if each is not None), default=None)
