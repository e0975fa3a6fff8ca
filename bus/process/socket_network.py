"""`SocketNetwork`: one process among those of its machine, by UNIX sockets.

On one machine the process that holds the lock of the run directory is master, and all
others dial it. A process that may become master tries to take the lock each time before
it dials. So when a master ends, the first process to notice takes its place (OPEN-1).

`Outside` is the slot for other machines.
"""

from __future__ import annotations

import errno
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bus.errors import AccessDeniedError, BusyError
from bus.kernel.wire import Identity
from bus.kernel.wire import Role as WireRole
from bus.model.registration import Role
from bus.model.rights import Credentials
from bus.process.comm_thread import CommThread
from bus.process.link_helpers import PORT
from bus.process.link_poller import SocketPoller
from bus.process.run_directory import ELSEWHERE, RunDirectory
from bus.process.socket_listeners import SocketListeners
from queuebroker import _files, _net, _sync
from queuebroker.errors import BrokerNameInUseError
from queuebroker.sockets import SocketMessageQueue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from bus.model.config import BusConfig
    from bus.process.exchange import Exchange
    from bus.process.link_policy import LinkBroker
    from queuebroker.channel.message_queue import MessageQueue
    from queuebroker.sockets import Peer, SocketQueueBroker, Tls

__all__ = ["Outside", "SocketNetwork", "checked", "machine_id"]

# The first of these that can be read. The second changes with each boot.
_FILES: Final = ("/etc/machine-id", "/proc/sys/kernel/random/boot_id")
# Only the bus derives its ids with this text: other programs that derive an id from the
# same file obtain another one.
_PURPOSE: Final = b"bus: id of a machine"


def machine_id() -> str:
    """Return the id of this host; the same until the next boot, at least.

    Announcements carry the id unencrypted, and machine-id(5) asks programs not to show
    the content of its file. So the id is a keyed hash of it, 32 hexadecimal digits;
    the content cannot be computed from it.
    """
    import hmac  # noqa: PLC0415 - loads OpenSSL, for a bus over sockets only

    return hmac.digest(_secret(), _PURPOSE, "sha256")[:16].hex()


def _secret() -> bytes:
    for path in _FILES:
        with suppress(OSError):
            if content := Path(path).read_bytes().strip():
                return content
    return _files.host_name().encode()


_log: Final = logging.getLogger("bus")


class Outside:
    """A slot of the `SocketNetwork`: the links of a process with other machines.

    This null object has none, and opens no network socket (BUS-DISC-1).

    static: see `RemoteManager`. tls: the keys of this process; None for none.
    ports: those that are served at each UNIX socket.
    """

    static: tuple[str, ...] | None = None
    tls: Tls | None = None
    ports: AbstractSet[int] = frozenset({PORT})

    def prepare(
        self, machine: str, process: str, master: str, listeners: SocketListeners
    ) -> None:
        """Check the settings, before any socket is opened.

        master: the address at which the master listens for processes of its machine.

        Raises:
            ValueError: they are not those of this machine.
        """

    def listen_as_master(self, _name: str) -> list[SocketQueueBroker]:
        """Return the brokers at which a master accepts links of other machines.

        Raises:
            OSError: the address is taken, or not of this machine; the text names it.
        """
        return []

    def begin(
        self,
        exchange: Exchange,
        comm: CommThread,
        brokers: Sequence[SocketQueueBroker],
    ) -> None:
        """Use other machines once the comm thread starts; an error fails the join."""

    def start(self) -> None:
        """Announce this machine, if it is to be; the comm thread has started."""

    def become_master(self, brokers: Sequence[SocketQueueBroker]) -> None:
        """Use and announce the brokers of a new master; log a failure."""

    def abandon(self) -> None:
        """Undo `begin`, if it was called: the comm thread does not start."""

    # See `LinkPolicy`.

    def listen_outside(
        self, inside: str
    ) -> tuple[SocketQueueBroker | None, tuple[str, ...]]:
        # Other machines do not dial it: their senders get an `UnreachableError`.
        return None, (inside,)

    def addresses_to_dial(self, _addresses: Sequence[str]) -> Sequence[str]:
        return ()

    def connect(
        self, _broker: LinkBroker, _address: str, _timeout_s: float
    ) -> MessageQueue | None:
        return None

    def credentials(self, _queue: MessageQueue) -> Credentials | None:
        """Return those of a process of another machine; None for one of this."""
        return None

    def on_end(self) -> None:
        pass


class SocketNetwork:
    """The network of one process; made for one bus, and joined once.

    It is the `LinkPolicy` of that process.

    Args:
        bus: the name of the bus.
        role: the role that this process wants.
        config: names the run directory and the access list.
        outside: the links with other machines; None for none.

    Raises:
        AccessDeniedError, ValueError, OSError: see `RunDirectory`.
    """

    def __init__(
        self, bus: str, role: Role, config: BusConfig, outside: Outside | None = None
    ) -> None:
        self.bus: Final = bus
        self._outside: Final = Outside() if outside is None else outside
        self._machine: str = ""
        self._failure: str = ""  # of the last attempt to become master
        self._role: Final = role
        self._access: Final = config.access
        self.directory: Final = _run_directory(bus, config)
        self._listeners: Final = SocketListeners(config, self._outside.tls)

    @property
    def where(self) -> str:
        """The path of the directory in which this process finds the others."""
        return str(self.directory.path)

    def new_incarnation(self) -> int:
        """Return a number higher than that of any earlier incarnation (AMO-17)."""
        return _sync.wall_ns()

    def join(
        self,
        machine: str,
        process: str,
        incarnation: int,
        exchange: Exchange,
        config: BusConfig,
    ) -> CommThread:
        """Connect a process to all others; return its comm thread.

        Raises:
            BusyError: the process must be master, and there is one already.
            AccessDeniedError: the process may not listen there, or not be master.
        """
        comm: CommThread | None = None
        self._machine = machine
        outside, place = self._outside, self.directory.master
        outside.prepare(machine, process, place, self._listeners)
        try:
            driver = self._listeners.open()
            brokers, master = self._place(f"{machine}/{process}")
            listens = brokers[0].address or place
            comm = CommThread(
                exchange,
                Identity(
                    bus=self.bus,
                    machine=machine,
                    machine_id=machine_id(),
                    process=process,
                    process_id=os.getpid(),
                    incarnation=incarnation,
                    role=WireRole.MASTER if master else WireRole.SLAVE,
                ),
                config=config,
                policy=self,
                poller=SocketPoller(driver),
                listens=listens,
                master=place,
                static=outside.static,
            )
            outside.begin(exchange, comm, brokers)
            comm.start(*brokers)
            outside.start()
        except BaseException as error:
            if comm is None or comm.prevent_start():
                outside.abandon()
                self._listeners.close()
                self.directory.release()
            if isinstance(error, PermissionError):
                fact = f"{error.filename or self.where}: {error.strerror}"
                raise AccessDeniedError(f"join bus {self.bus!r}", fact) from None
            raise
        return comm

    def _place(self, name: str) -> tuple[list[SocketQueueBroker], bool]:
        """Listen as master if this process can be, else at an address of its own.

        Returns the brokers, and True for the master.

        Raises:
            BusyError: the process must be master, and there is one already.
            OSError: see `Outside.listen_as_master`.
        """
        if self._role is not Role.SLAVE and self.directory.claim():
            self.directory.sweep()
            try:
                return self._listen_as_master(name), True
            except BrokerNameInUseError:
                # The lock file was removed, and another process still is master.
                self.directory.release()
        if self._role is Role.MASTER:
            if self.directory.is_guest:
                fact = "only a process that may write there can be master"
                raise PermissionError(errno.EACCES, fact, self.where)
            place = f"the master's place on bus {self.bus!r} in {self.where}"
            remedy = "another machine on this file system needs its own BUS_RUN_DIR"
            raise BusyError(f"{place}; {remedy}")
        if not _net.HAS_UNIX:
            raise OSError(
                errno.EAFNOSUPPORT,
                f"cannot join bus {self.bus!r} as a slave: processes of a machine are "
                "linked by UNIX sockets, which this system lacks; give each process a "
                "`machine` and a Network of its own, and set BUS_RUN_DIR to a folder "
                "for each",
            )
        return [self._listen(name, self.directory.slave())], False

    def _listen_as_master(self, name: str) -> list[SocketQueueBroker]:
        # Without UNIX sockets the process is alone on its machine. It needs this broker
        # to dial others.
        place = self.directory.master if _net.HAS_UNIX else None
        broker = self._listen(name, place)
        try:
            return [broker, *self._outside.listen_as_master(name)]
        except BaseException:
            broker.close()
            raise

    def _listen(self, name: str, address: str | None) -> SocketQueueBroker:
        return self._listeners.listen(
            name, address, ports=self._outside.ports, admit=self._refusal
        )

    def _refusal(self, peer: Peer) -> str | None:
        """Return the reason to refuse a process of this machine, or None."""
        return self._access.refusal(peer.uid, peer.gid)

    def leave(self, machine: str, process: str, comm: CommThread) -> None:
        """Do nothing: the lock is released when the process ends, however it ends."""

    # The policy of the links.

    @property
    def patient(self) -> bool:
        """True for a slave, which waits for a master."""
        return self._role is Role.SLAVE

    def claim_role(self) -> Sequence[SocketQueueBroker]:
        """Become master if there is none; return the brokers that accept links then."""
        try:
            if self._role is not Role.AUTO or not self.directory.claim():
                return ()
            self.directory.sweep()
            brokers = self._listen_as_master(f"master of {self.bus}")
            self._outside.become_master(brokers)
            return brokers
        except (OSError, BrokerNameInUseError) as error:
            self.directory.release()  # this process or another may succeed later
            if str(error) != self._failure:  # not at each attempt
                self._failure = str(error)
                _log.warning("cannot become master of bus %r: %s", self.bus, error)
            return ()

    def slaves(self) -> Sequence[str]:
        """Return the addresses of the other processes in the run directory."""
        return self.directory.slaves()

    def on_end(self) -> None:
        """Announce to the other machines that this master ends."""
        self._outside.on_end()

    def release_role(self) -> None:
        """Release the lock, so that another process can become master."""
        self.directory.release()

    def connect(
        self, broker: LinkBroker, address: str, timeout_s: float
    ) -> MessageQueue | None:
        """Dial an address, and check the listener there.

        Raises:
            PermissionError: the listener is not trusted (BUS-SEC-2), or a master
              refuses the link.
            QueueBrokerError, OSError, ValueError: see `SocketQueueBroker.connect`.
        """
        if not address.startswith("ipc://"):
            return self._outside.connect(broker, address, timeout_s)
        queue = broker.connect(address, PORT, timeout=timeout_s, required=True)
        assert isinstance(queue, SocketMessageQueue)
        return checked(queue, self._refusal(queue.peer))

    def new_nonce(self) -> int:
        """Return a random number that distinguishes rivals (AMO-17)."""
        return int.from_bytes(os.urandom(8)) >> 1

    def credentials(self, queue: MessageQueue) -> Credentials:
        """Return the identity of the process at the other end, and its rights."""
        known = self._outside.credentials(queue)
        if known is not None:
            return known
        assert isinstance(queue, SocketMessageQueue)
        peer = queue.peer
        rights = self._access.rights(peer.uid, peer.gid)
        assert rights is not None
        return Credentials(peer.uid, rights, self._machine)

    def addresses_to_dial(
        self, machine: str, addresses: Sequence[str]
    ) -> Sequence[str]:
        """Return UNIX sockets of this machine, and other addresses of others."""
        if machine == self._machine:
            return [each for each in addresses if each.startswith("ipc://")]
        return self._outside.addresses_to_dial(addresses)

    def listen_outside(
        self, inside: str
    ) -> tuple[SocketQueueBroker | None, tuple[str, ...]]:
        """Return the address for other machines; see `LinkPolicy`."""
        return self._outside.listen_outside(inside)


def checked(queue: SocketMessageQueue, why: str | None) -> SocketMessageQueue:
    """Return a dialled link, unless its listener is not trusted (BUS-SEC-2).

    why: the reason for that.

    Raises:
        PermissionError: there is one; the link is closed.
    """
    if why is not None:
        queue.disconnect()
        raise PermissionError(f"the listener there is not trusted: {why}")
    return queue


def _run_directory(bus: str, config: BusConfig) -> RunDirectory:
    """Return the run directory; an error names the setting for another one.

    The commands check a run directory before they join, and give a more exact remedy.
    """
    try:
        return RunDirectory(bus, config.access, config.run_directory)
    except AccessDeniedError as error:
        fact = f"{error.fact}; {ELSEWHERE}a folder of your own with mode 0700"
        raise AccessDeniedError(f"join bus {bus!r}", fact) from None
    except ValueError as error:
        raise ValueError(f"{error}; {ELSEWHERE}a shorter path in UTF-8") from None
