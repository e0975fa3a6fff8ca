"""`RemoteSubscriptions`: subscriptions and watches that cross process boundaries.

For each specification that a task here has subscribed to, one request takes the routes
of a search. Each process on these routes keeps the request until it is cancelled
(OPEN-16). A process with a matching task answers with that task. It sends each
notification once to each process that asked (BUS-RELAY-7), and that process looks up
its own subscribers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.errors import WireError
from bus.features.subscriptions.confirmations import Confirmations
from bus.features.subscriptions.frames import Subscribe, Unexport, Unsubscribe
from bus.features.subscriptions.local_subscriptions import subscriptions_of
from bus.features.subscriptions.matches import Matches
from bus.features.subscriptions.remote_presence import RemotePresence
from bus.kernel import constants
from bus.kernel.hooks import Hooks, Row
from bus.kernel.peer.peer import characteristics
from bus.kernel.searches.requests import HOPS, Request, Requests, check_passed_on
from bus.kernel.wire import AddRelay, Error, Pong, Reason
from bus.model.specification import Specification

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.features.subscriptions.interests import Interest
    from bus.kernel.peer.peer import Peer
    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.routing_table import Entry

__all__ = ["RemoteSubscriptions"]

_REPEAT_S: Final = 0.25  # delay before subscriptions are sent again after a loss


class RemoteSubscriptions:
    """The subscriptions and watches that one process has received or sent.

    A watch takes the same routes and is answered likewise, but no notifications are
    sent to it.

    ledger: all requests; matches: the tasks of this process that match them.
    own: the requests of this process, by machine, by pattern, and by whether they are
      for watches.
    presence: which tasks of other processes are present.
    """

    __slots__ = (
        "_adoption_alarm",
        "_confirmations",
        "_local",
        "_relays",
        "_remote",
        "_repeat_alarm",
        "_topology",
        "ledger",
        "matches",
        "own",
        "presence",
    )

    def __init__(self, remote: RemoteManager) -> None:
        self._remote: Final = remote
        self._topology: Final = remote.topology
        self._relays: Final = remote.relays
        self._local: Final = subscriptions_of(remote.manager)
        topology, manager = remote.topology, remote.manager
        self.presence: Final = RemotePresence(
            topology, manager.table, self._local.remote_tasks
        )
        self.ledger: Final[Requests[Subscribe]] = Requests(
            topology, frame_for=self._frame_for
        )
        self.matches: Final = Matches(topology, manager, remote.relays, self.ledger)
        self.own: Final[dict[tuple[str, str, bool], Request[Subscribe]]] = {}
        self._adoption_alarm: Final = topology.timers.alarm(self._check_all_adopted)
        self._confirmations: Final = Confirmations(topology)
        # When to send subscriptions again.
        self._repeat_alarm: Final = topology.timers.alarm(self._repeat)

    def begin(self) -> Hooks:
        """Extend the subscriptions and watches of the tasks here from now on.

        Return the functions that the remote manager calls.
        """
        local = self._local
        local.remote = self
        for subscription in local.subscriptions.all():
            self._topology.todo += self.on_subscribed(subscription)
        for watch in local.watches.all():
            self.on_watched(watch)
        return Hooks(
            frames=(
                Row(Subscribe, self.on_subscribe, self._check_subscribe),
                Row(Unsubscribe, self.on_unsubscribe),
                Row(Unexport, self.presence.on_unexport),
                Row(Reason.CLOSING, self.on_refusal),
            ),
            answers=(self.on_answer,),
            on_link=(self.on_link,),
            on_joined=(self.on_joined,),
            on_pong=(self.on_pong,),
            on_master=(self.on_master,),
            on_emptied=(self.on_emptied,),
            on_process_lost=(self.on_process_lost,),
            on_new_epoch=(self.on_new_epoch,),
            on_peer_lost=(self.on_peer_lost,),
            on_eliminated=(self.presence.on_eliminated,),
            peers=(self.matches.subscribed_peers,),
            wants=(self.matches.is_subscriber,),
        )

    # Tasks of this process; calls of `LocalSubscriptions`.

    def on_subscribed(
        self, interest: Interest, settled: Callable[[], object] | None = None
    ) -> list[Action]:
        """Send a request for the subscription of a task here, unless one was sent.

        settled: called once all processes have the subscription (BUS-MSG-18). If a
          request was sent before, it is sent again, so that the answers to it arrive
          before the confirmation.
        """
        request, is_new = self._own_request(interest, presence=False)
        if settled is not None:
            self._confirmations.begin(request, settled)
            request.forwarded_to.clear()
        if settled is not None or is_new:
            self.ledger.spread(request)
            self._confirmations.on_forwarded(request.frame.id)
        return self._topology.take_actions()

    def on_watched(self, interest: Interest) -> None:
        """Send a request for the watch of a task here, unless one was sent."""
        request, is_new = self._own_request(interest, presence=True)
        if is_new:
            self.ledger.spread(request)

    def _own_request(
        self, interest: Interest, *, presence: bool
    ) -> tuple[Request[Subscribe], bool]:
        """Return the request for an interest of a task here, and True if it is new."""
        machine = self._local.subscriptions.machine_of(interest)
        pattern = interest.specification.pattern
        request = self.own.get((machine, pattern, presence))
        if request is not None:
            return request, False
        task = self._relays.with_number(self._relays.proxies.sender(interest._entry))
        frame = Subscribe(
            id=self._topology.new_request(),
            specification=str(Specification(pattern, machine=machine)),
            subscriber=characteristics(task, self._topology.me.incarnation),
            presence=presence,
            hops=HOPS,
        )
        request = Request(frame, machine, pattern, None)
        self.own[machine, pattern, presence] = request
        self.ledger.keep(request)
        return request, True

    def on_ended(self, interest: Interest, *, presence: bool) -> None:
        """Cancel a request that no task here needs any more."""
        local = self._local
        interests = local.watches if presence else local.subscriptions
        machine = interests.machine_of(interest)
        pattern = interest.specification.pattern
        if interests.matching_exactly(machine, pattern):
            return
        request = self.own.get((machine, pattern, presence))
        if request is not None:
            self.ledger.end(request)
            self._confirmations.forget(request.frame.id)
            if not presence:
                self._remote.idle_relays.on_unsubscribed(machine, pattern)
            # Last: after an interrupt the call is repeated.
            del self.own[machine, pattern, presence]

    def on_registered(self, task: Entry, now: float) -> list[Action]:
        """Answer the requests of other processes that match a new task."""
        for request in self.ledger.all():
            if request.origin is not None and self.matches.is_match(request, task):
                self.matches.answer(request, task, now)
        return self._topology.take_actions()

    def on_emptied(self, task: Entry, _: float) -> None:
        """Note that the subscribers of a task here need no link for it any more."""
        for peer in self.matches.subscribed_peers(task):
            self._topology.on_use_ended(peer.key)

    def subscribers_of(self, task: Entry) -> int:
        """Return how many other processes have a subscriber to a task of this one."""
        return len(self.matches.subscribed_peers(task))

    # Requests of other processes.

    def _check_subscribe(self, peer: Peer, frame: Subscribe) -> Subscribe:
        check = self._remote.control_frames.check_asker
        return replace(frame, subscriber=check(peer, frame.id, frame.subscriber))

    def on_subscribe(self, peer: Peer, frame: Subscribe, now: float) -> None:
        """Keep a request, forward it, and answer with all matching tasks.

        A request is ignored if it exceeds the bound for all processes, or the bound for
        an asker that is not the peer (BUS-FLOW-1).

        Raises:
            WireError: it exceeds the bound for the peer itself.
        """
        asker = frame.id.machine, frame.id.process
        most = constants.SUBSCRIPTIONS_PER_PROCESS
        in_all = constants.SUBSCRIPTIONS_IN_ALL
        if not self.ledger.has_room(frame.id, most, in_all):
            full = self.ledger.count(asker) >= most
            if full and asker == peer.key:
                raise WireError(f"more than {most} subscriptions are requested")
            many = f"{most} per process" if full else f"{in_all} in all"
            self._topology.complain(
                f"a subscription of {'/'.join(asker)} to {frame.specification!r}"
                f" is rejected: the limit is {many}"
            )
            return
        specification = Specification.parse(frame.specification)
        machine = specification.machine or peer.machine
        own = self._topology.me.machine
        if asker == peer.key and machine != own and not peer.rights.whole:
            self._topology.complain(
                f"{peer.name} may not subscribe to {frame.specification!r}: "
                "access is denied"
            )
            return
        # A repeated request is forwarded again: a process on its route may have dropped
        # it.
        pong, frame = Pong(number=frame.confirm), replace(frame, confirm=0)
        request = Request(frame, machine, specification.pattern, peer)
        if pong.number:
            settled = partial(peer.session.send_link_frame, pong)
            self._confirmations.begin(request, settled)
        self.ledger.keep(request)
        self.ledger.spread(request)
        for task in self._remote.manager.table.public():
            if not task.remote and self.matches.is_match(request, task):
                self.matches.answer(request, task, now)
        self._topology.todo += self._local.review_subscribers()
        self._confirmations.on_forwarded(frame.id)

    def on_unsubscribe(self, peer: Peer, frame: Unsubscribe, _: float) -> None:
        """Drop a request that its asker cancels."""
        request = self.ledger.get(frame.id)
        if request is not None and request.origin is peer:
            self._end(request)

    def on_answer(self, peer: Peer, frame: AddRelay, now: float) -> bool:
        """Handle an answer, or forward it; False if its request is unknown."""
        assert frame.search is not None
        request = self.ledger.get(frame.search)
        if request is None:
            return False
        task, origin = frame.task, request.origin
        meant = request.specification.matches(task.name)
        if not meant or task.id.machine != request.machine:
            raise WireError(f"{task.name!r} is not an answer to {request.name!r}")
        if origin is not None:
            if request.asker == origin.key:
                if not origin.rights.may_subscribe(task.name):
                    return True
                if not origin.rights.may_command(task.name):
                    frame = replace(frame, task=replace(task, closed=True))
            check_passed_on(frame, origin)
            self.presence.on_passed_on(task)
            origin.session.send_control(frame)
            return True
        address = self._topology.address(task.id.machine, task.name)
        self.presence.on_answer(peer, task, address, now)
        if not request.frame.presence:
            self._relays.on_found(peer, frame, None, now, address)
        return True

    # Peers.

    def on_link(self, peer: Peer, _: float) -> None:
        """Introduce to a peer, on its own link, the tasks that it subscribes to.

        The peer drops provisional relays, since their tasks may have deregistered.
        """
        for task in self.matches.subscribed_tasks(peer):
            known = self._relays.with_number(task)
            peer.announce(known, known.relay)
        for number, confirm in self._confirmations.unanswered(peer):
            # The confirmation may have been on the link that was lost.
            request = self.ledger.get(number)
            assert request is not None
            peer.session.send_control(replace(_passed_on(request), confirm=confirm))

    def on_pong(self, peer: Peer, number: int, _: float) -> None:
        """Note the confirmation of a subscription, if the number belongs to one."""
        self._confirmations.on_pong(peer, number)

    def on_joined(self, peer: Peer, _: float) -> None:
        """Send a newly joined peer the requests that it has not received."""
        self.ledger.offer(peer)

    def on_master(self, now: float) -> None:
        """Note that this process has become master."""
        self._confirmations.on_master(now)

    def on_process_lost(self, peer: Peer, now: float) -> None:
        """Report the departure of the tasks of a lost process."""
        if self.presence.on_process_lost(peer, now):
            self._repeat_alarm.at = now + _REPEAT_S

    def on_new_epoch(self, peer: Peer, now: float) -> None:
        """Doubt the tasks that a peer has announced, before it announces them again."""
        if peer.joined:
            self.presence.on_process_lost(peer, now)

    def on_peer_lost(self, peer: Peer, now: float) -> None:
        """Drop the requests of a lost process; adopt subscriptions that it forwarded.

        Each adopted request is checked at once: the asker may have cancelled it, and
        the lost process may not have forwarded the cancellation.
        """
        for request in self.ledger.all():
            if request.origin is peer:
                self._on_use_ended(request)
        for request in self.ledger.lose(peer, self._heir):
            self._adoption_alarm.by(now + self._topology.config.connect_timeout_s)
            self._check_adopted(request, now)
        self._confirmations.on_process_lost(peer, self.ledger.get)
        if any(map(self._relays.audience, peer.relays.values())):
            self._repeat_alarm.at = now + _REPEAT_S

    def _heir(self, request: Request[Subscribe]) -> Peer | None:
        """Return the asker of a subscription if a task of this process matches it."""
        asker = self._topology.peers.get(request.asker)
        if asker is None or request.frame.presence:
            return None  # only masters forward watches
        if asker.session.incarnation != request.frame.subscriber.incarnation:
            return None
        return asker if self.matches.task_of(request, asker) else None

    def _check_adopted(self, request: Request[Subscribe], now: float) -> None:
        """Check whether the asker of an adopted request still subscribes.

        If the asker no longer has the request, it refuses this repeated answer.
        """
        assert request.origin is not None
        task = self.matches.task_of(request, request.origin)
        if task is None:
            self._end(request)
        else:
            self.matches.answer(request, task, now)

    def on_refusal(self, peer: Peer, error: Error, _: float) -> None:
        """Drop an adopted request that its asker no longer has."""
        request = self.ledger.get(error.request)
        if request is not None and request.adopted and request.origin is peer:
            self._end(request)

    def _end(self, request: Request[Subscribe]) -> None:
        self.ledger.end(request)
        self._confirmations.forget(request.frame.id)
        self._on_use_ended(request)

    def _on_use_ended(self, request: Request[Subscribe]) -> None:
        """Note that an asker may not need a link for its subscription any more."""
        self._topology.on_use_ended(request.asker)

    # Time.

    def _check_all_adopted(self, now: float) -> float | None:
        """Check the adopted requests again, until a master forwards them anew.

        One check is not enough: the asker may cancel the subscription before it learns
        that its master is lost.
        """
        for request in self._adopted():
            self._check_adopted(request, now)
        if self._adopted():
            return now + self._topology.config.connect_timeout_s
        return None

    def _adopted(self) -> list[Request[Subscribe]]:
        return [request for request in self.ledger.all() if request.adopted]

    def _repeat(self, _: float) -> None:
        """Send own requests again: a lost notifier may be registered elsewhere."""
        for request in self.own.values():
            request.forwarded_to.clear()
            self.ledger.spread(request)

    def _frame_for(self, frame: Subscribe, way: Peer) -> Subscribe:
        number = self._confirmations.number(frame.id, way)
        return replace(frame, confirm=number) if number else frame


def _passed_on(request: Request[Subscribe]) -> Subscribe:
    """Return a request as this process forwards it, with one hop fewer."""
    frame = request.frame
    return frame if request.origin is None else replace(frame, hops=frame.hops - 1)
