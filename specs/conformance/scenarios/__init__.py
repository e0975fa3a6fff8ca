"""The programs, one file a group of clauses; importing this registers them all.

``SCENARIOS`` is all of them, in the order of the clauses' pages. To run one elsewhere,
use `specs.conformance.explored.program`.
"""

from __future__ import annotations

from specs.conformance.scenario import Scenario, registered
from specs.conformance.scenarios import (
    arguments,
    buffers,
    bulk,
    channels,
    disconnect,
    goodbyes,
    histories,
    names,
    order,
    progress,
    receiving,
    rendezvous,
    sending,
    surface,
    timeouts,
    waiters,
)

__all__ = ["SCENARIOS"]

channels.register_twins()
histories.register_histories()

_PAGES = (
    names,
    rendezvous,
    waiters,
    sending,
    receiving,
    order,
    buffers,
    channels,
    disconnect,
    goodbyes,
    arguments,
    timeouts,
    progress,
    histories,
    surface,
    bulk,
)
_ORDER = {page.__name__.rpartition(".")[2]: at for at, page in enumerate(_PAGES)}

SCENARIOS: tuple[Scenario, ...] = tuple(
    sorted(registered(), key=lambda each: _ORDER[each.name.partition(".")[0]])
)
