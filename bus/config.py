"""`BusConfig`: every limit and every default of a bus, in one table.

Each field carries its unit, its bounds, its meaning and the clause that requires it.
The validators, and the documentation of limits (`limits_table`), are derived from
these. Other modules enforce a limit, under its name here. This module reads neither
clock nor memory.
"""

from __future__ import annotations

import ipaddress
import math
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs
from msgspec import Struct

from bus.access import AccessList
from bus.payload import TYPES_THAT_NEED_NO_ENCODER, Encoders

__all__ = ["BusConfig", "Limit", "limits_table"]

_KIB: Final = 2**10
_MIB: Final = 2**20


class Limit(Struct, frozen=True):
    """One line of the table of limits.

    name: the field of `BusConfig`; default: its value unless another is given.
    unit: the unit of measure or the thing counted, such as "s" or "messages".
    meaning: one sentence.
    clause: the number of the clause that requires it.
    """

    name: str
    default: float | str
    unit: str
    meaning: str
    clause: str


def limits_table() -> Iterator[Limit]:
    """Yield every limit in the order of the fields, as the docs list them."""
    for field in attrs.fields(BusConfig):
        about: Mapping[str, Any] = field.metadata
        default: Any = field.default
        if "unit" in about:
            yield Limit(
                name=field.name,
                default=default,
                unit=about["unit"],
                meaning=about["meaning"],
                clause=about["clause"],
            )


def _within(_: BusConfig, field: attrs.Attribute[Any], value: Any) -> None:
    """Check a number against the bounds of its field; its default fixes the type."""
    whole = isinstance(field.default, int)
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        expected = "an int" if whole else "a number"
        raise TypeError(f"{field.name} must be {expected}, got {value!r}")
    least, most = field.metadata["least"], field.metadata["most"]
    if not whole and value > sys.float_info.max and value != math.inf:
        raise ValueError(f"{field.name} must be a float, or math.inf for ever")
    if not value >= least:  # also rejects NaN
        raise ValueError(f"{field.name} must be >= {least}, got {value}")
    if value > most:
        raise ValueError(f"{field.name} must be <= {most}, got {value}")


def _limit(
    default: float, unit: str, clause: str, meaning: str, least: float, most: float
) -> Any:
    about = {"unit": unit, "clause": clause, "meaning": meaning}
    bounds = {"least": least, "most": most}
    return attrs.field(default=default, validator=_within, metadata=about | bounds)


def _timeout(default: float, clause: str, meaning: str) -> Any:
    """Declare a field for a time to wait; 0 means not at all."""
    return _limit(default, "s", clause, meaning, least=0.0, most=math.inf)


def _period(default: float, clause: str, meaning: str) -> Any:
    """Declare a field for an interval or a validity time; never 0."""
    return _limit(default, "s", clause, meaning, least=0.001, most=math.inf)


def _share(default: float, clause: str, meaning: str, least: float = 0.0) -> Any:
    return _limit(default, "of 1", clause, meaning, least=least, most=1.0)


def _count(
    default: int,
    unit: str,
    clause: str,
    meaning: str,
    *,
    least: float = 1,
    most: float = math.inf,
) -> Any:
    return _limit(default, unit, clause, meaning, least=least, most=most)


def _is_multicast(_: BusConfig, field: attrs.Attribute[str], value: str) -> None:
    # `ipaddress` also accepts an int as an address.
    if not isinstance(value, str):
        raise TypeError(f"{field.name} must be a str, got {value!r}")
    try:
        legal = ipaddress.ip_address(value).is_multicast
    except ValueError:
        legal = False
    if not legal:
        msg = f"{field.name} must be the IP address of a multicast group, got {value!r}"
        raise ValueError(msg)


def _is_bool(_: BusConfig, field: attrs.Attribute[bool], value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{field.name} must be a bool, got {value!r}")


def _option(clause: str, meaning: str, *, default: bool = False) -> Any:
    about = {"clause": clause, "meaning": meaning}
    return attrs.field(default=default, validator=_is_bool, metadata=about)


def _is_path(_: BusConfig, field: attrs.Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"{field.name} must be the path of a directory, got {value!r}")


def _is_access_list(
    _: BusConfig, field: attrs.Attribute[AccessList], value: object
) -> None:
    if not isinstance(value, AccessList):
        raise TypeError(f"{field.name} must be an AccessList, got {value!r}")


def _read_only(encoders: Encoders) -> Encoders:
    if not isinstance(encoders, Mapping):
        raise TypeError(f"encoders must be a mapping, got {encoders!r}")
    return MappingProxyType(dict(encoders))


def _are_encoders(_: BusConfig, field: attrs.Attribute[Any], value: Encoders) -> None:
    for kind, encoder in value.items():
        if not isinstance(kind, type):
            raise TypeError(f"{field.name} must be keyed by type, got {kind!r}")
        if kind in TYPES_THAT_NEED_NO_ENCODER:
            raise ValueError(
                f"{field.name} must be for types that cannot be sent, got {kind!r}"
            )
        if not callable(encoder):
            raise TypeError(f"{field.name}[{kind!r}] must be callable, got {encoder!r}")


@attrs.frozen(kw_only=True)
class BusConfig:
    """The options that a bus is opened with; each limit has its meaning beside it.

    encoders: how to convert types that messages cannot carry, by exact type
      (BUS-MSG-16). To pass the options to another process, use functions of a module.
    run_directory: where the processes of a machine meet, for all its buses; by default
      BUS_RUN_DIR from the environment, else the user's runtime directory (BUS-ENT-16).
      Must be the same in all processes of a bus.
    access: the users who may join besides the user's own processes (BUS-SEC-1).
    shared_memory: True if long messages for processes of the same machine travel
      through shared memory (MC-38), the sender's arena. Then their payloads
      arrive as read-only views.
    eager_relays: True if the master keeps a relay for each public task of its machine
      before the first message to it. Must be the same in all processes of a bus
      (BUS-INIT-13).
    follow_moved_tasks: True if a command whose addressee has moved to another machine
      is sent there; else its sender gets a `MovedError` with the new address
      (BUS-MOVE-9).

    Raises:
        TypeError, ValueError: its field does not allow a value; the text names both.
    """

    # Waiting.
    resolve_timeout_s: float = _timeout(
        5.0, "BUS-ROUTE-19", "Maximum time a message waits for a name that no task has."
    )
    command_timeout_s: float = _timeout(
        10.0, "BUS-FLOW-5", "Default time a command waits for its answer."
    )
    send_timeout_s: float = _timeout(
        10.0, "BUS-FLOW-2", "Maximum time a sending thread waits for room."
    )
    stuck_callback_s: float = _period(
        5.0,
        "BUS-DEREG-12",
        "Time a callback may delay the end of its thread before it is logged.",
    )

    # Memory.
    message_bytes_max: int = _count(
        16 * _MIB,
        "bytes",
        "BUS-MSG-16",
        "Maximum length of a message's encoded payload; at most 64 MiB.",
        # Both ends hold a whole frame in memory.
        most=64 * _MIB,
    )
    task_fifo_messages: int = _count(
        2048, "messages", "BUS-FLOW-1", "Maximum number of unread messages per task."
    )
    task_fifo_bytes: int = _count(
        16 * _MIB, "bytes", "BUS-FLOW-1", "Maximum number of unread bytes per task."
    )
    parked_per_name: int = _count(
        256, "messages", "BUS-FLOW-1", "Maximum number of messages parked for one name."
    )
    parked_per_process: int = _count(
        4096, "messages", "BUS-FLOW-1", "Maximum number of parked messages in all."
    )
    searches_per_process: int = _count(
        4096,
        "searches",
        "BUS-FLOW-1",
        "Maximum number of searches that a process keeps for one other process.",
    )
    searches_in_all: int = _count(
        16_384,
        "searches",
        "BUS-FLOW-1",
        "Maximum number of searches that a process keeps for all others.",
    )
    public_tasks_per_process: int = _count(
        100_000,
        "tasks",
        "BUS-FLOW-1",
        "Maximum number of public tasks of one process at its master.",
    )
    relays_per_process: int = _count(
        100_000,
        "relays",
        "BUS-FLOW-1",
        "Maximum number of relays in one process for tasks of another.",
    )
    subscriptions_per_process: int = _count(
        10_000,
        "requests",
        "BUS-FLOW-1",
        "Maximum number of subscriptions and watches kept for one other process.",
    )
    subscriptions_in_all: int = _count(
        65_536,
        "requests",
        "BUS-FLOW-1",
        "Maximum number of subscriptions and watches kept for all others.",
    )

    # Links.
    window: int = _count(
        # If a process is killed, so many messages to each of its tasks are in doubt. A
        # window twice as long sends no more short commands per second, one half as long
        # 4 % fewer on one core, and a quarter of it a fifth fewer.
        4096,
        "messages",
        "BUS-RELAY-11",
        "Maximum number of messages sent to one task and not yet taken by it.",
    )
    window_bytes: int = _count(
        8 * _MIB,
        "bytes",
        "BUS-RELAY-11",
        "Maximum number of bytes sent to one task and not yet taken by it.",
    )
    link_frames: int = _count(
        256, "frames", "BUS-CHAN-8", "Maximum number of frames that wait for a link."
    )
    backlog_frames: int = _count(
        # More than can wait for a process that reads. Each of its tasks, up to
        # `public_tasks_per_process`, takes four frames from its export to its end, at
        # worst all at once; messages take at most one frame per number of the stream.
        2**19,
        "frames",
        "BUS-CHAN-8",
        "Maximum number of further frames for a process before its link is aborted.",
    )
    backlog_bytes: int = _count(
        # The windows of 128 tasks of one process, full of unread messages.
        1024 * _MIB,
        "bytes",
        "BUS-CHAN-8",
        "Maximum length of these further frames before the link is aborted.",
    )
    connect_timeout_s: float = _timeout(
        5.0, "BUS-CHAN-3", "Maximum time to reach the host of a link's other end."
    )
    relink_timeout_s: float = _timeout(
        0.5, "BUS-MOVE-8", "Time without a link after which a process is declared lost."
    )
    ack_delay_s: float = _timeout(
        0.01, "BUS-RELAY-9", "Maximum delay of an acknowledgement, to combine several."
    )
    link_linger_s: float = _timeout(
        1.0, "BUS-DEREG-13", "Time for which an unused relay or link is kept."
    )
    keep_alive_s: float = _period(
        2.5, "BUS-DISC-12", "Time without a frame after which a link sends a PING."
    )
    lease_s: float = _period(
        10.0,
        "BUS-DISC-12",
        "Time without a frame, or an announcement, after which it counts as lost.",
    )

    # Peers not yet authenticated.
    auth_timeout_s: float = _timeout(
        5.0, "BUS-SEC-9", "Maximum time for a peer to authenticate itself."
    )
    unauthenticated_links: int = _count(
        64, "links", "BUS-SEC-9", "Maximum number of links to unauthenticated peers."
    )
    unauthenticated_bytes: int = _count(
        4 * _KIB,
        "bytes",
        "BUS-SEC-9",
        "Maximum number of bytes read from an unauthenticated peer.",
    )

    # Streams between processes.
    stream_window: int = _count(
        16_384,
        "numbers",
        "AMO-13",
        "Maximum distance of a sender's numbers from its floor.",
    )
    missing_ranges_per_stream: int = _count(
        1024, "ranges", "AMO-14", "Maximum number of missing ranges kept per stream."
    )
    ended_stream_s: float = _period(
        3600.0, "AMO-21", "Time for which an ended stream is remembered."
    )
    ended_streams_max: int = _count(
        4096, "streams", "AMO-21", "Maximum number of ended streams remembered."
    )

    # Shared memory.
    arena_bytes: int = _count(
        64 * _MIB,
        "bytes",
        "MC-29",
        "Maximum size of the shared memory of a process, its arena.",
        least=64 * _KIB,
    )
    arena_share_per_recipient: float = _share(
        0.25,
        "MC-31",
        "Maximum part of an arena that one recipient may hold.",
        least=0.01,
    )
    arena_threshold_bytes: int = _count(
        128 * _KIB,
        "bytes",
        "MC-38",
        "Minimum length of an encoded payload that is sent through an arena.",
        # A shorter body shares a frame with other messages.
        least=128 * _KIB,
    )

    # Other machines.
    announce_s: float = _period(
        1.0, "BUS-DISC-3", "Interval between announcements of a machine."
    )
    announce_jitter: float = _share(
        0.2, "BUS-DISC-3", "Relative variation of that interval."
    )
    multicast_group: str = attrs.field(
        default="239.255.73.77",  # administratively scoped
        validator=_is_multicast,
        metadata={
            "unit": "address",
            "clause": "BUS-DISC-2",
            "meaning": "Multicast group of announcements on a WAN.",
        },
    )
    ttl_lan: int = _count(
        1, "hops", "BUS-DISC-2", "Maximum hops of an announcement on a LAN.", most=255
    )
    ttl_wan: int = _count(
        8, "hops", "BUS-DISC-2", "Maximum hops of an announcement on a WAN.", most=255
    )

    # Options that are not limits.
    shared_memory: bool = _option(
        "MC-38", "True if long messages travel through shared memory.", default=True
    )
    eager_relays: bool = _option(
        "BUS-INIT-13", "True if the master has a relay for each public task at once."
    )
    follow_moved_tasks: bool = _option(
        "BUS-MOVE-9", "True if commands follow a task to another machine."
    )
    run_directory: str | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(_is_path),
        metadata={
            "clause": "BUS-ENT-16",
            "meaning": "Directory where the processes of a machine find each other.",
        },
    )
    access: AccessList = attrs.field(
        factory=AccessList,
        validator=_is_access_list,
        metadata={
            "clause": "BUS-SEC-1",
            "meaning": "Users that may join; their rights.",
        },
    )
    encoders: Encoders = attrs.field(
        factory=dict,
        converter=_read_only,
        validator=_are_encoders,
        hash=False,
        metadata={"meaning": "Encoders for payloads of the user's own types."},
    )

    def __reduce__(self) -> tuple[Any, ...]:
        # A `MappingProxyType` can be neither pickled nor copied.
        given = {
            each.name: getattr(self, each.name) for each in attrs.fields(BusConfig)
        }
        given["encoders"] = dict(self.encoders)
        return _config_with, (type(self), given)

    def __attrs_post_init__(self) -> None:
        if self.lease_s <= self.keep_alive_s and self.lease_s != math.inf:
            # Otherwise every silent link would be closed before it was probed.
            raise ValueError(
                f"lease_s must be > keep_alive_s, got {self.lease_s} "
                f"and {self.keep_alive_s}"
            )


def _config_with(kind: type[BusConfig], given: dict[str, Any]) -> BusConfig:
    return kind(**given)
