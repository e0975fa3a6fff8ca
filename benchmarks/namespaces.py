"""Two network namespaces, joined by a veth pair: two machines within one.

Each has its own loopback interface and its own ports. The processes in them share the
clock and the files of this machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ADDRESSES", "inside", "namespace_pair", "refusal"]

# The addresses of the near and of the far machine. Nothing outside the two namespaces
# sees them.
ADDRESSES: Final = ("10.0.0.1", "10.0.0.2")


@contextmanager
def namespace_pair() -> Iterator[tuple[str, str]]:
    """Make two namespaces for the block; yield the names of the near and the far one.

    Processes that are still in them after the block are killed. Call it in the main
    thread.

    Raises:
        OSError: the system refuses; the text has the command and its error.
    """
    near, far = (f"qb-{side}-{os.getpid()}" for side in ("near", "far"))
    made: list[str] = []
    # By default SIGTERM would leave the namespaces behind.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        for name in (near, far):
            _ip("netns", "add", name)
            made.append(name)
            _ip("-n", name, "link", "set", "lo", "up")
        # Made inside, so that the pair never exists outside and ends with them.
        pair = ("add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", far)
        _ip("-n", near, "link", *pair)
        for name, address in zip((near, far), ADDRESSES, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "veth0")
            _ip("-n", name, "link", "set", "veth0", "up")
        yield near, far
    finally:
        for name in made:
            for process in _ip("netns", "pids", name).split():
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            _ip("netns", "delete", name)
        signal.signal(signal.SIGTERM, before)


def inside(namespace: str, command: list[str]) -> list[str]:
    """Return the command that runs a command in a namespace."""
    return ["ip", "netns", "exec", namespace, *command]


def refusal() -> str:
    """Return why this process cannot make namespaces; empty if it can."""
    try:
        with namespace_pair() as (near, _):
            _run(inside(near, ["true"]))
    except OSError as error:
        return str(error)
    return ""


def _ip(*arguments: str) -> str:
    return _run(["ip", *arguments])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
