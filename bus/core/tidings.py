"""`Tidings`: what other managers say of tasks, each to whom it concerns.

Here it is also seen that who speaks of a task may do that (BUS-SEC-7).
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
    """Control frames but those about links and streams, by what they say."""

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

    def told(  # noqa: PLR0912, PLR0915 # a table of what goes where
        self, peer: Peer, frame: Frame, now: float
    ) -> None:
        """Take what another manager says of tasks.

        Raises:
            WireError: it speaks of a task of somebody else, or says what cannot be.
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
                    # Nobody waits for it any more; but who answered on this very link
                    # takes it that this process knows its task from now on.
                    self._check_own(peer, frame.task.id)
                    relay = self._relays.add_relay(peer, frame.task, now)
                    if not self._is_heard(relay):
                        # It has adopted the request; only this refusal ends that.
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
        """Whether a request here matches a task, and no master can pass it on yet."""
        neighbours = self._neighbours
        stands = neighbours.is_master or neighbours.master() is not None
        return not stands and relay is not None and bool(self._relays.audience(relay))

    def _introduced(self, peer: Peer, task: Characteristics, now: float) -> None:
        """Take it that a task of a process is there, though maybe not by its name."""
        if not self._directory.may_have(peer, task.name):
            # Who has to give up a name keeps its answers until then.
            task = replace(task, visibility=Visibility.PRIVATE)
        self._relays.add_relay(peer, task, now)

    def _may_answer(self, peer: Peer, frame: AddRelay) -> bool:
        """Whether a process that answers with a task of its own may have its name.

        Raises:
            WireError: the task is another's, and it is not a master that passes it on.
        """
        owner = (frame.task.id.machine, frame.task.id.process)
        if owner != peer.key:
            if not self._passes_on(peer):
                self._check_own(peer, frame.task.id)
            return True
        return peer.rights.may_register(frame.task.name, peer.key[1])

    def _passes_on(self, peer: Peer) -> bool:
        """Whether a process speaks for others: a slave's master, or one to another."""
        neighbours = self._neighbours
        if neighbours.is_master:
            return peer.machine != neighbours.me.machine
        return peer is neighbours.master()

    def _vouched(self, peer: Peer, frame: Frame) -> Frame:
        """Say of a slave's task whose it is, for those to whom that is passed on.

        Of who speaks for others that is taken as it is; of all the others not at all.
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
        """Return a search whose sender has no name that its process may not give it."""
        sender = frame.sender
        if peer.key != (sender.id.machine, sender.id.process):
            return frame
        if self._directory.may_have(peer, sender.name):
            return frame
        return replace(frame, sender=replace(sender, visibility=Visibility.PRIVATE))

    def _check_asker(
        self, peer: Peer, number: RequestId, task: Characteristics
    ) -> None:
        """Raise if a slave asks for another process: answers would go there."""
        if self._neighbours.is_master and peer in self._neighbours.slaves():
            self._check_own(peer, number)
            self._check_own(peer, task.id)

    @staticmethod
    def _check_own(peer: Peer, number: RegistrationId | RequestId) -> None:
        """Raise unless a process speaks of its own (BUS-SEC-7)."""
        owner = (number.machine, number.process)
        if peer.key != owner:
            raise WireError(f"{peer.key} speaks of a task of {owner}")
