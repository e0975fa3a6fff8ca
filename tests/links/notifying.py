"""Tasks that notify remote subscribers, with a fake of everything behind the outbox."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from bus.address import Address
from bus.api.sender import Sender
from bus.core.local.routing_table import Entry
from bus.registration import RegistrationId, Visibility
from queuebroker import _sync

if TYPE_CHECKING:
    from tests.links.posting import Process

__all__ = ["Notifier", "missing"]


class Notifier(Sender):
    """A task whose notifications are numbered.

    lost: the payloads of the dropped notifications that were reported to it.
    """

    __slots__ = ("_process", "lost", "number")

    def __init__(self, process: Process, name: str = "d") -> None:
        self._process = process
        self.number = 0
        self.lost: list[Any] = []
        client = SimpleNamespace(on_dropped=lambda each: self.lost.append(each.payload))
        self._entry = Entry(  # type: ignore[misc]
            id=RegistrationId("here", "p1", 1),
            name=name,
            visibility=Visibility.PUBLIC,
            address=Address(name, machine="here", bus="bus1"),
            host=self,
            mailbox=SimpleNamespace(client=client),
        )
        comm = SimpleNamespace(audience=process.host.audience)
        self._exchange: Any = SimpleNamespace(comm=comm)  # type: ignore[misc]
        self._tracer = None  # type: ignore[misc]
        self.send_batches = {}  # type: ignore[misc]
        self.notifications = None
        self._receiver = SimpleNamespace(leaving=False)  # type: ignore[misc, assignment]

    @property
    def entry(self) -> Entry:
        return self._entry

    def require_host(self) -> Any:
        return self

    def notify_numbers(self, count: int, size: int = 3) -> None:
        """Send notifications of bytes, as `Task.notify` does."""
        for _ in range(count):
            payload = str(self._next()).encode().ljust(size, b".")
            if self.notifications is not None:  # as if the calling thread had made it
                self.notifications.thread = _sync.get_ident()  # type: ignore[misc]
            self.send(payload)

    def send(self, payload: bytes) -> None:
        """Send one notification of bytes, which may be no number."""
        if not self.notify_bytes(payload):
            self._post(payload)

    def notify_objects(self, count: int) -> None:
        """Send notifications that are no bytes."""
        for _ in range(count):
            self._post(self._next())

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _post(self, payload: Any) -> None:
        process = self._process
        self._entry.order = object()  # as `Router.post` does
        process.post(payload, process.host.audience, self._entry)

    def came(self) -> list[tuple[int, int]]:
        """Return the numbers of the notifications that left, each with its gap."""
        came = []
        notified = self._process.remote.notified
        gaps = self._process.remote.gaps
        for (payload, _), (source, gap) in zip(notified, gaps, strict=True):
            if source is self._entry:
                text = payload.rstrip(b".") if isinstance(payload, bytes) else payload
                came.append((int(text), gap))
        return came


def missing(came: list[tuple[int, int]]) -> list[int]:
    """Return for each notification how many are missing just before it."""
    numbers = [0, *(number for number, _ in came)]
    return [now - last - 1 for last, now in pairwise(numbers)]
