"""`release_foreign_tasks`: a closed bus releases the tasks of other buses.

A task of one bus may send to names of another one, and subscribe to them. When that
other bus is closed, these requests end, and neither the task nor its thread refers to
the closed bus any more (BUS-DEREG-12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queuebroker import _sync

if TYPE_CHECKING:
    from bus.api.subscription import Subscription, Watch
    from bus.threads.exchange import Exchange

__all__ = ["release_foreign_tasks"]


def release_foreign_tasks(exchange: Exchange, bus: str) -> None:
    """Cancel the interests of tasks of other buses, and fail their parked messages.

    exchange: the exchange of the closed bus, whose name is ``bus``.
    """
    manager = exchange.manager
    interests: list[Subscription | Watch] = exchange.query(
        lambda: [
            *manager.subscriptions.of_other_buses(bus),
            *manager.watches.of_other_buses(bus),
        ]
    )
    for interest in interests:
        interest.cancel()
    # In this order: a message that is parked meanwhile sets a timer of its own.
    exchange.parked_expiry.release()
    exchange.decide(lambda: manager.fail_parked_of_others(bus, _sync.monotonic()))
