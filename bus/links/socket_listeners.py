"""`SocketListeners`: the sockets at which one process accepts links.

Each process listens at a UNIX socket. A master may listen for other machines, too, and
a slave does so once another machine searches for one of its tasks.
"""

from __future__ import annotations

import errno
import logging
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from bus.core import constants
from bus.core.wire.batch import frame_bytes_max
from bus.links.link_helpers import GATEWAY_PORT, PORT
from queuebroker import _sync
from queuebroker.errors import BrokerNameInUseError
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.sockets import Driver, SocketOptions, SocketQueueBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from bus.config import BusConfig
    from bus.links.peer_trust import PeerTrust
    from bus.network import Network

__all__ = ["SocketListeners"]

_log: Final = logging.getLogger("bus")

_ALL_PORTS: Final = frozenset({PORT, GATEWAY_PORT})
# When to try again to listen for other machines, if that failed.
_LISTEN_AGAIN_S: Final = 5.0
# How long an abandoned link may stay open when the peer does not read.
_FAREWELL_S: Final = 5.0


class SocketListeners:
    """The brokers of one process, with the driver that serves them.

    Args:
        bus: the name of the bus.
        config: the access list, and the longest message.
        network: the links with other machines.
        trust: admits the peers.

    Attributes:
        driver: serves all sockets of the process; from `open` on.
        on_rejected: called with a line of text about each rejected peer; the comm
            thread's, later.
    """

    def __init__(
        self, bus: str, config: BusConfig, network: Network, trust: PeerTrust
    ) -> None:
        self._bus: Final = bus
        self._config: Final = config
        self._network: Final = network
        self._trust: Final = trust
        self.on_rejected: Callable[[str], object] = _log.warning
        # A manager of its own, so that no name of a user's broker is taken.
        self._manager: Final = BrokerManager()
        self.driver: Driver
        self._listen_again_at: float = -math.inf
        # Where this process listens for other machines, once it does.
        self._outside: SocketQueueBroker | None = None

    def open(self) -> Driver:
        """Start the driver of all sockets, and return it."""
        self.driver = driver = Driver()
        return driver

    def close(self) -> None:
        """Close all brokers, and the driver."""
        self._manager.close()
        if hasattr(self, "driver"):
            self.driver.close()

    def listen_as_master(self, name: str, address: str) -> list[SocketQueueBroker]:
        """Listen for this machine and, if the network says so, for others."""
        brokers = [self.listen(name, address)]
        outside = self._network.listen_address
        if outside is not None:
            try:
                brokers.append(self._listen_for_masters(name, outside))
            except BaseException:
                brokers[0].close()
                raise
        return brokers

    def _listen_for_masters(self, name: str, address: str) -> SocketQueueBroker:
        try:
            outside = self.listen(f"{name} for other machines", address)
        except BrokerNameInUseError:
            fact = "another process listens there; give `listen` another port"
            raise OSError(errno.EADDRINUSE, f"{address}: {fact}") from None
        self._outside = outside
        if self._trust.tls is None:
            _log.warning(
                "bus %r listens at %s without keys: any process of this host may join",
                self._bus,
                outside.address,
            )
        return outside

    @property
    def outside_address(self) -> str | None:
        """The address at which this process listens for other machines, if it does."""
        present = self._outside
        # It is closed if no thread could be started to accept links at it.
        if present is None or present.closed:
            return None
        return str(present.address)

    def listen_outside(self) -> SocketQueueBroker | None:
        """Listen for other machines; None if the network has no address for that.

        Also None for some time after a failure.

        Raises:
            OSError, QueueBrokerError: it cannot listen.
        """
        network, addresses = self._network, self._network.end_process_addresses
        now = _sync.monotonic()
        if not addresses or now < self._listen_again_at:
            return None
        # Set before the attempt: the caller holds a lock, so a failure must not make
        # each further search try all ports.
        self._listen_again_at = now + _LISTEN_AGAIN_S
        for address in addresses:
            with suppress(BrokerNameInUseError):
                name = f"{self._bus} for other machines"
                self._outside = made = self.listen(name, address, ports={PORT})
                return made
        raise OSError(
            errno.EADDRINUSE,
            f"all ports {network.ports} are in use: give `ports` a longer range",
        )

    def listen(
        self, name: str, address: str, *, ports: AbstractSet[int] = _ALL_PORTS
    ) -> SocketQueueBroker:
        """Listen at an address; ports: those that are served there."""
        config = self._config
        if not self._network.has_links:
            ports = {PORT}
        outside = not address.startswith("ipc://")
        return SocketQueueBroker(
            name,
            listen=address,
            tls=self._trust.tls,
            driver=self.driver,
            manager=self._manager,
            options=SocketOptions(
                mode=0o660 if config.access.groups else 0o600,
                message_bytes_max=frame_bytes_max(config.message_bytes_max),
                first_frame_bytes_max=constants.UNAUTHENTICATED_BYTES,
                # No data may follow the peer's handshake before it is answered.
                unanswered_bytes_max=constants.UNAUTHENTICATED_BYTES,
                farewell_s=_FAREWELL_S,
                connect_s=config.connect_timeout_s,
                handshake_s=constants.AUTH_TIMEOUT_S,
                unknown_peers_max=constants.UNAUTHENTICATED_LINKS,
                ports=ports,
                admit=self._trust.outside_refusal if outside else self._trust.refusal,
                # On this machine, a process also connects to see whether one listens.
                on_rejected=self._reject_outside if outside else None,
            ),
        )

    def _reject_outside(self, text: str) -> None:
        self.on_rejected(f"bus {self._bus!r} rejects {text}")
