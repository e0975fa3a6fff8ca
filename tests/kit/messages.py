"""Messages and runs of commands, as a component between two tasks receives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus.kernel.streams.receipts import Receipt, Receipts
from bus.kernel.tasks.runs import InboundRun
from bus.model.message import Incoming, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["inbound_run", "new_message"]


def new_message(payload: Any = None, **fields: Any) -> Incoming:
    """Return a command without a sender, except for the given fields."""
    usual = {"kind": Kind.COMMAND, "_source": None, "_id": 0}
    return Incoming(payload=payload, **(usual | fields))


def inbound_run(
    payloads: Sequence[bytes],
    to: Any = None,
    source: Any = None,
    *,
    receipt: Any = Receipt(None, 1, 1, Receipts()),  # noqa: B008 # frozen
    number: int = 1,
    deadline: float | None = None,
) -> InboundRun:
    """Return commands that arrived together; `number` is that of the first one."""
    return InboundRun(to, source, payloads, receipt, number, deadline)
