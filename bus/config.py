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

from bus.access import AccessList
from bus.payload import TYPES_THAT_NEED_NO_ENCODER, Encoders

__all__ = ["BusConfig", "Limit", "limits_table"]

_KIB: Final = 2**10
_MIB: Final = 2**20


@attrs.frozen
class Limit:
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


def _share(default: float, clause: str, meaning: str) -> Any:
    return _limit(default, "of 1", clause, meaning, least=0.0, most=1.0)


def _count(
    default: int, unit: str, clause: str, meaning: str, most: float = math.inf
) -> Any:
    return _limit(default, unit, clause, meaning, least=1, most=most)


def _is_multicast(_: BusConfig, field: attrs.Attribute[str], value: str) -> None:
    # `ipaddress` also accepts an int as an address.
    if not isinstance(value, str):
        raise TypeError(f"{field.name} must be a str, got {value!r}")
    try:
        legal = ipaddress.IPv4Address(value).is_multicast
    except ValueError:
        legal = False
    if not legal:
        raise ValueError(f"{field.name} must be an IPv4 multicast group, got {value!r}")


def _is_bool(_: BusConfig, field: attrs.Attribute[bool], value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{field.name} must be a bool, got {value!r}")


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
      (BUS-MSG-16).
    run_directory: where the processes of a machine meet, for all its buses; by default
      BUS_RUN_DIR from the environment, else the user's runtime directory (BUS-ENT-16).
      Must be the same in all processes of a bus.
    access: the users who may join besides the user's own processes (BUS-SEC-1).
    eager_relays: True if the master keeps a relay for each public task of its machine
      before the first message to it. Must be the same in all processes of a bus
      (BUS-INIT-13).

    Raises:
        TypeError, ValueError: its field does not allow a value; the text names both.
    """

    # Waiting.
    resolve_timeout_s: float = _timeout(
        5.0, "BUS-ROUTE-19", "How long a message waits for a name nobody has."
    )
    command_timeout_s: float = _timeout(
        10.0, "BUS-FLOW-5", "How long an answer to a command is waited for."
    )
    send_timeout_s: float = _timeout(
        10.0, "BUS-FLOW-2", "How long a thread that sends waits for room."
    )
    stuck_callback_s: float = _period(
        5.0,
        "BUS-DEREG-12",
        "How long a callback may delay the end of its thread before the log names it.",
    )

    # Memory.
    message_bytes_max: int = _count(
        16 * _MIB,
        "bytes",
        "BUS-MSG-16",
        "How long the encoded payload of a message may be.",
        # Both ends hold a whole frame in memory.
        most=64 * _MIB,
    )
    task_fifo_messages: int = _count(
        2048, "messages", "BUS-FLOW-1", "How many messages may lie unread for a task."
    )
    task_fifo_bytes: int = _count(
        16 * _MIB, "bytes", "BUS-FLOW-1", "How many bytes may lie unread for a task."
    )
    parked_per_name: int = _count(
        256, "messages", "BUS-FLOW-1", "How many messages may wait for one name."
    )
    parked_per_process: int = _count(
        4096, "messages", "BUS-FLOW-1", "How many messages may wait for any name."
    )
    searches_per_process: int = _count(
        4096,
        "searches",
        "BUS-FLOW-1",
        "How many searches of one process are kept by another.",
    )
    searches_in_all: int = _count(
        16_384,
        "searches",
        "BUS-FLOW-1",
        "How many searches of all others are kept by a process.",
    )
    exports_per_process: int = _count(
        100_000,
        "tasks",
        "BUS-FLOW-1",
        "How many public tasks of one process its master knows.",
    )
    relays_per_process: int = _count(
        100_000,
        "relays",
        "BUS-FLOW-1",
        "How many tasks of one process have a relay in another.",
    )
    subscriptions_per_process: int = _count(
        10_000,
        "requests",
        "BUS-FLOW-1",
        "How many subscriptions and watches of one process are kept by another.",
    )
    subscriptions_in_all: int = _count(
        65_536,
        "requests",
        "BUS-FLOW-1",
        "How many subscriptions and watches of all others are kept by a process.",
    )

    # Links.
    window: int = _count(
        # Much of the cost of a window does not depend on its length: with a quarter of
        # this value, two processes exchange a fifth fewer short commands per second.
        8192,
        "messages",
        "BUS-RELAY-11",
        "How many messages to one task may be on a link, not taken by it yet.",
    )
    window_bytes: int = _count(
        8 * _MIB,
        "bytes",
        "BUS-RELAY-11",
        "How many bytes to one task may be on a link, not taken by it yet.",
    )
    link_frames: int = _count(
        256, "frames", "BUS-CHAN-8", "How many frames may wait for a link."
    )
    backlog_frames: int = _count(
        # More than can wait for a process that reads. Each of its tasks, up to
        # `exports_per_process`, takes four frames from its export to its end, at worst
        # all at once; messages take at most one frame per number of the stream.
        2**19,
        "frames",
        "BUS-CHAN-8",
        "How many more may wait for a process before the link is given up.",
    )
    backlog_bytes: int = _count(
        # The windows of 128 tasks of one process, full of unread messages.
        1024 * _MIB,
        "bytes",
        "BUS-CHAN-8",
        "How long these may be before the link is given up.",
    )
    connect_timeout_s: float = _timeout(
        5.0, "BUS-CHAN-3", "How long the making of a link may take."
    )
    relink_timeout_s: float = _timeout(
        0.5, "BUS-MOVE-8", "How long a process may be without a link before it is lost."
    )
    ack_delay_s: float = _timeout(
        0.01, "BUS-RELAY-9", "How long an acknowledgement may wait for more of them."
    )
    link_linger_s: float = _timeout(
        1.0, "BUS-DEREG-13", "How long a relay, or a link, is kept that nobody uses."
    )
    keep_alive_s: float = _period(
        2.5, "BUS-DISC-12", "After how long a silence a link asks for a sign of life."
    )
    lease_s: float = _period(
        10.0,
        "BUS-DISC-12",
        "After how long a silence a process is said to be stuck, or given up.",
    )

    # Peers not yet authenticated.
    auth_timeout_s: float = _timeout(
        5.0, "BUS-SEC-9", "How long a link may be open to a peer that is not known yet."
    )
    unauthenticated_links: int = _count(
        64, "links", "BUS-SEC-9", "How many links may be open to peers not known yet."
    )
    unauthenticated_bytes: int = _count(
        4 * _KIB,
        "bytes",
        "BUS-SEC-9",
        "How many bytes are read of a peer not known yet.",
    )

    # Streams between processes.
    stream_window: int = _count(
        16_384,
        "numbers",
        "AMO-13",
        "How far a sender's numbers run ahead of its floor.",
    )
    missing_ranges: int = _count(
        1024, "ranges", "AMO-14", "How many gaps of a stream are kept."
    )
    takeover_s: float = _timeout(
        10.0, "AMO-18", "How long an identity is kept for a sender that is gone."
    )
    message_life_s: float = _period(
        3600.0, "AMO-21", "How long it is remembered that a stream has ended."
    )
    ended_streams: int = _count(
        4096, "streams", "AMO-21", "Of how many streams that is remembered."
    )

    # Shared memory.
    arena_bytes: int = _count(
        64 * _MIB, "bytes", "MC-29", "How much memory a process shares: its arena."
    )
    arena_buffer_bytes: int = _count(
        64 * _KIB, "bytes", "MC-29", "How long each buffer of an arena is."
    )
    arena_share: float = _share(
        0.25, "MC-31", "The part of an arena that one recipient may hold."
    )
    arena_threshold_bytes: int = _count(
        64 * _KIB,
        "bytes",
        "MC-29",
        "From which length on a payload goes through an arena.",
    )

    # Other machines.
    announce_s: float = _period(
        1.0, "BUS-DISC-3", "How often a machine announces itself."
    )
    announce_jitter: float = _share(
        0.2, "BUS-DISC-3", "By which part the time between announcements varies."
    )
    multicast_group: str = attrs.field(
        default="239.255.73.77",  # administratively scoped
        validator=_is_multicast,
        metadata={
            "unit": "address",
            "clause": "BUS-DISC-2",
            "meaning": "The group that announcements on a WAN go to.",
        },
    )
    ttl_lan: int = _count(
        1, "hops", "BUS-DISC-2", "How far announcements go on a LAN.", most=255
    )
    ttl_wan: int = _count(
        8, "hops", "BUS-DISC-2", "How far announcements go on a WAN.", most=255
    )

    # Options that are not limits.
    eager_relays: bool = attrs.field(
        default=False,
        validator=_is_bool,
        metadata={
            "clause": "BUS-INIT-13",
            "meaning": "Whether a master has a relay of each public task at once.",
        },
    )
    run_directory: str | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(_is_path),
        metadata={
            "clause": "BUS-ENT-16",
            "meaning": "Where the processes of all buses of a machine meet.",
        },
    )
    access: AccessList = attrs.field(
        factory=AccessList,
        validator=_is_access_list,
        metadata={"clause": "BUS-SEC-1", "meaning": "Who may join, and do what."},
    )
    encoders: Encoders = attrs.field(
        factory=dict,
        converter=_read_only,
        validator=_are_encoders,
        hash=False,
        metadata={"meaning": "How payloads are made of the user's own types."},
    )

    def __attrs_post_init__(self) -> None:
        if self.lease_s <= self.keep_alive_s and self.lease_s != math.inf:
            # Otherwise every silent link would be closed before it was probed.
            raise ValueError(
                f"lease_s must be > keep_alive_s, got {self.lease_s} "
                f"and {self.keep_alive_s}"
            )
        if self.arena_buffer_bytes > self.arena_bytes:
            raise ValueError(
                f"arena_buffer_bytes must be <= arena_bytes, "
                f"got {self.arena_buffer_bytes} and {self.arena_bytes}"
            )
