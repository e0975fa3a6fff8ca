"""Typed queues: the types their tests send, and the two kinds of end beneath."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from tests.pairs import look_away

__all__ = ["GOOD", "READING", "Point", "Reading", "both_kinds"]


class Reading(msgspec.Struct):
    """A struct that may contain another of its own type."""

    sensor: str
    celsius: float
    before: Reading | None = None


@dataclasses.dataclass
class Point:
    """A dataclass whose fields differ from those of a reading."""

    x: int
    tags: list[str]


READING = Reading("roof", 21.5)
GOOD = msgspec.msgpack.encode(READING)

# An observer makes an end of the locked kind.
both_kinds = pytest.mark.parametrize(
    "observer", [None, look_away], ids=["fast", "locked"]
)
