"""`BusConfig`: the settings of a bus, in one table.

Each field carries its unit, its bounds, its clause, and one sentence with its meaning
and the reason to change it. The validators and the page of the settings
(`settings_table`) are derived from these. Bounds and times that no operator needs to
choose are constants: those of `bus.kernel.constants`, and others beside the code that
reads them. This module reads neither clock nor memory.
"""

from __future__ import annotations

import inspect
import ipaddress
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeVar

import attrs
from msgspec import Struct

from bus.model.payload import TYPES_THAT_NEED_NO_ENCODER, Encoders
from bus.model.rights import AccessList

__all__ = ["BusConfig", "Setting", "settings_table", "suggests_names"]

_KIB: Final = 2**10
_MIB: Final = 2**20

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Config = TypeVar("_Config", bound=type)


class Setting(Struct, frozen=True):
    """One line of the table of settings.

    name: the field of `BusConfig`; default: its value unless another is given.
    unit: the unit of measure or the thing counted, such as "s" or "messages"; "" for a
      setting that is no number.
    meaning: one sentence, with the reason to change the setting.
    clause: the number of the clause that requires it.
    """

    name: str
    default: Any
    unit: str
    meaning: str
    clause: str


def settings_table() -> Iterator[Setting]:
    """Yield every setting in the order of the fields, as the docs list them."""
    for field in attrs.fields(BusConfig):
        default: Any = field.default
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
            default = default.factory()
        about: Mapping[str, str] = field.metadata
        yield Setting(
            name=field.name,
            default=default,
            unit=about.get("unit", ""),
            meaning=about["meaning"],
            clause=about["clause"],
        )


def suggests_names(
    what: str, elsewhere: Mapping[str, str] = MappingProxyType({})
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Let a call with an unknown keyword argument raise an error with the nearest one.

    elsewhere: how to give what is no argument of this call, by its name.
    """

    def decorate(call: Callable[_P, _R]) -> Callable[_P, _R]:
        known = inspect.signature(call).parameters.keys() - {"self"}

        @wraps(call)
        def checked(*args: _P.args, **given: _P.kwargs) -> _R:
            if unknown := given.keys() - known:
                ways = {**elsewhere, **{each: f"{each}=" for each in known}}
                raise _unknown_name(what, min(unknown), ways)
            return call(*args, **given)

        return checked

    return decorate


def _unknown_name(what: str, name: str, ways: Mapping[str, str]) -> TypeError:
    from difflib import get_close_matches  # noqa: PLC0415 # rarely needed

    near = get_close_matches(name, ways, n=1)
    do = f"did you mean {ways[near[0]]}?" if near else f"see help({what})"
    return TypeError(f"{what} has no argument {name!r}: {do}")


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


def _with_checked_names(kind: _Config) -> _Config:
    kind.__init__ = suggests_names("BusConfig")(kind.__init__)  # type: ignore[misc]
    return kind


@_with_checked_names
@attrs.frozen(kw_only=True)
class BusConfig:
    """The settings that a bus is opened with; each has its meaning beside it.

    The page of the settings, `docs/reference/limits.md`, lists them with their units
    and defaults. To pass `encoders` to another process, use functions of a module.

    Raises:
        TypeError, ValueError: there is no such setting, or it does not allow a value;
            the text names it.
    """

    # Waiting.
    resolve_timeout_s: float = _timeout(
        5.0,
        "BUS-ROUTE-19",
        "Maximum time a message waits for a name that no task has; raise it if"
        " receivers start later than their senders.",
    )
    command_timeout_s: float = _timeout(
        10.0,
        "BUS-FLOW-5",
        "Time a command waits for its answer if the call gives no `timeout`; raise it"
        " if tasks work longer.",
    )
    send_timeout_s: float = _timeout(
        10.0,
        "BUS-FLOW-2",
        "Maximum time a sending thread waits for room under the policy `block`; lower"
        " it if a sender must not be held up.",
    )
    connect_timeout_s: float = _timeout(
        5.0,
        "BUS-CHAN-3",
        "Maximum time to reach the host of a link's other end; raise it on a slow"
        " network.",
    )

    # Memory.
    message_bytes_max: int = _count(
        16 * _MIB,
        "bytes",
        "BUS-MSG-16",
        "Maximum length of a message's encoded payload, at most 64 MiB; raise it for"
        " longer messages, lower it if senders are not trusted.",
        # Both ends hold a whole frame in memory.
        most=64 * _MIB,
    )
    task_fifo_messages: int = _count(
        2048,
        "messages",
        "BUS-FLOW-1",
        "Maximum number of unread messages per task, and of those that wait for a task"
        " of another process; raise it if senders are refused in bursts.",
    )
    task_fifo_bytes: int = _count(
        16 * _MIB,
        "bytes",
        "BUS-FLOW-1",
        "Maximum length of these messages together; raise it if the messages are long.",
    )

    # Links.
    window: int = _count(
        # A window twice as long sends no more short commands per second, one half as
        # long 4 % fewer on one core, and a quarter of it a fifth fewer.
        4096,
        "messages",
        "BUS-RELAY-11",
        "Maximum number of messages sent to one task and not yet taken by it; lower it"
        " if fewer may be in doubt after the process of the task was killed.",
    )
    window_bytes: int = _count(
        8 * _MIB,
        "bytes",
        "BUS-RELAY-11",
        "Maximum length of these messages together; raise it if the messages are long.",
    )
    ack_delay_s: float = _timeout(
        0.01,
        "BUS-RELAY-9",
        "Maximum delay of an acknowledgement, to combine several; 0 leaves fewer"
        " messages in doubt, and sends more frames.",
    )
    keep_alive_s: float = _period(
        2.5,
        "BUS-DISC-12",
        "Time without a frame after which a link sends a PING; lower it with"
        " `lease_s`.",
    )
    lease_s: float = _period(
        10.0,
        "BUS-DISC-12",
        "Time without a frame, or an announcement, after which the other side counts as"
        " lost; lower it to notice that sooner, raise it if processes are stopped for"
        " longer.",
    )

    # Shared memory.
    shared_memory: bool = _option(
        "MC-38",
        "True if payloads of bytes from 128 KiB on travel to processes of the machine"
        " through shared memory, and arrive as read-only views; turn it off if"
        " the machine has too little of it. Systems other than Linux send them over"
        " the link.",
        default=True,
    )
    arena_bytes: int = _count(
        64 * _MIB,
        "bytes",
        "MC-29",
        "Maximum size of the shared memory of a process, its arena; raise it if `bus"
        " shm` counts messages under `no_room`.",
        least=64 * _KIB,
    )

    # Other machines.
    announce_s: float = _period(
        1.0,
        "BUS-DISC-3",
        "Interval between announcements of a machine; raise it if there are more than a"
        " hundred machines.",
    )
    multicast_group: str = attrs.field(
        default="239.255.73.77",  # administratively scoped
        validator=_is_multicast,
        metadata={
            "unit": "address",
            "clause": "BUS-DISC-2",
            "meaning": "Multicast group of announcements on a WAN; change it if the"
            " network assigns another one.",
        },
    )
    ttl_wan: int = _count(
        8,
        "hops",
        "BUS-DISC-2",
        "Maximum hops of an announcement on a WAN; raise it if more routers lie between"
        " two machines.",
        most=255,
    )
    follow_moved_tasks: bool = _option(
        "BUS-MOVE-9",
        "True if a command follows its addressee to another machine, else its sender"
        " gets a `MovedError` with the new address; turn it on if tasks move.",
    )

    # The process.
    run_directory: str | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(_is_path),
        metadata={
            "clause": "BUS-ENT-16",
            "meaning": "Directory where the processes of a machine meet, the same in"
            " all; by default `BUS_RUN_DIR` from the environment, else the user's"
            " runtime directory, so set it if several users share a bus.",
        },
    )
    access: AccessList = attrs.field(
        factory=AccessList,
        validator=_is_access_list,
        metadata={
            "clause": "BUS-SEC-1",
            "meaning": "Users that may join besides the owner, and their rights, by"
            " default none; give it if other users share the bus.",
        },
    )
    eager_relays: bool = _option(
        "BUS-INIT-13",
        "True if the master keeps a relay for each public task of its machine, the same"
        " in all processes; turn it on if first messages must not wait for a search.",
    )
    encoders: Encoders = attrs.field(
        factory=dict,
        converter=_read_only,
        validator=_are_encoders,
        hash=False,
        metadata={
            "clause": "BUS-MSG-16",
            "meaning": "How to convert types that messages cannot carry, by exact type;"
            " set it to send objects of your own types.",
        },
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
