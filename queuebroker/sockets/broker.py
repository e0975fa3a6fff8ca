"""`SocketQueueBroker`: a `QueueBroker` that other processes can reach.

It adds an address to a broker of this process and decides nothing about the
rendezvous: a caller from another process waits in the same `RdVMap` as local callers.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import cast

from queuebroker import _net, _sync
from queuebroker._green import refuse_green_threads
from queuebroker._net import Socket
from queuebroker.arguments import (
    check_instance,
    check_name,
    check_port,
    deadline_after,
    positive,
)
from queuebroker.channel.message_queue import MessageQueue
from queuebroker.errors import (
    BrokerClosedError,
    BrokerNameInUseError,
    UnknownBrokerError,
)
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.meeting.meet import meet
from queuebroker.meeting.queue_broker import CAPACITY_MESSAGES, QueueBroker
from queuebroker.meeting.rendezvous import Kind, RdV, RdVState
from queuebroker.sockets.address import Address, Scheme, is_address
from queuebroker.sockets.driver import (
    Driver,
    await_background_end,
    default_driver,
)
from queuebroker.sockets.frames import NUMBER_MAX, TEXT_BYTES_MAX, Hello
from queuebroker.sockets.listener import Listener
from queuebroker.sockets.options import SocketOptions, limits_of
from queuebroker.sockets.outgoing_connect import OutgoingConnect
from queuebroker.sockets.tls import CurrentContext, Tls
from queuebroker.waiting.parking import Parker, own_parker

__all__ = ["SocketQueueBroker"]

# How long a connect with timeout 0 waits for the listener's answer, in seconds.
ANSWER_S = 0.5


class SocketQueueBroker(QueueBroker):
    """A named meeting point for `MessageQueue`\\ s, here and from other processes.

    `connect` takes the address of a broker, or the name of one in this process. An
    address where nothing listens is an unknown broker (QB-SOCK-2). A connect to an
    address also raises:

    * `NotAdmittedError`: the listener does not admit this peer.
    * `PermissionError`: the system denies this process access to the address.
    * `ProtocolError`: the service at that address is not a broker.
    * `OSError`: this process cannot connect at present, such as for lack of
      descriptors; or the host name does not resolve.

    Args:
        name: a non-empty str, as for `QueueBroker`; it is sent to the peers.
        listen: the address to listen at, ``ipc:///path``, ``tcp://host:port`` or
            ``tls://host:port``, port 0 for a free port; None to connect only.
        tls: for ``tls`` addresses: the certificate of this side and the authority it
            trusts.
        driver: the event loop for the sockets; by default one thread for the whole
            process. A caller that passes one must run it with `Driver.poll`.
        options: limits and settings, see `SocketOptions`.
        manager, capacity, max_message_size, strict_half: as for `QueueBroker`.

    A broker that is garbage collected while open emits a `ResourceWarning` and is
    closed (QB-PY-7).

    Raises:
        BrokerNameInUseError: the name, or the address, is in use.
        OSError: it cannot listen there for another reason.
        TypeError, ValueError: wrong arguments.
    """

    __slots__ = (
        "_address",
        "_connects",
        "_driver",
        "_listener",
        "_options",
        "_tls",
    )

    def __init__(
        self,
        name: str,
        *,
        listen: str | None = None,
        tls: Tls | None = None,
        driver: Driver | None = None,
        options: SocketOptions | None = None,
        manager: BrokerManager | None = None,
        capacity: int = CAPACITY_MESSAGES,
        max_message_size: int | None = None,
        strict_half: bool = False,
    ) -> None:
        refuse_green_threads()
        address = None if listen is None else Address.parse(listen)
        if driver is not None:
            check_instance("driver", driver, Driver)
        if options is not None:
            check_instance("options", options, SocketOptions)
        if tls is not None:
            check_instance("tls", tls, Tls)
        if address is not None and address.scheme is Scheme.TLS and tls is None:
            msg = f"cannot listen at {address}: tls is not given; pass a Tls"
            raise ValueError(msg)
        _check_length(name)
        positive("capacity", capacity, NUMBER_MAX)
        self._driver = driver
        self._options = SocketOptions() if options is None else options
        self._tls = tls
        self._connects = None if tls is None else CurrentContext(tls, server=False)
        self._listener: Listener | None = None
        self._address = address
        super().__init__(
            name,
            manager=manager,
            capacity=capacity,
            max_message_size=max_message_size,
            strict_half=strict_half,
        )
        self._capacity_max = NUMBER_MAX
        if address is not None:
            try:
                self._listen(address)
            except BaseException:
                self._broker.close()
                raise

    # Bound as defaults: at interpreter exit modules are emptied, including this one.
    def __del__(
        self,
        _ending: Callable[[], bool] = sys.is_finalizing,
        _warn: Callable[..., None] = warnings.warn,
    ) -> None:
        # An object whose construction failed may have no broker.
        broker = getattr(self, "_broker", None)
        if broker is None or broker.closed or broker.manager.foreign or _ending():
            return
        unclosed = f"unclosed {self!r}"
        # A finalizer may run while its thread holds any lock: the next call that
        # registers a name closes it, or the driver does.
        broker.manager.deferred.append(broker.close_locked)
        if (listener := self._listener) is not None:
            listener.driver.call(broker.manager.settle, listener)
        _warn(unclosed, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        where = "" if self._address is None else f" at {self._address}"
        return f"<SocketQueueBroker {self.name!r}{where} {state}>"

    # Listening.

    def _listen(self, address: Address) -> None:
        backlog = self._options.backlog
        secure = None
        if address.scheme is Scheme.TLS:
            assert self._tls is not None
            context = CurrentContext(self._tls, server=True)
            context.get()  # it refuses wrong files at once

            def secure(socket: Socket) -> Socket:
                return _net.secure(context.get(), socket, server=True)

        try:
            if address.scheme is Scheme.IPC:
                socket = _net.listen_ipc(
                    address.path, mode=self._options.mode, backlog=backlog
                )
            else:
                socket = _net.listen_tcp(address.host, address.port, backlog=backlog)
        except OSError as error:
            if not _net.is_in_use(error):
                error.filename = error.filename or str(address)
                raise
            msg = (
                f"cannot listen at {address}: the address is in use; choose another"
                " one, or close the broker that has it"
            )
            raise BrokerNameInUseError(msg) from None
        lease_s, farewell_s = limits_of(self._options, address.scheme)
        file = _net.identity_of(address.path) if address.scheme is Scheme.IPC else None
        if address.scheme is not Scheme.IPC:
            self._address = Address(address.scheme, address.host, _net.port_of(socket))
        try:
            driver = self._held_driver()
            try:
                listener = Listener(
                    self._broker,
                    socket,
                    driver,
                    self._options,
                    secure,
                    lease_s,
                    farewell_s,
                )
            except BaseException:
                driver.call(driver.release)
                raise
        except BaseException:
            # No driver serves it: remove both the socket and its file.
            socket.close()
            if file is not None:
                _net.unlink_if(address.path, file)
            raise
        self._listener = listener

        def farewell() -> None:
            # The file first: without it a connect fails at once, as to an unknown
            # broker.
            if file is not None:
                _net.unlink_if(address.path, file)
            listener.close()

        self._broker.on_close = farewell

    def _held_driver(self) -> Driver:
        if self._driver is None:
            return default_driver()
        if not self._driver.hold():
            msg = "cannot use sockets: their driver is closed"
            raise BrokerClosedError(msg)
        return self._driver

    @property
    def address(self) -> str | None:
        """The address it listens at, with the actual port; None if it does not."""
        return None if self._address is None else str(self._address)

    # Connecting.

    def _connect(
        self, name: str, port: int, timeout: float | None, strict_half: bool | None
    ) -> MessageQueue:
        if not is_address(name):
            try:
                return super()._connect(name, port, timeout, strict_half)
            except UnknownBrokerError as error:
                raise self._unknown_name(error) from None
        rdv, outgoing_connect, deadline = self._connecting(
            name, port, timeout, strict_half
        )
        try:
            end = meet(rdv, deadline, timeout, outgoing_connect.begin)
        except (BrokerClosedError, UnknownBrokerError) as error:
            raise outgoing_connect.error_for(error)  # noqa: B904 # it has its own cause
        finally:
            outgoing_connect.cancel()
        return cast("MessageQueue", end)  # of kind QUEUE, as requested

    @staticmethod
    def _unknown_name(error: UnknownBrokerError) -> UnknownBrokerError:
        """Return the error for a name, which denotes a broker of this process only."""
        return UnknownBrokerError(
            f"{error} in this process; give the address of a broker in another one,"
            " such as ipc:///path or tcp://host:port"
        )

    def _connecting(
        self,
        name: str,
        port: int,
        timeout: float | None,
        strict_half: bool | None,
        make: Callable[[], Parker] = own_parker,
    ) -> tuple[RdV, OutgoingConnect, float | None]:
        """Return a connect to an address, not yet started, and its deadline.

        make: as for `RdV`.
        """
        address = Address.parse(name)
        deadline = deadline_after(timeout)
        terms = self._terms_with(strict_half)
        number = check_port(port)
        self.manager.check_process()
        kind, state = Kind.QUEUE, RdVState.WAITING_CONNECT
        rdv = RdV(state, self._broker, name, kind, number, terms, make)
        if timeout == 0:
            deadline = _sync.monotonic() + ANSWER_S
        return rdv, self._outgoing_connect(rdv, address, waits=timeout != 0), deadline

    def _outgoing_connect(
        self, rdv: RdV, address: Address, *, waits: bool
    ) -> OutgoingConnect:
        hello = Hello(
            self.name,
            rdv.port,
            self._options.message_bytes_max,
            waits=waits,
            descriptors=self._options.descriptors_max
            if address.scheme is Scheme.IPC
            else 0,
        )
        secure: Callable[[Socket], Socket] | None = None
        if address.scheme is Scheme.TLS:
            if self._connects is None:
                msg = f"cannot connect to {address}: tls is not given; pass a Tls"
                raise ValueError(msg)
            tls, host = self._connects.get(), address.host

            def secure(socket: Socket) -> Socket:
                return _net.secure(tls, socket, server=False, host=host)

        lease_s, farewell_s = limits_of(self._options, address.scheme)
        return OutgoingConnect(
            rdv,
            address,
            hello,
            self._held_driver,
            secure,
            lease_s,
            farewell_s,
            self._options.connect_s,
        )

    # Closing.

    def close(self) -> None:
        """Free the name and the address, and end every wait here; see `Broker.close`.

        Queues remain open. If no socket of this process is left, this waits for the end
        of the driver's thread, at most one second.
        """
        super().close()
        if self._driver is None and not _sync.owns(self.manager.lock):
            await_background_end()


def _check_length(name: str) -> None:
    """Check that a name fits in a frame, so that it can be sent."""
    size = len(check_name(name).encode("utf-8", "surrogatepass"))
    if size > TEXT_BYTES_MAX:
        msg = f"name of a broker has at most {TEXT_BYTES_MAX} bytes, got {size}"
        raise ValueError(msg)
