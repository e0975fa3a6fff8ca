"""The table of contestants: one file each, with its best documented settings.

A file has the functions that the figures of its library need: ``near`` and ``far``
between processes (`benchmarks.job`), ``link`` and ``doors`` between threads
(`benchmarks.threads`, `benchmarks.rendezvous`).
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping
from typing import Final

import attrs

from benchmarks.figure import OURS

__all__ = ["TABLE", "Rival", "found"]


@attrs.frozen
class Rival:
    """A contestant: its name in tables, and the package and program that it needs."""

    name: str
    module: str = ""
    distribution: str = ""
    program: str = ""

    @property
    def obstacle(self) -> str:
        """The reason why it cannot run; empty if it can."""
        if self.module and importlib.util.find_spec(self.module) is None:
            return f"{self.distribution} is not installed: {self.name} left out"
        if self.program and shutil.which(self.program) is None:
            return f"{self.program} is not installed: {self.name} left out"
        return ""


# By file.
TABLE: Final[Mapping[str, Rival]] = {
    "our_queue": Rival("queue"),
    "our_bus": Rival("bus"),
    "our_call": Rival("bus"),
    "our_coroutines": Rival("bus"),
    "our_node": Rival("node"),
    "bare": Rival("bare"),
    "connection": Rival("multiprocessing.connection"),
    "pyzmq": Rival("pyzmq", "zmq", "pyzmq"),
    "pyzmq_json": Rival("pyzmq", "zmq", "pyzmq"),
    "pyzmq_coroutines": Rival("pyzmq", "zmq", "pyzmq"),
    "pynng": Rival("pynng", "pynng", "pynng"),
    "zenoh": Rival("zenoh", "zenoh", "eclipse-zenoh"),
    "iceoryx2": Rival("iceoryx2", "iceoryx2", "iceoryx2"),
    "nats": Rival("nats", "nats", "nats-py", program="nats-server"),
}


def found(ours: str, *rivals: str) -> tuple[dict[str, str], list[str]]:
    """Return the file of each contestant by its name, and a line for each missing one.

    ours, rivals: files of the table.
    """
    obstacles = [TABLE[file].obstacle for file in rivals]
    here = {
        TABLE[file].name: file
        for file, obstacle in zip(rivals, obstacles, strict=True)
        if not obstacle
    }
    return {OURS: ours, **here}, [*filter(None, obstacles)]
