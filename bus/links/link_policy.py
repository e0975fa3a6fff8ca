"""`LinkPolicy`: the rules of a network about the links and the role of one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.links.link_pool import LinkBroker
    from bus.rights import Credentials
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["LinkPolicy"]


class LinkPolicy(Protocol):
    """The rules by which one process trusts its peers and becomes master.

    Helper threads of the link pool call `refusal`, the comm thread all other methods.
    """

    @property
    def patient(self) -> bool:
        """True if a missing master is no failure to join."""

    def refusal(self, queue: MessageQueue) -> str | None:
        """Return why this process rejects the peer that it dialled (BUS-SEC-2).

        None if it does not.
        """

    def credentials(self, queue: MessageQueue) -> Credentials:
        """Return the user and the rights of the peer of a link."""

    def claim_role(self) -> Sequence[LinkBroker]:
        """Make this process master if there is none; called before one is dialled.

        Return the brokers at which the new master accepts links; none if this process
        does not become master.
        """

    def listen_outside(self, inside: str) -> tuple[LinkBroker | None, tuple[str, ...]]:
        """Return the addresses for processes of other machines (OPEN-15).

        The first call may begin to listen; it returns that broker, too.

        inside: the address at which the process listens for its own machine.

        Raises:
            OSError, QueueBrokerError: it cannot listen.
        """

    def may_dial(self, machine: str, address: str) -> bool:
        """Return True if this process may dial an address of a machine.

        The address may come from another process, which must not make this one dial
        any other place (BUS-SEC-8).
        """

    def release_role(self) -> None:
        """Release the role of master, if this process has it.

        Called at the end of the comm thread, for any reason: it serves no link then.
        """
