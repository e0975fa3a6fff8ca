"""`SocketListeners`: the sockets at which one process accepts links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.kernel import constants
from bus.kernel.wire.batch import frame_bytes_max
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.sockets import Driver, SocketOptions, SocketQueueBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from bus.model.config import BusConfig
    from queuebroker.sockets import Peer, Tls

__all__ = ["SocketListeners"]

# How long an abandoned link may stay open when the peer does not read.
_FAREWELL_S: Final = 5.0


class SocketListeners:
    """The brokers of one process, with the driver that serves them.

    Args:
        config: the access list, and the longest message.
        tls: the keys for links with other machines; None for none.

    Attributes:
        driver: serves all sockets of the process; from `open` on.
    """

    def __init__(self, config: BusConfig, tls: Tls | None) -> None:
        self._config: Final = config
        self._tls: Final = tls
        # A manager of its own, so that no name of a user's broker is taken.
        self._manager: Final = BrokerManager()
        self.driver: Driver

    def open(self) -> Driver:
        """Start the driver of all sockets, and return it."""
        self.driver = driver = Driver()
        return driver

    def close(self) -> None:
        """Close all brokers, and the driver."""
        self._manager.close()
        if hasattr(self, "driver"):
            self.driver.close()

    def listen(
        self,
        name: str,
        address: str | None,
        *,
        ports: AbstractSet[int],
        admit: Callable[[Peer], str | None],
        on_rejected: Callable[[str], object] | None = None,
    ) -> SocketQueueBroker:
        """Listen at an address; with None, return a broker that only dials.

        ports: those that are served there. admit: returns the reason to refuse a peer.
        on_rejected: called with a line of text about each rejected peer; on this
          machine, a process also connects to see whether one listens.
        """
        config = self._config
        return SocketQueueBroker(
            name,
            listen=address,
            tls=self._tls,
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
                admit=admit,
                on_rejected=on_rejected,
            ),
        )
