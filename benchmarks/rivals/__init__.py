"""The rivals, one file each, with their best documented settings.

Each file has ``NAME`` (the key in the results), ``VERSION``, and ``link`` or ``doors``
as `benchmarks.workloads` defines them, or both sides as `benchmarks.testbed` defines
them. A rival that is not installed is skipped, with a message.
"""

from __future__ import annotations

import importlib
import shutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["load"]

# The requirement of each file: the library's module, then its distribution.
_NEEDS = {
    "pyzmq": ("zmq", "pyzmq"),
    "pyzmq_tcp": ("zmq", "pyzmq"),
    "pynng": ("pynng", "pynng"),
    "zenoh": ("zenoh", "eclipse-zenoh"),
    "nats": ("nats", "nats-py"),
    "pyzmq_multicast": ("zmq", "pyzmq"),
    "pynng_multicast": ("pynng", "pynng"),
    "pynng_pattern": ("pynng", "pynng"),
    "nanomsg_pattern": ("nanomsg", "libnanomsg5 of Debian"),
    "zenoh_multicast": ("zenoh", "eclipse-zenoh"),
    "zenoh_shm_multicast": ("zenoh", "eclipse-zenoh"),
    "iceoryx2_multicast": ("iceoryx2", "iceoryx2"),
    "kickmsg_multicast": ("kickmsg", "kickmsg"),
}


def load(files: Iterable[str]) -> tuple[list[Any], list[str]]:
    """Import these rivals; return their modules, and a sentence for each missing one.

    Raises:
        ModuleNotFoundError: if a module other than the rival's library is missing.
    """
    found: list[Any] = []
    missing: list[str] = []
    for file in files:
        library, distribution = _NEEDS.get(file, ("", ""))
        try:
            rival = importlib.import_module(f"benchmarks.rivals.{file}")
        except ModuleNotFoundError as error:
            if error.name != library:
                raise
            missing.append(f"{distribution} is not installed: left out")
            continue
        program = getattr(rival, "PROGRAM", None)
        if program is not None and shutil.which(program) is None:
            missing.append(f"{program} is not installed: {rival.NAME} left out")
            continue
        found.append(rival)
    return found, missing
