"""`Driven`: a fast path driver over a simulated process, and stand-ins for links.

On a whole bus most reasons not to send at once last only for an instant.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, cast

from bus.kernel.hooks import Bodies
from bus.model.message import Incoming, Kind
from bus.process.accounts import AudienceAccount
from bus.process.fast_path_driver import FastPathDriver
from bus.process.inbox import Inbox
from queuebroker import _sync
from tests.simulate.notices import Notices

__all__ = ["Driven"]


class Driven(Notices):
    """A notifier whose process sends by a real driver, and real subscribers.

    leases: False if the links may be read by the comm thread alone.
    full: the links that have no room for a frame.
    put: the frames put on links, with their links. aborted, checked: links.
    """

    def __init__(self, *where: str, **world: Any) -> None:
        super().__init__(*where, **world)
        self.leases = True
        self.full: set[int] = set()
        self.put: list[tuple[int, bytes]] = []
        self.aborted: list[int] = []
        self.checked: list[int] = []
        self.audience = AudienceAccount(messages_max=10, bytes_max=1000)
        self.links = SimpleNamespace(
            sending=False,
            unsent={0: "frames"},
            send=self._send,
            abort=self.aborted.append,
            mark_ready=self.checked.append,
            read_lease=self._read_lease,
        )
        self.pending = deque[Any]()  # actions of the manager
        self.rounds = SimpleNamespace(
            inbox=Inbox(),
            link_actions=deque[Any](),
            links_reserved=False,
            hold=_sync.Lock(),
            given=deque[Any](),
            readers=SimpleNamespace(midway=()),
            acknowledgement_tracker=SimpleNamespace(due=False),
            bodies=Bodies(),
            wake=lambda: None,
            wake_soon=lambda: None,
            run_urgent_part=lambda: None,
        )
        exchange = SimpleNamespace(
            _lock=_sync.Lock(), _todo=self.pending, _acting=False
        )
        self.driver = FastPathDriver(
            cast("Any", exchange),
            self.near.remote,
            cast("Any", self.links),
            cast("Any", self.rounds),
            self.audience,
        )

    def _send(self, link: int, frame: bytes) -> bool:
        assert self.driver.hold.locked()
        self.put.append((link, frame))
        return link not in self.full

    def _read_lease(self, _: int) -> Any:
        return SimpleNamespace(take_early=False) if self.leases else None

    def notification(self, payload: Any = 7, **changes: Any) -> Incoming:
        """Return a notification as `Sender.notify` makes it."""
        size = len(payload) if isinstance(payload, bytes) else 1
        fields: dict[str, Any] = {"_source": self.source, "_size": size}
        return Incoming(Kind.NOTIFICATION, payload, **fields | changes)

    def notify(self, payload: Any = 7, **changes: Any) -> bool:
        return self.driver.send_now(self.notification(payload, **changes))

    def arrive(self) -> None:
        """Let the frames arrive that were put on links."""
        put, self.put = self.put, []
        for link, frame in put:
            self.stage.world.network.send(link, frame)
        self.stage.soon()

    def all_accounts(self) -> list[dict[str, Any]]:
        """Return what the notifier's process knows of each other process."""
        return [
            {
                "next": peer.session.outgoing.next,
                "outstanding": len(peer.session.outgoing),
                "posted": (peer.notifications.posted, peer.counters.posted),
                "under way": (peer.audience.under_way, peer.audience.unacked_bytes),
                "unacked": len(peer.audience.unacked),
                "queued": peer.audience.queued,
            }
            for peer in self.near.remote.topology.peers.values()
        ]
