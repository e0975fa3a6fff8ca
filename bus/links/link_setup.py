"""`LinkSetup`: the set-up of links, by dialling and by accepting.

Set-up takes time, so helper threads do it (`LinkHelpers`). This class chooses the
addresses to dial, and reports the outcome to the manager, with the identity of the
peer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.remote.master_dialler import DialFailure
from queuebroker import _sync

if TYPE_CHECKING:
    from bus.core.local.actions import Dial
    from bus.core.remote.remote_manager import RemoteManager
    from bus.links.join_state import JoinState
    from bus.links.link_policy import LinkBroker, LinkPolicy
    from bus.links.link_pool import LinkPool
    from bus.threads.exchange import Exchange
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["LinkSetup"]


class LinkSetup:
    """The link set-up of one process; for its comm thread alone.

    Args:
        exchange, remote, link_pool: the instances of this process.
        policy: the rules of the network.
        join_state: notified if the master cannot be reached.
    """

    __slots__ = (
        "_exchange",
        "_helpers",
        "_join_state",
        "_link_pool",
        "_policy",
        "_remote",
    )

    def __init__(
        self,
        exchange: Exchange,
        remote: RemoteManager,
        link_pool: LinkPool,
        policy: LinkPolicy,
        join_state: JoinState,
    ) -> None:
        self._exchange: Final = exchange
        self._remote: Final = remote
        self._link_pool: Final = link_pool
        self._helpers: Final = link_pool.helpers
        self._policy: Final = policy
        self._join_state: Final = join_state

    def accept_links(self, broker: LinkBroker) -> None:
        """Accept links at a broker.

        Raises:
            RuntimeError, MemoryError: see `LinkHelpers.accept_links`.
        """
        self._helpers.accept_links(broker, self._on_accepted)

    def add(self, queue: MessageQueue) -> None:
        """Add a link that another process has made to this one; for any thread."""
        self._helpers.add(queue, self._on_accepted)

    def _on_accepted(self, number: int) -> None:
        now, queue = _sync.monotonic(), self._link_pool.queue(number)
        credentials = self._policy.credentials(queue)
        self._exchange.decide(
            lambda: self._remote.on_link_accepted(number, now, credentials)
        )

    def dial(self, dial: Dial) -> None:
        """Dial a process; if it is the master and there is none, become master."""
        topology = self._remote.topology
        to_master = dial.key == (topology.me.machine, "")
        if to_master and (brokers := self._policy.claim_role()):
            try:
                for broker in brokers:
                    self.accept_links(broker)
            except (RuntimeError, MemoryError):  # a later attempt may succeed
                self._policy.on_end()
                for broker in brokers:  # else one of them would keep the address
                    broker.close()
                why = "this process can start no thread"
                self._on_dial_failed(dial, DialFailure(why))
            else:
                now, slaves = _sync.monotonic(), self._policy.slaves()
                self._exchange.decide(lambda: self._remote.become_master(now, slaves))
            return
        failures: list[DialFailure] = []

        def on_dialled(number: int | None) -> None:
            if number is None:
                if to_master:
                    self._join_state.on_no_master()
                self._on_dial_failed(dial, *failures)
            else:
                now = _sync.monotonic()
                credentials = self._policy.credentials(self._link_pool.queue(number))
                self._exchange.decide(
                    lambda: self._remote.on_link_dialled(
                        number, dial.kind, dial.key, now, credentials
                    )
                )

        def on_failed(failure: DialFailure) -> None:
            failures.append(failure)
            if failure.is_refusal and to_master:
                self._join_state.on_denied(failure.why)
            elif failure.is_refusal:
                topology.complain(f"no link with {_name(dial)}: {failure.why}")

        machine = dial.key[0]
        allowed = self._policy.addresses_to_dial(machine, dial.addresses)
        if not allowed:
            why = (
                f"{_name(dial)} is not dialled: the network of this process does not "
                f"permit {', '.join(dial.addresses)}"
            )
            topology.complain(why)
            self._on_dial_failed(dial, DialFailure(why, is_refusal=True))
            return
        self._helpers.dial(allowed, on_dialled, on_failed)

    def _on_dial_failed(self, dial: Dial, failure: DialFailure) -> None:
        now = _sync.monotonic()
        self._exchange.decide(
            lambda: self._remote.on_dial_failed(dial.kind, dial.key, now, failure)
        )


def _name(dial: Dial) -> str:
    """Return the process or the master that is dialled, for a line of the log."""
    machine, process = dial.key
    if process:
        return f"{machine}/{process}"
    # A static peer has its address in the place of its machine, until its HELLO.
    return "a master" if "://" in machine else f"the master of {machine}"
