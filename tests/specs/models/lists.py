"""The tables of `specs/sequential-model.md` once more, as mutable lists.

An independent second transcription: in place instead of by value, one list for each
port instead of one for all. If it and `specs.models` differ, one of them differs from
the page.
"""

from __future__ import annotations

from collections import defaultdict

__all__ = ["ListPair", "ListPorts"]


class ListPair:
    """A connection for messages. None stands for "not enabled"."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.inbound: tuple[list[bytes], list[bytes]] = ([], [])
        self.closed = [False, False]

    def status(self, e: int) -> str:
        if self.closed[e]:
            return "DISCONNECTED"
        if not self.closed[1 - e]:
            return "CONNECTED"
        return "HALF" if self.inbound[e] else "DISCONNECTED"

    def send(self, e: int, message: bytes, *, waited: bool) -> str | None:
        if self.status(e) == "CONNECTED":
            if len(self.inbound[1 - e]) == self.capacity:
                return None
            self.inbound[1 - e].append(message)
            return "ok"
        return "ok" if self.status(e) == "HALF" and not waited else "disconnected"

    def receive(self, e: int) -> bytes | str | None:
        if self.status(e) == "DISCONNECTED":
            return "disconnected"
        return self.inbound[e].pop(0) if self.inbound[e] else None

    def disconnect(self, e: int) -> None:
        self.closed[e] = True
        self.inbound[e].clear()


class ListPorts:
    """The brokers of a manager: for each place WA and WC, two lists of tickets.

    `ended` maps each ticket to the outcome of its call: the ticket of its opposite,
    "closed", "unknown" or "in use". A ticket that is missing waits or was withdrawn.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.wa: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self.wc: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self.exclusive: set[int] = set()
        self.source: dict[int, int] = {}
        self.ended: dict[int, int | str] = {}

    def create(self, label: int, name: str) -> bool:
        if name in self.names:
            return False
        self.names[name] = label
        return True

    def close(self, label: int) -> None:
        self.names = {n: each for n, each in self.names.items() if each != label}
        for lists in (self.wa, self.wc):
            for (broker, _), tickets in lists.items():
                for ticket in list(tickets):
                    if label in (broker, self.source[ticket]):
                        tickets.remove(ticket)
                        self.ended[ticket] = "closed"

    def accept(self, ticket: int, label: int, port: int, *, exclusive: bool) -> None:
        waiting = self.wa[label, port]
        if label not in self.names.values():
            self.ended[ticket] = "closed"
        elif waiting and (exclusive or self.exclusive & set(waiting)):
            self.ended[ticket] = "in use"
        else:
            if exclusive:
                self.exclusive.add(ticket)
            self._meet(ticket, label, self.wc[label, port], waiting)

    def connect(self, ticket: int, source: int, name: str, port: int) -> None:
        if source not in self.names.values():
            self.ended[ticket] = "closed"
        elif name not in self.names:
            self.ended[ticket] = "unknown"
        else:
            place = self.names[name], port
            self._meet(ticket, source, self.wa[place], self.wc[place])

    def withdraw(self, ticket: int) -> bool:
        for lists in (self.wa, self.wc):
            for tickets in lists.values():
                if ticket in tickets:
                    tickets.remove(ticket)
                    return True
        return False

    def _meet(self, ticket: int, source: int, them: list[int], us: list[int]) -> None:
        self.source[ticket] = source
        if them:
            other = them.pop(0)
            self.ended[ticket], self.ended[other] = other, ticket
        else:
            us.append(ticket)
