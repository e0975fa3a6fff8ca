"""`new_exchange`: the exchange of a process that begins another life on a bus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from bus.api.arguments import check_instance
from bus.core.hooks import Hooks
from bus.core.local.process_manager import ProcessManager
from bus.journal.writer import Journal
from bus.threads.exchange import Exchange

if TYPE_CHECKING:
    from bus.config import BusConfig

__all__ = ["Features", "new_exchange"]

# Called with the names of the bus, the machine and the process, and its incarnation.
Begin: TypeAlias = "Callable[[str, str, str, int], Hooks]"


@attrs.frozen
class Features:
    """The features of a bus; `bus.api.features` has those of `open_bus`.

    begin: begins each feature in a process that joins the bus.
    moving: loads the module `bus.api.hand_over`; None without that feature.
    """

    begin: Sequence[Begin] = ()
    moving: Callable[[], Any] | None = None


def new_exchange(
    bus: str,
    machine: str,
    process: str,
    incarnation: int,
    *,
    config: BusConfig,
    journal: Journal | None,
    features: Features,
) -> tuple[Exchange, int]:
    """Return the exchange of a process, and the incarnation of this life of it.

    incarnation: given by the network. A durable process takes a higher one if an
      earlier life has had that one, or a later one (AMO-17).

    Raises:
        TypeError, ValueError: the journal is none, or closed.
        BusError, OSError: a feature cannot begin.
    """
    if journal is not None:
        check_instance("journal", journal, Journal)
        if journal.closed:
            msg = f"journal must be open until the bus is closed, got {journal!r}"
            raise ValueError(msg)
    hooks = [begin(bus, machine, process, incarnation) for begin in features.begin]
    incarnation = max([incarnation, *(each.incarnation for each in hooks)])
    recorder = None
    if journal is not None:
        from bus.journal.bus_recorder import BusRecorder  # noqa: PLC0415 - rarely needed

        recorder = BusRecorder(journal)
        recorder.on_registered(incarnation, "")
    manager = ProcessManager(
        machine,
        process,
        parked_per_name=config.parked_per_name,
        parked_in_all=config.parked_per_process,
        resolve_timeout_s=config.resolve_timeout_s,
        incarnation=incarnation,
    )
    return Exchange(manager, recorder, hooks), incarnation
