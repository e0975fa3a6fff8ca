"""`Topology`: the processes that this one knows, and the routes of requests.

Slaves ask their master, and masters ask their slaves and one another (BUS-ROUTE-9,
BUS-ROUTE-14). A request is never sent back to the peer it came from. A request from
another machine is forwarded only to the slaves of this machine (BUS-ROUTE-17).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from bus.kernel.peer.peer import Peer
from bus.kernel.peer.run_queue import RelayCounters
from bus.kernel.peer.session import Session
from bus.kernel.tasks.actions import Fail, Send
from bus.kernel.timers import Timers
from bus.kernel.wire import RequestId, Role
from bus.model.address import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bus.errors import BusError
    from bus.kernel.streams.incoming_streams import Horizons
    from bus.kernel.tasks.actions import Action
    from bus.kernel.timers import Alarm
    from bus.kernel.trace import TraceSink
    from bus.kernel.wire import Frame, Identity
    from bus.model.config import BusConfig
    from bus.model.message import Incoming
    from bus.model.registration import Key

__all__ = ["Topology"]


class Topology:
    """The topology: this process and its peers.

    me: identity of this process.
    role: its present role, since a slave may become master.
    nonces: numbers that distinguish rivals (AMO-17).
    addresses: the addresses on which it listens for processes of its own machine.
    outside: returns those for processes of other machines; it may begin to listen.
    peers: all known processes, by machine and name.
    todo: the actions to perform, in order.
    timers: when the parts of the remote manager have work to do.
    lose: declares a process lost; drop_peer: drops a live process that needs no link;
      await_link: notes that a process has no link. The `ProcessLoss` provides them,
      since it reaches the whole state of a process.
    on_use_ended: notes that one use of the link with a process has ended, by a task or
      by a subscription. The `IdleLinks` provide it.
    message_alarm: is set for the deadline of each message in a relay; ack_alarm: for
      each acknowledgement. `UndeliveredMessages` and `RemoteManager` provide them.
    newest_epoch: returns the newest epoch known of a process, by its name; 0 for none.
      The `InboundMessages` provide it.
    complain: takes a line about a violation by another process.
    trace_sink: the trace sink; None if nothing is recorded.
    horizons: the horizons of the streams to this process; None if nothing outlives it.
    """

    __slots__ = (
        "_epochs",
        "_nonces",
        "_pings",
        "_removed",
        "_requests",
        "ack_alarm",
        "addresses",
        "await_link",
        "complain",
        "config",
        "drop_peer",
        "horizons",
        "key",
        "lose",
        "me",
        "message_alarm",
        "newest_epoch",
        "on_use_ended",
        "outside",
        "peers",
        "role",
        "timers",
        "todo",
        "trace_sink",
    )

    def __init__(
        self,
        me: Identity,
        *,
        config: BusConfig,
        nonces: Iterator[int],
        addresses: tuple[str, ...],
        outside: Callable[[], tuple[str, ...]],
        complain: Callable[[str], object] = lambda _: None,
        trace_sink: TraceSink | None = None,
        horizons: Horizons | None = None,
    ) -> None:
        self.me: Final = me
        self.key: Final[Key] = (me.machine, me.process)
        self.role: Role = me.role
        self.config: Final = config
        self.complain: Final = complain
        self.trace_sink: Final = trace_sink
        self.horizons: Final = horizons
        self.addresses: Final = addresses
        self.outside: Final = outside
        self.peers: Final[dict[Key, Peer]] = {}
        self._removed: Final = RelayCounters()  # of the peers removed so far
        self.todo: list[Action] = []
        self.timers: Final = Timers()
        self.lose: Callable[[Peer, float], None]
        self.drop_peer: Callable[[Peer, float], None]
        self.await_link: Callable[[Peer], None]
        self.on_use_ended: Callable[[Key], None]
        self.message_alarm: Alarm
        self.ack_alarm: Alarm
        self.newest_epoch: Callable[[str], int]
        self._nonces: Final = nonces
        # Above all numbers used by earlier incarnations (AMO-16).
        self._epochs = itertools.count(me.incarnation)
        self._requests: Final = itertools.count(me.incarnation)
        self._pings: Final = itertools.count(1)

    def address(self, machine: str, name: str) -> Address:
        """Return the address of a task on a machine."""
        return Address(name, machine=machine, bus=self.me.bus)

    def add_peer(self, key: Key, incarnation: int, now: float) -> Peer:
        """Create and return the peer for a process that is not known."""
        session = Session(
            next(self._epochs),
            own=self.me.incarnation,
            incarnation=incarnation,
            nonce=next(self._nonces),
            config=self.config,
            ack_alarm=self.ack_alarm,
        )
        peer = Peer(
            key,
            session,
            now,
            config=self.config,
            message_alarm=self.message_alarm,
        )
        self.await_link(peer)
        self.peers[key] = peer
        return peer

    def remove_peer(self, peer: Peer) -> None:
        """Remove a peer, if it is here; its relays count nothing more."""
        if self.peers.pop(peer.key, None) is not None:
            self._removed.add(peer.counters)

    @property
    def counters(self) -> RelayCounters:
        """The sums of the counters of all peers, including lost ones."""
        peers = [each.counters for each in self.peers.values()]
        return RelayCounters().add(self._removed, *peers)

    def new_request(self) -> RequestId:
        """Return a request number that was never used before."""
        machine, process = self.key
        number = next(self._requests) + 1
        return RequestId(machine=machine, process=process, number=number)

    def new_ping(self) -> int:
        """Return a number that no PING of this process had before."""
        return next(self._pings)

    def addresses_for(self, asker: Key, way: Peer) -> tuple[str, ...]:
        """Return the addresses an asker must dial; none if it asked on its own link."""
        if way.key == asker:
            return ()
        return self.addresses if asker[0] == self.me.machine else self.outside()

    def inside_address_of(self, process: str) -> str | None:
        """Return the address at which a process of this machine listens for it.

        None if this process is not the master, if the other one lacks full rights, or
        if its address is unknown.
        """
        peer = self.peers.get((self.me.machine, process))
        if peer is None or not self.is_master or not peer.rights.whole:
            return None
        return peer.inside_address or None

    def send(self, link: int, frame: Frame) -> None:
        """Put a frame on a link at once, before all frames that wait for a flush."""
        self.todo.append(Send(link, frame))

    def fail(self, messages: Iterable[Incoming], error: BusError) -> None:
        """Report to the senders of some messages that these fail."""
        self.todo += [Fail(each, error) for each in messages]

    def take_actions(self) -> list[Action]:
        """Remove and return the actions to perform, in order."""
        actions, self.todo = self.todo, []
        return actions

    # Routes.

    @property
    def is_master(self) -> bool:
        """True if this process is master of its machine."""
        return self.role is Role.MASTER

    def joined(self) -> list[Peer]:
        """Return the peers whose signalling link is open, or was lost a moment ago."""
        return [peer for peer in self.peers.values() if peer.joined]

    def slaves(self) -> list[Peer]:
        """Return the slaves of this machine, if this process is master."""
        if not self.is_master:
            return []
        return [peer for peer in self.joined() if peer.machine == self.me.machine]

    def master(self) -> Peer | None:
        """Return the master of this machine, if that is another process."""
        if self.is_master:
            return None
        return next(iter(self.joined()), None)

    @property
    def has_master(self) -> bool:
        """True if this process is master, or has an open link with its master."""
        if self.is_master:
            return True
        master = self.master()
        return master is not None and master.session.ready

    def master_of(self, machine: str) -> Peer | None:
        """Return the master of another machine, if this process is a master, too."""
        if not self.is_master:
            return None
        return next((each for each in self.joined() if each.machine == machine), None)

    def next_hops(
        self,
        machine: str,
        origin: Peer | None,
        owner: Key | None,
        *,
        anywhere: bool = False,
    ) -> list[Peer]:
        """Return the peers to ask for something on a machine.

        origin: the peer that asked this process; None if this process itself asks.
        owner: the process known to have it.
        anywhere: True to ask all other machines, too, unless the owner is known.
        """
        if not self.is_master:
            master = None if origin is not None else self.master()
            return [] if master is None else [master]
        if machine == self.me.machine:
            slaves = [each for each in self.slaves() if each is not origin]
            known = [each for each in slaves if each.key == owner]
            if known or not anywhere or self._is_abroad(origin):
                return known or slaves
            return slaves + [each for each in self.joined() if self._is_abroad(each)]
        if self._is_abroad(origin):
            return []
        other = self.master_of(machine)
        return [] if other is None or other is origin else [other]

    def others(self, origin: Peer | None) -> list[Peer]:
        """Return the peers that receive an announcement which came from ``origin``.

        origin: None for an announcement of this process.
        """
        if not self.is_master:
            master = None if origin is not None else self.master()
            return [] if master is None else [master]
        abroad = self._is_abroad(origin)
        return [
            each
            for each in self.joined()
            if each is not origin and not (abroad and self._is_abroad(each))
        ]

    def _is_abroad(self, peer: Peer | None) -> bool:
        return peer is not None and peer.machine != self.me.machine
