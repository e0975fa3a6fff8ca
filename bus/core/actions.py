"""What a process manager wants done: it decides, others do it (design, section 3).

Actions are done in order, after the manager's lock was let go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from bus.core.routing_table import Entry
    from bus.errors import BusError
    from bus.message import Incoming, Presence

__all__ = ["Action", "Fail", "Open", "Tell"]


@attrs.frozen
class Open:
    """Let a new registration receive: first what waited for its name, in order.

    Until then what is posted to it waits in its box, so that nothing overtakes.
    """

    entry: Entry
    messages: tuple[Incoming, ...]


@attrs.frozen
class Tell:
    """Tell a task that somebody it watches appeared, or is gone."""

    entry: Entry
    watch: object
    presence: Presence


@attrs.frozen
class Fail:
    """Tell the sender of a message that nobody gets it."""

    message: Incoming
    error: BusError


Action = Open | Tell | Fail
