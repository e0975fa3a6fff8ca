"""`release_foreign_tasks`: a closed bus releases the tasks of other buses.

A task of one bus may send to names of another one, and subscribe to them. When that
other bus is closed, these requests end, and neither the task nor its thread refers to
the closed bus any more (BUS-DEREG-12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.api.bus_threads import BusOfThreads
    from bus.threads.exchange import Exchange

__all__ = ["release_foreign_tasks"]


def release_foreign_tasks(
    exchange: Exchange, bus: str, others: Mapping[str, BusOfThreads]
) -> None:
    """Cancel the interests of tasks of other buses, and fail their parked messages.

    The calls of other buses that wait for the closed one end. Requests that begin only
    now end by themselves: the lifetime of the bus has ended before.

    exchange: the exchange of the closed bus, whose name is ``bus``.
    others: the other buses of this process, by name.
    """
    for interest in exchange.query(
        lambda: exchange.manager.audiences.of_other_buses(bus)
    ):
        interest.cancel()
    exchange.parked_expiry.close(bus)
    # After all of this: the threads that wait check what they wait for once more.
    for other in list(others.values()):
        for host in other._threads.managers():
            host.ask(host.pending)
