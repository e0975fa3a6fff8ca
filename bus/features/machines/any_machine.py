"""Names whose machine is ``*``: `AnyMachineNames` and `AnyMachineSearches`.

A message for ``ism://*/log`` is parked under that name until the task is found. Then
the name is **bound**: the process sends the parked messages to the task, and the name
becomes an alias of its entry in the routing table. Senders look up the alias like any
other name.

The search goes to all machines (BUS-ROUTE-21). The master of the sender's machine has
the list of linked machines. It forwards the search to their masters, collects the
answers, and forwards the one that counts to the sender. Each other master answers for
its own machine, and reports if it lacks the name.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from bus.kernel.searches.requests import AnswerCollector, check_passed_on
from bus.kernel.tasks.actions import FeatureAction
from bus.kernel.tasks.remote import AnyMachine
from bus.kernel.tasks.routing_table import Entry
from bus.kernel.timers import Deadlines
from bus.kernel.wire import Error, Reason
from bus.model.address import Address, is_anywhere, name_anywhere
from bus.model.message import Incoming

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bus.kernel.name_registry import NameRegistry
    from bus.kernel.peer.peer import Peer
    from bus.kernel.relays import Relays
    from bus.kernel.searches.requests import Request, Requests
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.kernel.topology import Topology
    from bus.kernel.wire import AddRelay, RequestId, Search
    from bus.model.registration import RegistrationId

__all__ = ["AnyMachineNames", "AnyMachineSearches", "Bind", "Candidates"]

Answer = TypeVar("Answer")


class Bind(FeatureAction, eq=False):
    """Send the messages that waited for a name of any machine to the task found.

    The driver takes each message out before it sends it, so that an interrupt sends
    none twice. Then it calls `AnyMachineNames.on_bound`, which may add messages, and
    returns the action again.

    name: the name, as `bus.model.address.name_anywhere` writes it.
    entry: the task, or its relay.
    sending: the message that is being sent, or was when an interrupt came.
    """

    name: str
    entry: Entry
    messages: deque[Incoming]
    sending: Incoming | None = None


class Candidates(Generic[Answer]):
    """The answers to one search, by machine; it decides which one counts (BUS-NAME-8).

    own: the sender's machine, which precedes all others.
    patient_until: the time, in seconds, from which an answer counts even if other
      machines have not answered. It precedes the end of the search, so that the
      messages can still be sent.

    The methods take the machines that were asked as an argument: a copy would keep a
    machine whose link is lost.
    """

    __slots__ = ("_absent", "_found", "own", "patient_until")

    def __init__(self, own: str, patient_until: float) -> None:
        self.own: Final = own
        self.patient_until: Final = patient_until
        self._found: dict[str, Answer] = {}
        self._absent: set[str] = set()

    def on_found(self, machine: str, answer: Answer) -> None:
        """Record that a machine has the name; it may have lacked it before."""
        self._found[machine] = answer
        self._absent.discard(machine)

    def on_absent(self, machine: str) -> None:
        """Record that a machine does not have the name, or no longer has it."""
        self._found.pop(machine, None)
        self._absent.add(machine)

    def forget(self, machine: str) -> None:
        """Drop the answer of a machine, which may answer again."""
        self._found.pop(machine, None)
        self._absent.discard(machine)

    def found(self) -> dict[str, Answer]:
        """Return the answers of the machines that have the name."""
        return dict(self._found)

    def is_incomplete(self, asked: Collection[str]) -> bool:
        """Return True if a machine was asked, and has not answered.

        asked: the other machines that were asked, and are still linked.
        """
        return any(
            each not in self._found and each not in self._absent for each in asked
        )

    def choice(self, asked: Collection[str], now: float) -> Answer | None:
        """Return the answer that counts; None if none does yet.

        The own machine's answer counts at once. Another one counts as soon as all
        machines have answered, or when ``patient_until`` has passed.

        asked: as for `is_incomplete`.
        """
        if self.own in self._found:
            return self._found[self.own]
        linked = [each for each in self._found if each in asked]
        if not linked or (now < self.patient_until and self.is_incomplete(asked)):
            return None
        return self._found[min(linked)]


class AnyMachineSearches(AnswerCollector):
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
        self._alarm: Final = topology.timers.alarm(self._on_due)
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
        candidates: Candidates[object] | None = (
            None if request is None else request.candidates
        )
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

    def on_absent(self, peer: Peer, error: Error, now: float) -> None:
        """Record that a machine lacks the name; conclude if no answer is missing.

        Also if it keeps no more searches: it stays among those that were asked, else it
        would be asked again at once.
        """
        request = self._ledger.get(error.request)
        if request is None or peer.key not in request.forwarded_to:
            return
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
        candidates: Candidates[tuple[Peer, AddRelay]] | None = request.candidates
        if candidates is None:
            me = self._topology.me.machine
            deadline = now if request.deadline is None else request.deadline
            until = now + max(0.0, deadline - now) / 2
            self._alarm.by(until)
            self._patience.add((request.frame.id, until))
            candidates = request.candidates = Candidates(me, until)
        return candidates

    def _asked_machines(self, request: Request[Search]) -> set[str]:
        """Return the other machines that were asked, and are still linked."""
        machines = {each.machine for each in request.forwarded_to.values()}
        return machines - {self._topology.me.machine}


class AnyMachineNames(AnyMachine):
    """The names of any machine that are being bound in one process.

    The driver performs a `Bind` after it has released the lock. Until it reports that
    all messages are sent, senders find no alias, and their messages are parked:
    otherwise a message could overtake an earlier one of the same sender. Rejected: to
    post the parked messages under the lock, since a post takes the lock of an inbox.

    Invariant: between two calls, a name in ``_binding`` is no alias in the table.
    """

    __slots__ = ("_binding", "_manager", "_parked", "_table")

    collector: ClassVar = AnyMachineSearches

    def __init__(self, manager: ProcessManager) -> None:
        self._manager: Final = manager
        self._table: Final = manager.table
        self._parked: Final = manager.parked
        self._binding: Final[dict[str, Bind]] = {}

    def is_binding(self, name: str) -> bool:
        """Return True while the messages parked for a name are sent to its task."""
        return name in self._binding

    def find(self, name: str) -> Entry | None:
        """Return the task of this machine that receives a new message for a name.

        None if there is no such task, or if earlier messages are still parked.
        """
        if not is_anywhere(name) or name in self._binding or self._parked.of(name):
            return None
        entry = self._holder(name)
        if entry is not None:
            self._table.add_alias(entry)
        return entry

    def on_registered(self, entry: Entry) -> list[Action]:
        """Bind a name to a new task of this process, if messages are parked for it."""
        name = name_anywhere(entry.name)
        if not self._parked.of(name):
            return []
        actions = self._bind(name, entry)
        if self._manager.remote is not None:
            self._manager.remote.end_search(name)
        return actions

    def on_found(self, name: str, entry: Entry) -> list[Action]:
        """Bind a name of any machine to the task that answers the search for it."""
        return self._bind(name, entry) if is_anywhere(name) else []

    def _bind(self, name: str, entry: Entry) -> list[Action]:
        """Send the messages parked for a name to the task found for it.

        Does nothing if the name is being bound to another task.
        """
        if name in self._binding:
            return []
        bind = Bind(name, entry, deque(self._parked.take(name)))
        self._binding[name] = bind
        return [bind]

    def restore(self) -> None:
        """Forget each `Bind` that an interrupt has lost, before its messages return."""
        for each in self._parked.removals or ():
            self._binding.pop(each.name, None)

    def on_bound(self, done: Bind, now: float) -> list[Action]:
        """Continue after the messages for a name of any machine were sent.

        From now on senders find the task under the name, unless messages were parked
        meanwhile: these are sent first.
        """
        actions = self._resumed(done)
        if self._parked.of(done.name):
            # The task has left, and none takes its place.
            self._manager.seek(done.name, now)
        return actions

    def _resumed(self, done: Bind) -> list[Action]:
        """Send the messages parked during a `Bind`, or end the binding.

        It returns the same action with these messages, which the driver then holds
        already. Rejected: a new action. If an interrupt came before that was queued,
        its messages would be lost.
        """
        name, entry = done.name, done.entry
        if self._binding.get(name) is not done:
            return []  # the driver has reported twice, after an interrupt
        if entry in self._table and not self._parked.of(name):
            # In this order: after an interrupt in between, the driver reports again.
            self._table.add_alias(entry)
            del self._binding[name]
            return []
        target = entry if entry in self._table else self._holder(name)
        if target is None or not self._parked.of(name):
            del self._binding[name]
            return []
        done.entry = target
        self._parked.move(name, done)
        return [done]

    def _holder(self, name: str) -> Entry | None:
        """Return the known task of this machine with the module of a name."""
        return self._table.find(Address.parse(name).module)
