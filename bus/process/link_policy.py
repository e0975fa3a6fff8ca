"""`LinkPolicy`: the rules of a network about the links and the role of one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.model.rights import Credentials
    from queuebroker.channel.message_queue import MessageQueue
    from queuebroker.meeting.queue_broker import QueueBroker
    from queuebroker.sockets import SocketQueueBroker

__all__ = ["LinkBroker", "LinkPolicy"]

LinkBroker: TypeAlias = "QueueBroker | SocketQueueBroker"


class LinkPolicy(Protocol):
    """The rules by which one process trusts its peers and becomes master.

    Helper threads of the link pool call `connect`, the comm thread all other methods.
    """

    @property
    def patient(self) -> bool:
        """True if a missing master is no failure to join."""

    def new_nonce(self) -> int:
        """Return a number that distinguishes rivals (AMO-17)."""

    def credentials(self, queue: MessageQueue) -> Credentials:
        """Return the user and the rights of the peer of a link."""

    def claim_role(self) -> Sequence[LinkBroker]:
        """Make this process master if there is none; called before one is dialled.

        Return the brokers at which the new master accepts links; none if this process
        does not become master.
        """

    def slaves(self) -> Sequence[str]:
        """Return where other processes of this machine listen, for a new master."""

    def listen_outside(self, inside: str) -> tuple[LinkBroker | None, tuple[str, ...]]:
        """Return the addresses for processes of other machines (OPEN-15).

        The first call may begin to listen; it returns that broker, too.

        inside: the address at which the process listens for its own machine.

        Raises:
            OSError, QueueBrokerError: it cannot listen.
        """

    def addresses_to_dial(
        self, machine: str, addresses: Sequence[str]
    ) -> Sequence[str]:
        """Return the addresses of a machine that this process dials, for `connect`.

        They may come from another process, which must not make this one dial any other
        place (BUS-SEC-8).
        """

    def connect(
        self, broker: LinkBroker, address: str, timeout_s: float
    ) -> MessageQueue | None:
        """Dial an address of `addresses_to_dial`; None if nothing listens there.

        A network whose system tells more than that raises an `UnknownBrokerError`.

        Raises:
            PermissionError: the listener there is not trusted (BUS-SEC-2), or does not
              admit this process.
            QueueBrokerError, OSError, ValueError: there is no link for another reason.
        """

    def on_end(self) -> None:
        """Handle the coming end of the comm thread, whose links are still open."""

    def release_role(self) -> None:
        """Release the role of master, if this process has it.

        Called at the end of the comm thread, for any reason: it serves no link then.
        """
