"""`SocketOptions`: the limits that a broker sets for its peers, with their defaults."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from queuebroker.arguments import (
    check_callable,
    check_port,
    index,
    positive,
    seconds,
    wrong_type,
)
from queuebroker.sockets.address import Scheme
from queuebroker.sockets.frames import MESSAGE_BYTES_MAX
from queuebroker.sockets.peer import Peer

__all__ = ["Admit", "OnRejected", "SocketOptions", "limits_of"]

# Receives the peer; returns None to admit it, or the reason to reject it.
Admit = Callable[["Peer"], str | None]
# Receives one line of text about a peer that was rejected.
OnRejected = Callable[[str], object]


def _positive(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    positive(attribute.name, value)


def _bytes(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    positive(attribute.name, value, MESSAGE_BYTES_MAX)


def _ports(value: Iterable[int] | None) -> frozenset[int] | None:
    if value is None:
        return None
    if not isinstance(value, Iterable):
        raise wrong_type("ports", "ints or None", value)
    return frozenset(map(check_port, value))


def _positive_or_none(
    _: object, attribute: attrs.Attribute[Any], value: object
) -> None:
    if value is not None:
        positive(attribute.name, value)


def _count(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not 0 <= index(attribute.name, value) <= 253:
        msg = f"{attribute.name} must be in 0..253, got {value}"
        raise ValueError(msg)


def _seconds(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    seconds(attribute.name, value, has_zero=False)


def _mode(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not 0 <= index(attribute.name, value) <= 0o7777:
        msg = f"{attribute.name} must be in 0..0o7777, got {value!r}"
        raise ValueError(msg)


def _seconds_or_none(
    instance: object, attribute: attrs.Attribute[Any], value: float | None
) -> None:
    if value is not None:
        _seconds(instance, attribute, value)


def _callable(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None:
        check_callable(attribute.name, value)


@attrs.frozen(slots=True, kw_only=True)
class SocketOptions:
    """Limits and settings of the connections of one broker.

    A number of seconds may have any size; ``math.inf`` means no limit.

    mode: permissions of the socket file (``ipc``).
    backlog: connects that the kernel queues until they are accepted.
    message_bytes_max: bytes of the longest message, even if ``max_message_size`` sets
        no limit: it bounds the memory that a peer can make this process allocate.
    first_frame_bytes_max: bytes of the first frame of a peer.
    unanswered_bytes_max: bytes of the longest message from a peer that has connected
        here and was sent no message yet. Use it for protocols in which the peer first
        introduces itself. None: as for any other message.
    farewell_s: seconds that a connection which this end has left may stay open. It is
        closed as soon as all output is written, without a good-bye of the peer, and
        after this time at the latest (``ipc``: the peer can read the written bytes even
        after that). None: it stays open until the peer has received all messages and
        acknowledged them.
    connect_s: seconds within which the system of the other host must accept a connect
        (``tcp``, ``tls``); else the connect fails. After that, a slow listener has
        the timeout of the call.
    handshake_s: seconds within which a peer must send its name and the port it wants.
    unknown_peers_max: peers at a time that have not sent those yet. A further peer
        takes the place of the oldest, since a correct peer sends them at once.
    waiting_peers_max: peers at a time that wait to be accepted.
    ports: ports that peers may connect to; at a port without an accept they would wait
        without a limit. None: any port.
    lease_s: seconds of silence after which a peer is lost (``tcp``, ``tls``).
    descriptors_max: descriptors that a message may carry (``ipc``); both sides must
        allow them.
    admit: called for each peer that connects here, in the driver's thread: it must
        not block. If it raises, the peer is rejected.
    on_rejected: called with one line of text for each peer that is rejected, or that
        ends before it has sent its name: the address of the peer and the reason, such
        as a failed TLS handshake. In the driver's thread: it must not block. If it
        raises, the error is logged.
    """

    mode: int = attrs.field(default=0o600, validator=_mode)
    backlog: int = attrs.field(default=128, validator=_positive)
    message_bytes_max: int = attrs.field(default=1 << 28, validator=_bytes)
    first_frame_bytes_max: int = attrs.field(default=16384, validator=_positive)
    unanswered_bytes_max: int | None = attrs.field(
        default=None, validator=_positive_or_none
    )
    farewell_s: float | None = attrs.field(default=None, validator=_seconds_or_none)
    connect_s: float = attrs.field(default=math.inf, validator=_seconds)
    handshake_s: float = attrs.field(default=10.0, validator=_seconds)
    unknown_peers_max: int = attrs.field(default=128, validator=_positive)
    waiting_peers_max: int = attrs.field(default=16384, validator=_positive)
    ports: frozenset[int] | None = attrs.field(default=None, converter=_ports)
    lease_s: float = attrs.field(default=20.0, validator=_seconds)
    descriptors_max: int = attrs.field(default=0, validator=_count)
    admit: Admit | None = attrs.field(default=None, validator=_callable)
    on_rejected: OnRejected | None = attrs.field(default=None, validator=_callable)


def limits_of(
    options: SocketOptions, scheme: Scheme
) -> tuple[float | None, float | None]:
    """Return `lease` and `farewell` for the links of a scheme, None for no limit.

    Only UNIX sockets have a farewell: if TCP is closed early, it loses the output in
    transit.
    """
    if scheme is Scheme.IPC:
        return None, options.farewell_s
    return options.lease_s, None
