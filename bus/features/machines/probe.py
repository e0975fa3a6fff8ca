"""`PeerProbe`: tries the steps to a link with another machine, without joining a bus.

It uses the sockets and the frames of a real link. Its HELLO is that of a process with
data for the peer, not of a master: the peer must not take it for one.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from bus.errors import WireError
from bus.features.machines.discovery import Discovery, DiscoverySettings
from bus.features.machines.machine_table import Change
from bus.kernel.wire import (
    FRAME_BYTES_MAX,
    VERSIONS,
    Hello,
    LinkKind,
    Reason,
    Refused,
    Welcome,
    decode,
    encode,
)
from bus.process.link_helpers import PORT
from queuebroker import _net, _sync
from queuebroker.errors import (
    DisconnectedError,
    QueueBrokerError,
    ReceiveTimeoutError,
    RendezvousTimeoutError,
    UnknownBrokerError,
)
from queuebroker.meeting.broker_manager import BrokerManager
from queuebroker.sockets import (
    NotAdmittedError,
    PeerLostError,
    ProtocolError,
    SocketMessageQueue,
    SocketQueueBroker,
)
from queuebroker.sockets.address import Address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.features.machines.machine_table import Machine
    from bus.kernel.wire import Identity
    from bus.process.peer_trust import PeerTrust

__all__ = [
    "AnnouncementSurvey",
    "Fault",
    "PeerProbe",
    "Step",
    "Trial",
    "certificate_fault",
]


class Step(enum.Enum):
    """A step to a link; each needs the one before it."""

    TCP = "tcp"
    TLS = "tls"
    BUS = "bus"


class Fault(enum.Enum):
    """The reason for which a step fails."""

    PORT_CLOSED = "port closed"
    NO_HOST = "no host"
    DROPPED = "packets are dropped"
    NAME = "unknown host name"
    NO_BUS = "another service"
    UNTRUSTED = "another authority"
    EXPIRED = "expired certificate"
    NOT_YET_VALID = "certificate not yet valid"
    TLS = "TLS failure"
    MACHINE_NAME = "another machine name"
    CONFLICT = "two machines of one name"
    VERSION = "another protocol version"
    OTHER_BUS = "another bus"
    ACCESS = "no access"
    CLOSED = "closed without an answer"
    SILENT = "no answer"


@attrs.frozen
class Trial:
    """The result of the steps to one address.

    step: the last one that was tried. fault: why it failed; None if all succeeded.
    fact: the finding in words. machine: the one that the peer has proved, or stated.
    """

    address: str
    step: Step
    fault: Fault | None
    fact: str
    machine: str = ""


class _FailedError(Exception):
    """Carries the fault of a step from where it is found."""

    def __init__(self, step: Step, fault: Fault, fact: str) -> None:
        super().__init__(fact)
        self.step, self.fault, self.fact = step, fault, fact


_CERTIFICATE: Final = {
    _net.CertificateFault.EXPIRED: Fault.EXPIRED,
    _net.CertificateFault.NOT_YET_VALID: Fault.NOT_YET_VALID,
    _net.CertificateFault.UNTRUSTED: Fault.UNTRUSTED,
}
_REFUSALS: Final = {
    Reason.BUS: Fault.OTHER_BUS,
    Reason.VERSION: Fault.VERSION,
    Reason.MACHINE_NAME: Fault.CONFLICT,
    Reason.DUPLICATE: Fault.CONFLICT,
}


def certificate_fault(error: _net.TlsError) -> Fault:
    """Return the fault of a TLS handshake that failed, here or at the peer."""
    found = _net.certificate_fault(error)
    return Fault.TLS if found is None else _CERTIFICATE[found]


class PeerProbe:
    """The trials of one machine; any thread may call `trial`.

    Args:
        me: the identity of the process that dials, a slave of this machine.
        trust: the keys of this machine.
        timeout_s: for each step, in seconds.
    """

    def __init__(self, me: Identity, trust: PeerTrust, timeout_s: float) -> None:
        self._identity: Final = me
        self._trust: Final = trust
        self._timeout_s: Final = timeout_s

    def trial(self, address: str, expected: str | None = None) -> Trial:
        """Try all steps to the master at an address; close the connection again.

        expected: the machine that has announced this address; None if it is not known.
        """
        try:
            machine = self._try(address, expected)
        except _FailedError as failed:
            return Trial(address, failed.step, failed.fault, failed.fact)
        fact = f"machine {machine} accepts this one"
        return Trial(address, Step.BUS, None, fact, machine)

    def _try(self, address: str, expected: str | None) -> str:
        # In a separate manager, since another probe may use the same name.
        with SocketQueueBroker(
            self._identity.process, tls=self._trust.tls, manager=BrokerManager()
        ) as broker:
            queue = self._connect(broker, address)
            with queue:
                self._check_certificate(queue, expected)
                return self._greet(queue)

    # TCP and TLS.

    def _connect(self, broker: SocketQueueBroker, address: str) -> SocketMessageQueue:
        try:
            queue = broker.connect(
                address, PORT, timeout=self._timeout_s, required=True
            )
        except UnknownBrokerError as error:
            raise _unreached(error.__cause__) from None
        except RendezvousTimeoutError:
            raise self._late(address) from None
        except NotAdmittedError as error:
            raise _FailedError(Step.BUS, Fault.ACCESS, str(error)) from None
        except ProtocolError as error:
            raise _FailedError(Step.TLS, Fault.NO_BUS, str(error)) from None
        except QueueBrokerError as error:
            raise _ended(error) from None
        except _net.TlsError as error:
            raise _insecure(error) from None
        except OSError as error:
            # Such as a host name that does not resolve.
            fact = f"cannot connect: {error.strerror or error}"
            raise _FailedError(Step.TCP, Fault.NAME, fact) from None
        assert isinstance(queue, SocketMessageQueue)
        return queue

    def _late(self, address: str) -> _FailedError:
        """Find out which step got no answer: a second connect does the first alone."""
        place = Address.parse(address)
        waited = f"no answer within {self._timeout_s:g} s"
        try:
            _net.reach(place.host, place.port, self._timeout_s)
        except TimeoutError:
            return _FailedError(Step.TCP, Fault.DROPPED, waited)
        except OSError as error:
            return _unreached(error)
        return _FailedError(Step.TLS, Fault.SILENT, f"connected, but {waited}")

    def _check_certificate(
        self, queue: SocketMessageQueue, expected: str | None
    ) -> None:
        """Check the machine that the peer proves (BUS-SEC-5)."""
        if (why := self._trust.outside_refusal(queue.peer)) is not None:
            raise _FailedError(Step.TLS, Fault.MACHINE_NAME, why)
        proved = self._trust.proved(queue)
        if expected and proved and proved != expected:
            fact = f"machine {expected} is announced, {proved} is certified there"
            raise _FailedError(Step.TLS, Fault.MACHINE_NAME, fact)
        if proved == self._identity.machine:
            raise self._conflict()

    def _conflict(self) -> _FailedError:
        name = self._identity.machine
        fact = f"the machine there has the name of this one, {name}"
        return _FailedError(Step.BUS, Fault.CONFLICT, fact)

    # The handshake of the bus.

    def _greet(self, queue: SocketMessageQueue) -> str:
        """Send HELLO; return the machine that answers with WELCOME."""
        hello = Hello(
            versions=VERSIONS,
            identity=self._identity,
            kind=LinkKind.DATA,
            message_bytes_max=FRAME_BYTES_MAX,
        )
        try:
            queue.send(encode(hello), timeout=self._timeout_s)
            answer = decode(queue.receive(timeout=self._timeout_s))
        except ReceiveTimeoutError:
            fact = f"no answer to HELLO within {self._timeout_s:g} s"
            raise _FailedError(Step.BUS, Fault.SILENT, fact) from None
        except DisconnectedError:
            fact = "closed without an answer to HELLO"
            raise _FailedError(Step.BUS, Fault.CLOSED, fact) from None
        except WireError as error:
            fact = f"the answer to HELLO is no frame: {error}"
            raise _FailedError(Step.BUS, Fault.NO_BUS, fact) from None
        if isinstance(answer, Refused):
            raise self._refused(answer)
        if not isinstance(answer, Welcome):
            fact = "the answer to HELLO is neither WELCOME nor REFUSED"
            raise _FailedError(Step.BUS, Fault.NO_BUS, fact)
        return self._welcomed(queue, answer)

    def _welcomed(self, queue: SocketMessageQueue, answer: Welcome) -> str:
        machine = answer.identity.machine
        proved = self._trust.proved(queue)
        if proved and proved != machine:
            fact = f"machine {proved} claims to be {machine}"
            raise _FailedError(Step.BUS, Fault.MACHINE_NAME, fact)
        if machine == self._identity.machine:
            raise self._conflict()
        return machine

    def _refused(self, answer: Refused) -> _FailedError:
        if answer.machine == self._identity.machine:
            return self._conflict()
        fault = _REFUSALS.get(answer.reason, Fault.ACCESS)
        fact = f"REFUSED: {answer.reason.value}"
        if fault is Fault.VERSION:
            ours, theirs = (_versions(each) for each in (VERSIONS, answer.versions))
            fact = f"{fact}: it has {theirs}, this machine {ours}"
        return _FailedError(Step.BUS, fault, fact)


def _versions(pair: tuple[int, int]) -> str:
    lowest, highest = pair
    if lowest == highest:
        return f"version {lowest}"
    return f"versions {lowest} to {highest}"


def _unreached(cause: BaseException | None) -> _FailedError:
    """Return the failure of a TCP connect, from the system's error."""
    if isinstance(cause, ConnectionRefusedError):
        fact = "connection refused: the host answers, nothing listens at the port"
        return _FailedError(Step.TCP, Fault.PORT_CLOSED, fact)
    if isinstance(cause, TimeoutError):
        return _FailedError(Step.TCP, Fault.DROPPED, "no answer: connect timed out")
    words = (isinstance(cause, OSError) and cause.strerror) or "nobody listens there"
    return _FailedError(Step.TCP, Fault.NO_HOST, words.lower())


def _insecure(error: _net.TlsError) -> _FailedError:
    return _FailedError(Step.TLS, certificate_fault(error), _net.tls_reason(error))


def _ended(error: QueueBrokerError) -> _FailedError:
    """Return the failure of a connection that the peer has closed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, _net.TlsError) and not isinstance(cause, _net.TLS_ENDED):
            return _insecure(cause)
        if isinstance(cause, PeerLostError | OSError):
            break
        cause = cause.__cause__
    return _FailedError(Step.TLS, Fault.CLOSED, f"closed by the other side: {error}")


class AnnouncementSurvey:
    """The announcements that reach this host during some time.

    Args:
        me: the identity of a process of this machine. Its own announcements are known
          by its name and its id.
        scheme: of the addresses, ``tls`` or ``tcp``.
        keys: the group keys; empty without keys.
        interval_s: the interval between the announcements of a machine, in seconds.

    conflicts: the machines whose name another one has.
    """

    __slots__ = ("_discovery", "conflicts")

    def __init__(
        self, me: Identity, scheme: str, keys: Sequence[bytes], interval_s: float
    ) -> None:
        settings = DiscoverySettings(
            host="127.0.0.1",  # this machine is not announced
            port=1,
            scheme=scheme,
            keys=keys,
            interval_s=interval_s,
            jitter=0.0,
            lease_s=60.0,  # nothing is forgotten in so short a time
        )
        # A higher instance than that of a master of this machine, which is its
        # predecessor then, and no conflict.
        self._discovery: Final = Discovery(me, _sync.wall_ns(), settings, lambda: 0.0)
        self.conflicts: Final[list[Machine]] = []

    def listen(self, datagrams: _net.Datagrams, until: float) -> None:
        """Read announcements until a time, on the monotonic clock in seconds."""
        while (left_s := until - _sync.monotonic()) > 0:
            _net.wait_to_read(datagrams.fileno(), left_s)
            while (found := datagrams.receive()) is not None:
                self._read(*found)
                if _sync.monotonic() >= until:
                    return

    def _read(self, data: bytes, host: str) -> None:
        event = self._discovery.on_datagram(data, host, _sync.monotonic())
        if event is not None and event.change is Change.CONFLICT:
            self.conflicts.append(event.machine)

    def machines(self) -> list[Machine]:
        """Return the machines that were found."""
        return list(self._discovery.machines)

    def rejected(self) -> dict[str, int]:
        """Return the number of ignored datagrams, by reason."""
        counted = self._discovery.reader.rejected
        return {reason.value: count for reason, count in counted.items()}
