"""`BusConfig`: defaults, bounds, and the names that it suggests."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from bus import open_bus
from bus.kernel import constants
from bus.model.config import BusConfig, settings_table
from bus.model.payload import TYPES_THAT_NEED_NO_ENCODER, freeze
from specs.clauses import is_clause_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MIB = 2**20
# Read before a test replaces one of them.
CONSTANTS = {each: getattr(constants, each) for each in constants.__all__}
NUMBERS = [each for each in settings_table() if type(each.default) in {int, float}]
NAMES = [limit.name for limit in NUMBERS]
COUNTS = [limit.name for limit in NUMBERS if isinstance(limit.default, int)]


def made(**values: Any) -> BusConfig:
    return BusConfig(**values)


@pytest.mark.parametrize("field", attrs.fields(BusConfig), ids=lambda field: field.name)
def test_every_field_explains_itself(field: attrs.Attribute[Any]) -> None:
    assert field.kw_only
    assert field.validator is not None
    assert field.metadata["meaning"].endswith(".")


def test_a_line_of_the_table_says_all_and_the_unit_as_its_name_does() -> None:
    config = BusConfig()
    for setting in settings_table():
        assert setting.default == getattr(config, setting.name)
        assert is_clause_id(setting.clause)
        assert (setting.unit == "s") == setting.name.endswith("_s")
        assert (setting.unit == "bytes") == ("bytes" in setting.name)


def test_the_defaults_have_their_agreed_values() -> None:
    """A mistyped digit in a default would fail no other test."""
    assert {each.name: each.default for each in NUMBERS} == {
        "resolve_timeout_s": 5.0,
        "command_timeout_s": 10.0,
        "send_timeout_s": 10.0,
        "message_bytes_max": 16 * MIB,
        "task_fifo_messages": 2048,
        "task_fifo_bytes": 16 * MIB,
        "window": 4096,
        "window_bytes": 8 * MIB,
        "connect_timeout_s": 5.0,
        "ack_delay_s": 0.01,
        "keep_alive_s": 2.5,
        "lease_s": 10.0,
        "arena_bytes": 64 * MIB,
        "announce_s": 1.0,
        "ttl_wan": 8,
    }
    assert CONSTANTS == {
        "AUTH_TIMEOUT_S": 5.0,
        "BACKLOG_BYTES": 1024 * MIB,
        "BACKLOG_FRAMES": 524_288,
        "ENDED_STREAMS_MAX": 4096,
        "ENDED_STREAM_S": 3600.0,
        "LINK_FRAMES": 256,
        "LINK_LINGER_S": 1.0,
        "PARKED_PER_NAME": 256,
        "PARKED_PER_PROCESS": 4096,
        "PUBLIC_TASKS_PER_PROCESS": 100_000,
        "RELAYS_PER_PROCESS": 100_000,
        "RELINK_TIMEOUT_S": 0.5,
        "SEARCHES_IN_ALL": 16_384,
        "SEARCHES_PER_PROCESS": 4096,
        "STREAM_WINDOW": 16_384,
        "STUCK_CALLBACK_S": 5.0,
        "SUBSCRIPTIONS_IN_ALL": 65_536,
        "SUBSCRIPTIONS_PER_PROCESS": 10_000,
        "UNAUTHENTICATED_BYTES": 4096,
        "UNAUTHENTICATED_LINKS": 64,
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", ["1", None, True, 1j], ids=repr)
def test_a_limit_that_is_no_number_is_refused(name: str, wrong: object) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be an? .*, got {wrong!r}$"):
        made(**{name: wrong})


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_below_its_least_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be >= .*, got -1$"):
        made(**{name: -1})


LEAST = {"arena_bytes": 64 * 1024}


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_whole_and_at_least_one(name: str) -> None:
    least = LEAST.get(name, 1)
    with pytest.raises(ValueError, match=f"^{name} must be >= {least}, got 0$"):
        made(**{name: 0})
    with pytest.raises(TypeError, match=f"^{name} must be an int, got 1.5$"):
        made(**{name: 1.5})


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(COUNTS)))
@pytest.mark.parametrize("wrong", [math.nan, 10**400])
def test_a_time_is_a_float(name: str, wrong: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be "):
        made(**{name: wrong})


def test_a_time_may_be_for_ever() -> None:
    """As for queues: long waits are made in slices."""
    for name in sorted(set(NAMES) - set(COUNTS)):
        if name.endswith("_s"):
            config = made(**{"lease_s": math.inf, name: math.inf})
            assert getattr(config, name) == math.inf


def test_a_limit_is_inclusive_at_both_ends() -> None:
    assert BusConfig(message_bytes_max=64 * MIB).message_bytes_max == 64 * MIB
    with pytest.raises(
        ValueError, match=r"^message_bytes_max must be <= 67108864, got"
    ):
        BusConfig(message_bytes_max=64 * MIB + 1)
    config = BusConfig(ttl_wan=255, resolve_timeout_s=0)
    assert config.ttl_wan == 255
    with pytest.raises(ValueError, match=r"^ttl_wan must be <= 255, got 256$"):
        BusConfig(ttl_wan=256)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            lambda: made(resolve_timeout=1.0),
            "BusConfig has no argument 'resolve_timeout': did you mean"
            " resolve_timeout_s=?",
        ),
        (
            lambda: attrs.evolve(BusConfig(), task_fifo_message=1),  # type: ignore[call-arg]
            "BusConfig has no argument 'task_fifo_message': did you mean"
            " task_fifo_messages=?",
        ),
        (
            lambda: made(x=1),
            "BusConfig has no argument 'x': see help(BusConfig)",
        ),
        (
            lambda: open_bus(proces="p"),  # type: ignore[call-arg]
            "open_bus has no argument 'proces': did you mean process=?",
        ),
        (
            lambda: open_bus(windows=3),  # type: ignore[call-arg]
            "open_bus has no argument 'windows': did you mean"
            " config=BusConfig(window=...)?",
        ),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(
    call: Callable[[], object], error: str
) -> None:
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == error


def test_a_silent_link_is_asked_before_it_is_given_up() -> None:
    with pytest.raises(ValueError, match=r"lease_s must be > keep_alive_s, got 2.5"):
        BusConfig(lease_s=2.5)


def test_an_arena_has_room_for_its_smallest_buffer() -> None:
    with pytest.raises(ValueError, match="arena_bytes must be >= 65536, got 1024"):
        BusConfig(arena_bytes=1024)


@pytest.mark.parametrize("wrong", ["10.77.0.1", "fe80::1", "group", ""])
def test_the_group_is_one_of_multicast(wrong: str) -> None:
    with pytest.raises(ValueError, match="multicast_group must be the IP address of a"):
        BusConfig(multicast_group=wrong)
    with pytest.raises(TypeError, match="multicast_group must be a str"):
        made(multicast_group=0xEFFF494D)
    assert BusConfig(multicast_group="ff08::49:534d").multicast_group == "ff08::49:534d"


def test_encoders_are_read_when_the_configuration_is_made() -> None:
    encoders: dict[type, Any] = {dt.date: dt.date.isoformat}
    config = BusConfig(encoders=encoders)

    encoders.clear()

    assert freeze(dt.date(2000, 2, 29), config.encoders) == "2000-02-29"
    assert hash(config) == hash(BusConfig())
    assert config != BusConfig()


@pytest.mark.parametrize(
    "encoders",
    [None, {"date": str}, {dt.date: "isoformat"}],
    ids=["no mapping", "key is no type", "value is not callable"],
)
def test_encoders_are_callables_by_type(encoders: Mapping[Any, Any]) -> None:
    with pytest.raises(TypeError, match="encoders"):
        BusConfig(encoders=encoders)


@pytest.mark.parametrize("kind", sorted(TYPES_THAT_NEED_NO_ENCODER, key=repr))
def test_an_encoder_for_a_type_that_can_be_sent_is_rejected(kind: type) -> None:
    with pytest.raises(ValueError, match="must be for types that cannot be sent"):
        BusConfig(encoders={kind: repr})
