"""`Target`: the bus that a verb joins, and the options of all verbs that join one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from queuebroker import _sync

if TYPE_CHECKING:
    from bus.features.machines.network import Network

__all__ = ["Target"]


@attrs.frozen
class Target:
    """The bus that a verb joins, and the options common to all these verbs.

    bus, machine: their names; machine None means the host's name. A verb that can do
      without a bus has "" for none.
    as_json: True if the output is JSON.
    timeout_s: in seconds; None for no limit.
    owner: the id of the user who owns the bus; None for the user of the verb.
    network: the links with other machines; None for none.
    """

    bus: str
    machine: str | None
    as_json: bool
    timeout_s: float | None
    owner: int | None = None
    network: Network | None = None

    def deadline(self) -> float:
        """Return when ``timeout_s`` from now is over, on the monotonic clock."""
        limit_s = math.inf if self.timeout_s is None else self.timeout_s
        return _sync.monotonic() + limit_s
