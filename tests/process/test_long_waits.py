"""No setting and no timeout of a bus is too long for the system."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from bus import BusConfig
from bus.kernel.peer.session import milliseconds_left
from bus.kernel.wire import NO_DEADLINE
from specs.clauses import clause
from tests.kit.buses import socket_bus

SECONDS = [field.name for field in attrs.fields(BusConfig) if field.name.endswith("_s")]


@clause("BUS-CHAN-2", "QB-SOCK-8")
@pytest.mark.parametrize("long_s", [3e6, 1e9, 1e10, 1e300, math.inf])
def test_every_setting_and_every_timeout_may_have_any_length(long_s: float) -> None:
    """Long ones ended the comm thread, or the driver, and the caller got no error."""
    settings: dict[str, Any] = dict.fromkeys(SECONDS, long_s)
    settings["keep_alive_s"] = min(long_s / 10, 1e299)
    config = BusConfig(**settings)
    with (
        socket_bus("one", config=config) as one,
        socket_bus("two", config=config) as two,
    ):

        def answer(_: object) -> str:
            return "here"

        thread = one.thread("serves")
        thread.call_soon(lambda: one.register("echo", on_command=answer))
        assert two.wait_for("echo", long_s).module == "echo"
        for _ in range(2):  # over a relay, and on the fast path
            assert two.call("echo", timeout=long_s) == "here"


@pytest.mark.parametrize(
    ("left_s", "said"),
    [
        *((2.0, 2000), (-1.0, 0), (4294967.0, 4294967000)),
        *((each, NO_DEADLINE) for each in (5e6, 1e300, math.inf)),
    ],
)
def test_a_frame_has_no_number_for_a_deadline_in_two_months(
    left_s: float, said: int
) -> None:
    """The message waits for ever at the receiver; the sender enforces the deadline."""
    assert milliseconds_left(left_s, 0.0) == said
