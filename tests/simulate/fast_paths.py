"""`FastPaths`: the fast paths from one simulated process to others."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import attrs

from bus.kernel.fast_path import FastPath
from bus.kernel.tasks.actions import Action
from bus.kernel.tasks.runs import OutboundRun, pack_payload
from bus.model.message import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.kernel.peer.peer import Peer
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.wire import Batch
    from bus.model.payload import Payload
    from tests.simulate.process import SimProcess

__all__ = ["NO_FAST_PATHS", "FastPathRate", "FastPaths"]


@attrs.frozen
class FastPathRate:
    """How often messages take the fast path, in fractions of one.

    taken: of the messages that may. interrupted: of these, those whose sender is
      interrupted.
    """

    taken: float = 0.0
    interrupted: float = 0.0


NO_FAST_PATHS = FastPathRate()


class FastPaths:
    """The fast paths of a process; the world draws how often a message takes one."""

    def __init__(self, process: SimProcess) -> None:
        self._process = process
        self._by_peer: dict[Peer, FastPath] = {}

    def _to(self, peer: Peer | None) -> FastPath | None:
        if peer is None or peer.session.link is None:
            return None
        short = self._by_peer.get(peer)
        if short is None or not short.is_current:
            short = FastPath(self._process.remote, peer, peer.session.link)
            self._by_peer[peer] = short
        return short

    def receive(self, number: int, data: bytes) -> list[Action] | None:
        """Accept a frame from a link; None if it is to take the normal path."""
        world = self._process.world
        if not world.short():
            return None
        link = self._process.remote.links.by_number.get(number)
        short = None if link is None else self._to(link.peer)
        todo = deque[Action]()
        if short is None or not short.receive(data, world.now, todo):
            return None
        return list(todo)

    def send(
        self, peer: Peer, frame_of: Callable[[FastPath], bytes | Batch | None]
    ) -> bool:
        """Put a message on its link at once; False if it is to take the normal path.

        Now and then the sender is interrupted there, and only records that; then the
        link is dropped.
        """
        world = self._process.world
        if not world.short():
            return False
        short = self._to(peer)
        frame = None if short is None else frame_of(short)
        if short is None or frame is None:
            return False
        assert isinstance(frame, bytes)  # there is no shared memory
        world.went_short += 1
        if world.interrupted():
            self._give_up(short.link)
        else:
            world.network.send(short.link, frame)
        return True

    def _give_up(self, link: int) -> None:
        network = self._process.world.network
        self._process.say(lambda: f"is struck, and gives {link} up")
        network.cut(network.wires[link][0])

    def notify(self, source: Entry, payload: Payload) -> bool:
        """Put a notification on all links at once, as `FastPathDriver.notify` does.

        An interrupt comes after some of the accounts have it; the links of these are
        dropped.
        """
        world, remote = self._process.world, self._process.remote
        if not world.short():
            return False
        flags, body = pack_payload(payload)
        ways = list[FastPath]()
        for peer in remote.subscribed_peers(source):
            short = self._to(peer)
            if short is None or not short.may_notify(source, len(body)):
                return False
            ways.append(short)
        if not (ways or source.audience):
            source.no_subscriber += 1
        turn, size = next(remote.outbound_messages.turns), len(body)
        outbound_run = OutboundRun(
            Kind.NOTIFICATION, source, source.relay, 0, flags, turn, None, (body,), size
        )
        frames = []
        for short in ways:
            frame = short.notification(outbound_run)
            assert isinstance(frame, bytes)
            frames.append((short.link, frame))
        world.went_short += bool(frames)
        if frames and world.interrupted():
            for link, _ in frames:
                self._give_up(link)
            return True
        for link, frame in frames:
            world.network.send(link, frame)
        return True
