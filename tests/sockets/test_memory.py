"""`keep_memory`: long messages reuse the pages that earlier ones freed."""

from __future__ import annotations

import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from queuebroker import _net
from queuebroker.sockets import frame_reader, unsent
from queuebroker.sockets.frame_reader import Gathering
from queuebroker.sockets.unsent import JOIN_BYTES_MAX, Unsent
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Callable

# Eight messages of 1 MiB are written and freed, repeatedly. The result is how many page
# faults the kernel had to serve after the first rounds.
_PROGRAM = """
import resource, sys
from queuebroker.sockets.memory import keep_memory

if sys.argv[1] == "keeps":
    keep_memory()
counts = []
for _ in range(20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    messages = [b"x" * 2**20 for _ in range(8)]
    del messages
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(sum(counts[5:]))
"""


def _faults(how: str) -> int:
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM, how],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(found.stdout)


@pytest.mark.deep
@clause("QB-SOCK-8")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_long_messages_reuse_the_pages_of_freed_messages() -> None:
    assert 20 * _faults("keeps") < _faults("does not")


@clause("QB-SOCK-8")
@pytest.mark.parametrize("longer", [0, 1])
def test_a_sender_calls_keep_memory_only_for_a_long_message(
    monkeypatch: pytest.MonkeyPatch, longer: int
) -> None:
    calls = _noted(monkeypatch, unsent)
    parts = [b"head", bytes(JOIN_BYTES_MAX - 4 + longer)]
    taken: list[bytes] = []

    class Socket:
        def send(self, data: bytes, _: int) -> int:
            taken.append(data)
            return len(data)

    Unsent().write_new(Socket(), parts, _net.AT_ONCE)  # type: ignore[arg-type]

    assert len(calls) == longer


@clause("QB-SOCK-8")
def test_a_receiver_that_gathers_a_message_calls_keep_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = _noted(monkeypatch, frame_reader)

    assert Gathering(b"begun", 0).message() == b"begun"

    assert calls == [None]


def _noted(monkeypatch: pytest.MonkeyPatch, module: object) -> list[None]:
    calls: list[None] = []
    note: Callable[[], None] = lambda: calls.append(None)  # noqa: E731
    monkeypatch.setattr(module, "keep_memory", note)
    return calls
