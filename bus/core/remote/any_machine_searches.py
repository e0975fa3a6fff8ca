"""`AnyMachineSearches`: searches for names that may be of any machine (BUS-ROUTE-21).

The master of the sender's machine has the list of linked machines. It forwards the
search to their masters, collects the answers, and forwards the one that counts to the
sender. Each other master answers for its own machine, and reports if it lacks the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.deadlines import Deadlines
from bus.core.remote.candidates import Candidates
from bus.core.remote.requests import check_passed_on
from bus.core.timers import Rank
from bus.core.wire import Error, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.peer.peer import Peer
    from bus.core.remote.name_registry import NameRegistry
    from bus.core.remote.relays import Relays
    from bus.core.remote.requests import Request, Requests
    from bus.core.remote.topology import Topology
    from bus.core.wire import AddRelay, RequestId, Search
    from bus.registration import RegistrationId

__all__ = ["AnyMachineSearches"]


class AnyMachineSearches:
    """The searches for names of any machine, in a master.

    conclude: ends a search with the answer that counts; see `Resolver`.
    """

    __slots__ = (
        "_alarm",
        "_conclude",
        "_ledger",
        "_name_registry",
        "_patience",
        "_relays",
        "_topology",
    )

    def __init__(
        self,
        topology: Topology,
        name_registry: NameRegistry,
        relays: Relays,
        ledger: Requests[Search],
        conclude: Callable[[Peer, Request[Search], AddRelay, float], object],
    ) -> None:
        self._topology: Final = topology
        self._name_registry: Final = name_registry
        self._relays: Final = relays
        self._ledger: Final = ledger
        self._conclude: Final = conclude
        self._alarm: Final = topology.timers.alarm(
            Rank.ANY_MACHINE_SEARCHES, self._on_due
        )
        # When each search stops waiting for silent machines.
        self._patience: Final[Deadlines[RequestId]] = Deadlines(self._patient_until)

    def is_collected(self, request: Request[Search]) -> bool:
        """Return True if this process collects the answers of all machines."""
        origin = request.origin
        here = origin is None or origin.machine == self._topology.me.machine
        return request.anywhere and here and self._topology.is_master

    # Time.

    def _patient_until(self, number: RequestId) -> float | None:
        request = self._ledger.get(number)
        candidates = None if request is None else request.candidates
        return None if candidates is None else candidates.patient_until

    def _on_due(self, now: float) -> float | None:
        """Conclude the searches that have waited long enough for silent machines."""
        for number in self._patience.due(now):
            request = self._ledger.get(number)
            assert request is not None
            self.review_one(request, now)
        return self._patience.next()

    def review(self, now: float) -> None:
        """Continue all searches: a process, a name or a link may have been lost."""
        for request in self._ledger.all():
            self.review_one(request, now)

    def review_one(self, request: Request[Search], now: float) -> None:
        """Forward a search to further machines, report an absence, or conclude."""
        if self.is_collected(request):
            self._ledger.spread(request)
            candidates = self._candidates(request, now)
            choice = candidates.choice(self._asked_machines(request), now)
            if choice is not None:
                self._conclude(choice[0], request, choice[1], now)
        elif request.anywhere and self._topology.is_master and not request.absent:
            self._report_absence(request)

    def _report_absence(self, request: Request[Search]) -> None:
        """Report to another master that no task of this machine has the name.

        The search is kept: if a task takes the name later, this master answers it.
        """
        if self._name_registry.users.find(request.name) is None:
            assert request.origin is not None
            request.absent = True
            frame = Error(reason=Reason.ABSENT, request=request.frame.id)
            request.origin.session.send_control(frame)

    # Answers.

    def on_answer(
        self, peer: Peer, request: Request[Search], frame: AddRelay, now: float
    ) -> None:
        """Collect the answer of a machine; conclude the search if an answer counts now.

        Raises:
            WireError: the answer has no address, and the peer does not host the task.
        """
        # Check now, not when the answer is chosen: another peer may cause the choice,
        # and would then lose its link instead.
        check_passed_on(frame, peer)
        if not frame.addresses:
            # From now on the peer assumes that this process has a relay for its task,
            # even if another answer counts.
            self._relays.add_relay(peer, frame.task, now)
        candidates = self._candidates(request, now)
        candidates.on_found(frame.task.id.machine, (peer, frame))
        self.review_one(request, now)

    def on_absent(self, peer: Peer, request: Request[Search], now: float) -> None:
        """Record that a machine lacks the name; conclude if no answer is missing."""
        if self.is_collected(request):
            self._candidates(request, now).on_absent(peer.machine)
            self.review_one(request, now)

    def on_process_lost(self, peer: Peer) -> None:
        """Drop the answers of a lost process: it answers again over its next link."""
        for request in self._ledger.all():
            if request.candidates is not None:
                request.candidates.forget(peer.machine)

    def on_eliminated(self, number: RegistrationId, name: str, now: float) -> None:
        """Drop the answers with a task that has ended, and continue the searches."""
        for request in self._ledger.of(self._topology.me.machine, name):
            if request.candidates is not None:
                for machine, (_, frame) in request.candidates.found().items():
                    if frame.task.id == number:
                        request.candidates.on_absent(machine)
            self.review_one(request, now)

    # Helpers.

    def _candidates(
        self, request: Request[Search], now: float
    ) -> Candidates[tuple[Peer, AddRelay]]:
        if request.candidates is None:
            deadline = now if request.deadline is None else request.deadline
            until = now + max(0.0, deadline - now) / 2
            self._alarm.by(until)
            self._patience.add((request.frame.id, until))
            request.candidates = Candidates(self._topology.me.machine, until)
        return request.candidates

    def _asked_machines(self, request: Request[Search]) -> set[str]:
        """Return the other machines that were asked, and are still linked."""
        machines = {each.machine for each in request.forwarded_to.values()}
        return machines - {self._topology.me.machine}
