"""A process on a bus that evaluates Python expressions: the other end of `real.Far`.

Each reply is one document of JSON. ``bus`` and a few helpers are in scope.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial
from multiprocessing.reduction import recv_handle
from typing import TYPE_CHECKING, Any

from bus import BusFullError, open_bus
from bus.journal.writer import Journal
from queuebroker import _net
from tests.journal.telling import spares_ready
from tests.kit.constants import configured
from tests.kit.tasks import Reader
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

    from bus import Bus, Task

__all__ = ["evaluate"]


def evaluate(
    connection: Connection,
    environment: dict[str, str],
    options: dict[str, Any],
    folder: Path | None,
) -> None:
    """Join the bus with these options of `open_bus`, and serve the connection.

    options: ``settings`` among them are those of the configuration.
    folder: of the journal; None to record nothing.
    """
    if _net.HAS_UNIX:
        stderr = recv_handle(connection)
        os.dup2(stderr, 2)
        os.close(stderr)
    # The server has the environment of its own start.
    os.environ.clear()
    os.environ.update(environment)
    made: dict[str, Any] = {}

    def tell(kind: str, value: Any) -> None:
        connection.send_bytes(json.dumps([kind, value], default=repr).encode())

    def counter(task: str, **options: Any) -> None:
        made[task] = Reader(bus, task, **options)

    def burst(task: str, count: int, to: Sequence[str]) -> None:
        for number in range(count):
            for name in to:
                with suppress(BusFullError):
                    made[task].task.command(name, number)
            made[task].task.notify(number)

    def accept(name: str) -> None:
        def take(bus: Bus, task: str, state: Any) -> Task:
            reader = made[task] = Reader(bus, task)
            reader.got.extend(state)
            return reader.task

        bus.accept_tasks(name, {"log": take})

    journal = (
        None
        if folder is None
        else Journal(folder, machine=options["machine"], segment_bytes=16 << 10)
    )
    if journal is not None:  # a record without a segment would be lost
        until(partial(spares_ready, journal, 1), "spare segments are ready")
    config = configured(**options.pop("settings"))
    with (
        suppress(EOFError),
        open_bus(**options, config=config, journal=journal) as bus,
    ):
        tell("ok", "joined")
        around = {
            "bus": bus,
            "made": made,
            "burst": burst,
            "counter": counter,
            "accept": accept,
            "journal": journal,
        }
        while True:
            expression = connection.recv()
            try:
                tell("ok", eval(expression, around))  # from our own tests only
            except Exception as error:  # noqa: BLE001 # reported to the parent
                tell("error", f"{type(error).__name__}: {error}")
