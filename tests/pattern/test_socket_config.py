"""`SocketConfig`: its defaults, and the values that it refuses."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from bus.pattern import SocketConfig
from specs.clauses import clause

COUNTS = ("send_messages", "send_bytes", "receive_messages", "receive_bytes")
DURATIONS = ("handshake_s", "redial_min_s")
SECONDS = ("redial_max_s", "repeat_s")


@clause("BP-4", "BP-6", "BP-16")
def test_the_defaults() -> None:
    """The clauses and the docs name them."""
    assert attrs.asdict(SocketConfig()) == {
        "send_messages": 16_384,
        "send_bytes": 16 << 20,
        "receive_messages": 16_384,
        "receive_bytes": 16 << 20,
        "receive_overflow": None,
        "message_bytes": 64 << 20,
        "handshake_s": 10.0,
        "redial_min_s": 0.02,
        "redial_max_s": 10.0,
        "repeat_s": 0.0,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in COUNTS for value in (1, 1 << 31)),
        ("receive_overflow", "block"),
        ("message_bytes", 0),
        ("message_bytes", 1 << 40),
        *((name, value) for name in DURATIONS for value in (1, 0.001, math.inf)),
        *((name, value) for name in SECONDS for value in (0, 0.0, 2.5, math.inf)),
    ],
)
def test_good_values_are_kept(name: str, value: Any) -> None:
    assert getattr(SocketConfig(**{name: value}), name) == value


@clause("BP-17")
@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        *((name, 0, ValueError, "must be >= 1, got 0") for name in COUNTS),
        *((name, -1, ValueError, "must be >= 1, got -1") for name in COUNTS),
        *((name, (1 << 31) + 1, ValueError, "must be at most") for name in COUNTS),
        *((name, 1.0, TypeError, "must be an int, got float") for name in COUNTS),
        *((name, True, TypeError, "must be an int, got bool") for name in COUNTS),
        *((name, None, TypeError, "must be an int") for name in COUNTS),
        *(
            (
                "receive_overflow",
                value,
                ValueError,
                "must be 'drop', 'block' or None, got",
            )
            for value in ("", "Drop", True, ["drop"])
        ),
        ("message_bytes", -1, ValueError, "must be >= 0, got -1"),
        ("message_bytes", 0.5, TypeError, "must be an int, got float"),
        ("message_bytes", None, TypeError, "must be an int"),
        *(
            (name, value, ValueError, f"must be > 0, got {value}")
            for name in DURATIONS
            for value in (0, -0.1, math.nan)
        ),
        *(
            (name, value, ValueError, f"must be >= 0, got {value}")
            for name in SECONDS
            for value in (-0.1, math.nan)
        ),
        *(
            (name, "1", TypeError, "must be a number of seconds, got str")
            for name in (*DURATIONS, *SECONDS)
        ),
    ],
)
def test_bad_values_are_refused_by_name(
    name: str, value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"{name} {message}"):
        SocketConfig(**{name: value})


def test_a_config_does_not_change() -> None:
    config = SocketConfig()

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        config.repeat_s = 1.0  # type: ignore[misc] # under test
