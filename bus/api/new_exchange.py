"""`new_exchange`: the exchange of a process that begins another life on a bus."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bus.api.arguments import check_instance
from bus.api.features import REMOTE_FEATURES, shared_memory
from bus.core import constants
from bus.core.hooks import Hooks
from bus.core.local.process_manager import ProcessManager
from bus.core.local.trace import Journal
from bus.threads.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.config import BusConfig

__all__ = ["new_exchange"]


def new_exchange(
    bus: str,
    machine: str,
    process: str,
    incarnation: int,
    *,
    config: BusConfig,
    journal: Journal | None,
    durable: Callable[[str, str, str, int], Hooks] | None,
) -> tuple[Exchange, int]:
    """Return the exchange of a process, and the incarnation of this life of it.

    incarnation: given by the network. A durable process takes a higher one if an
      earlier life has had that one, or a later one (AMO-17).
    durable: returns the hooks of a durable process, from the first four arguments;
      None for any other process.

    Raises:
        TypeError, ValueError: the journal is none, or closed.
        BusError, OSError: a feature cannot begin.
    """
    if journal is not None:
        check_instance("journal", journal, Journal)
        if journal.closed:
            msg = f"journal must be open until the bus is closed, got {journal!r}"
            raise ValueError(msg)
    hooks = [] if durable is None else [durable(bus, machine, process, incarnation)]
    if config.shared_memory:
        hooks.append(Hooks(bodies=partial(shared_memory, config)))
    incarnation = max([incarnation, *(each.incarnation for each in hooks)])
    trace_sink = None
    if journal is not None:
        trace_sink = journal._trace_sink()
        trace_sink.on_registered(incarnation, "")
    manager = ProcessManager(
        machine,
        process,
        parked_per_name=constants.PARKED_PER_NAME,
        parked_in_all=constants.PARKED_PER_PROCESS,
        resolve_timeout_s=config.resolve_timeout_s,
        incarnation=incarnation,
    )
    return Exchange(manager, trace_sink, hooks, REMOTE_FEATURES), incarnation
