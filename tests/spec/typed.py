"""Typed queues: the types that their tests send, and the two kinds of end beneath."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from tests.pairs import look_away

__all__ = ["GOOD", "READING", "Point", "Reading", "both_kinds"]


class Reading(msgspec.Struct):
    """A struct that may hold one of its own kind."""

    sensor: str
    celsius: float
    before: Reading | None = None


@dataclasses.dataclass
class Point:
    """A dataclass, with other fields than a reading."""

    x: int
    tags: list[str]


READING = Reading("roof", 21.5)
GOOD = msgspec.msgpack.encode(READING)

# An observed end is of the locked kind.
both_kinds = pytest.mark.parametrize(
    "observer", [None, look_away], ids=["fast", "locked"]
)
