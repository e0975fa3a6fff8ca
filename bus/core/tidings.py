"""`Tidings`: the control frames about tasks, dispatched to their handlers.

It also checks that a peer is entitled to send a frame about a task (BUS-SEC-7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.core.routing_table import RegistrationId, Visibility
from bus.core.wire import (
    AddRelay,
    Cancel,
    Dismiss,
    Dismissed,
    Eliminate,
    Error,
    Export,
    Gap,
    Reason,
    RequestId,
    Search,
    Subscribe,
    Unexport,
    Unrelay,
    Unsubscribe,
)
from bus.errors import WireError

if TYPE_CHECKING:
    from bus.core.correspondence import Correspondence
    from bus.core.directory import Directory
    from bus.core.disuse import Disuse
    from bus.core.finder import Finder
    from bus.core.intake import Intake
    from bus.core.listening import Listening
    from bus.core.neighbours import Neighbours
    from bus.core.parting import Parting
    from bus.core.peer import Peer
    from bus.core.relay import Relay
    from bus.core.relays import Relays
    from bus.core.wire import Characteristics, Frame

__all__ = ["Tidings"]


class Tidings:
    """The handlers of control frames, except frames about links and streams."""

    __slots__ = (
        "_correspondence",
        "_directory",
        "_disuse",
        "_finder",
        "_intake",
        "_listening",
        "_neighbours",
        "_parting",
        "_relays",
    )

    def __init__(
        self,
        neighbours: Neighbours,
        *,
        directory: Directory,
        relays: Relays,
        correspondence: Correspondence,
        intake: Intake,
        finder: Finder,
        listening: Listening,
        disuse: Disuse,
        parting: Parting,
    ) -> None:
        self._neighbours: Final = neighbours
        self._directory: Final = directory
        self._relays: Final = relays
        self._correspondence: Final = correspondence
        self._intake: Final = intake
        self._finder: Final = finder
        self._listening: Final = listening
        self._disuse: Final = disuse
        self._parting: Final = parting

    def told(  # noqa: PLR0912, PLR0915 # a dispatch table
        self, peer: Peer, frame: Frame, now: float
    ) -> None:
        """Handle a control frame about tasks.

        Raises:
            WireError: the peer speaks of a task of another process, or the frame is
              invalid.
        """
        frame = self._vouched(peer, frame)
        match frame:
            case AddRelay(search=None):
                self._check_own(peer, frame.task.id)
                self._introduced(peer, frame.task, now)
            case AddRelay() if not self._may_answer(peer, frame):
                self._introduced(peer, frame.task, now)
            case AddRelay():
                known = self._finder.answered(peer, frame, now)
                known = known or self._listening.answered(peer, frame, now)
                if not known and not frame.addresses:
                    # No request waits for the answer any more. But a peer that answers
                    # on this link assumes from now on that this process knows its task.
                    self._check_own(peer, frame.task.id)
                    relay = self._relays.add_relay(peer, frame.task, now)
                    if not self._is_heard(relay):
                        # The peer has adopted the request; only this refusal ends that.
                        error = Error(reason=Reason.CLOSING, request=frame.search)
                        peer.session.tell(error)
            case Unrelay():
                self._correspondence.unrelay(peer, frame)
            case Dismiss():
                self._disuse.asked(peer, frame.relay)
            case Dismissed():
                self._disuse.dismissed(peer, frame.relay)
            case Gap():
                self._intake.missed(peer, frame)
            case Search():
                self._check_asker(peer, frame.id, frame.sender)
                self._finder.asked(peer, self._modest(peer, frame), now)
            case Cancel():
                self._finder.cancelled(peer, frame.id)
            case Export():
                self._check_own(peer, frame.id)
                if self._directory.exported(peer, frame):
                    self._finder.exported(peer, frame.name)
            case Unexport():
                self._directory.unexported(peer, frame)
            case Eliminate():
                if self._neighbours.is_master and peer in self._neighbours.slaves():
                    self._check_own(peer, frame.id)
                self._directory.gone(frame, peer)
                self._relays.eliminated(frame.id)
            case Subscribe():
                self._check_asker(peer, frame.id, frame.subscriber)
                self._listening.asked(peer, frame, now)
            case Unsubscribe():
                self._listening.cancelled(peer, frame.id)
            case Error(reason=Reason.NAME_TAKEN, id=RegistrationId() as number):
                self._directory.refused(peer, number)
            case Error(reason=Reason.ACCESS, id=RegistrationId() as number):
                self._directory.refused(peer, number, denied=True)
            case Error(reason=Reason.ACCESS, request=RequestId() as search):
                self._finder.refused(peer, search, denied=True)
            case Error(reason=Reason.BUSY, request=RequestId() as search):
                self._finder.refused(peer, search)
            case Error(reason=Reason.CLOSING, request=RequestId() as number):
                self._listening.refused(peer, number)
            case Error(reason=Reason.BUSY):
                self._parting.refused(peer)
            case _:
                pass

    def _is_heard(self, relay: Relay | None) -> bool:
        """Whether a request of this process matches a task while it has no master."""
        neighbours = self._neighbours
        stands = neighbours.is_master or neighbours.master() is not None
        return not stands and relay is not None and bool(self._relays.audience(relay))

    def _introduced(self, peer: Peer, task: Characteristics, now: float) -> None:
        """Add the relay of a task that a process announces, maybe without its name."""
        if not self._directory.may_have(peer, task.name):
            # A process that must release a name still receives the answers to its task
            # until then.
            task = replace(task, visibility=Visibility.PRIVATE)
        self._relays.add_relay(peer, task, now)

    def _may_answer(self, peer: Peer, frame: AddRelay) -> bool:
        """Whether a process that answers with its own task may hold the task's name.

        Raises:
            WireError: the task is another's, and the peer is not a master that
              forwards.
        """
        owner = (frame.task.id.machine, frame.task.id.process)
        if owner != peer.key:
            if not self._passes_on(peer):
                self._check_own(peer, frame.task.id)
            return True
        return peer.rights.may_register(frame.task.name, peer.key[1])

    def _passes_on(self, peer: Peer) -> bool:
        """Whether a peer is a master that speaks for other processes.

        For a slave this is its own master; for a master, any peer of another machine.
        """
        neighbours = self._neighbours
        if neighbours.is_master:
            return peer.machine != neighbours.me.machine
        return peer is neighbours.master()

    def _vouched(self, peer: Peer, frame: Frame) -> Frame:
        """Set the user of a slave's task, for the next receivers of the frame.

        If the peer speaks for others, its value is kept; in all other cases it is
        replaced.
        """
        if self._passes_on(peer):
            return frame
        user = None
        if self._neighbours.is_master and peer.credentials is not None:
            user = peer.credentials.uid
        match frame:
            case AddRelay(task=task):
                return replace(frame, task=replace(task, user=user))
            case Search(sender=task):
                return replace(frame, sender=replace(task, user=user))
            case Subscribe(subscriber=task):
                return replace(frame, subscriber=replace(task, user=user))
            case _:
                return frame

    def _modest(self, peer: Peer, frame: Search) -> Search:
        """Return a search; its sender is private if the peer may not hold its name."""
        sender = frame.sender
        if peer.key != (sender.id.machine, sender.id.process):
            return frame
        if self._directory.may_have(peer, sender.name):
            return frame
        return replace(frame, sender=replace(sender, visibility=Visibility.PRIVATE))

    def _check_asker(
        self, peer: Peer, number: RequestId, task: Characteristics
    ) -> None:
        """Raise if a slave asks for another process, which would get the answers."""
        if self._neighbours.is_master and peer in self._neighbours.slaves():
            self._check_own(peer, number)
            self._check_own(peer, task.id)

    @staticmethod
    def _check_own(peer: Peer, number: RegistrationId | RequestId) -> None:
        """Raise unless a peer speaks of its own task or request (BUS-SEC-7)."""
        owner = (number.machine, number.process)
        if peer.key != owner:
            raise WireError(f"{peer.key} speaks of a task of {owner}")
