"""The fixtures of `tests.bus`, `tests.process` and `tests.cli`, for whole buses."""

from tests.bus.conftest import bus, there
from tests.cli.conftest import alpha, beta
from tests.process.conftest import (
    config,
    frames,
    near,
    other,
    owner,
    patient,
    place,
    port,
    site,
    values,
)

__all__ = [
    "alpha",
    "beta",
    "bus",
    "config",
    "frames",
    "near",
    "other",
    "owner",
    "patient",
    "place",
    "port",
    "site",
    "there",
    "values",
]
