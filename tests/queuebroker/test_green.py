"""A process that gevent or eventlet has patched: one clear line, and no hang."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from bus import Bus, open_bus
from queuebroker._green import refuse_green_threads
from queuebroker.sockets import SocketQueueBroker
from specs.clauses import clause
from tests.processes import run

if TYPE_CHECKING:
    from collections.abc import Callable

# By library: the module that patches, its query, and a patch that it makes.
PATCHERS = {
    "gevent": ("gevent.monkey", "is_module_patched", "threading"),
    "eventlet": ("eventlet.patcher", "is_monkey_patched", "thread"),
}


def _patched(monkeypatch: pytest.MonkeyPatch, library: str, replaced: set[str]) -> None:
    module, question, _ = PATCHERS[library]
    asked = {question: lambda name: name in replaced}
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**asked))


@clause("BUS-INIT-17")
@pytest.mark.parametrize("library", PATCHERS)
@pytest.mark.parametrize(
    "use",
    [lambda: Bus("bus1"), open_bus, lambda: SocketQueueBroker("broker")],
    ids=["Bus", "open_bus", "SocketQueueBroker"],
)
def test_the_first_use_in_a_patched_process_is_refused(
    monkeypatch: pytest.MonkeyPatch, library: str, use: Callable[[], object]
) -> None:
    """The import precedes the patch; without the check, the first call would hang."""
    replaced = PATCHERS[library][2]
    _patched(monkeypatch, library, {replaced, "time"})

    with pytest.raises(RuntimeError, match=f"{library} has replaced {replaced} in"):
        use()


@pytest.mark.parametrize("library", PATCHERS)
def test_a_library_that_has_patched_nothing_that_matters_is_no_obstacle(
    monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    _patched(monkeypatch, library, {"time", "subprocess"})

    refuse_green_threads()


@pytest.mark.deep
@clause("BUS-INIT-17")
def test_an_import_in_a_patched_process_names_the_library() -> None:
    """Without the check, it fails to import `open_bus`, as there is no `epoll`."""
    exit_code, _, complaints = run("""
        import select, sys, types
        monkey = types.ModuleType("gevent.monkey")
        monkey.is_module_patched = lambda name: name in {"select", "threading"}
        sys.modules["gevent.monkey"] = monkey
        del select.epoll
        import queuebroker, bus.journal.writer
        from bus import open_bus
    """)

    assert exit_code == 1
    assert complaints.splitlines()[-1] == (
        "RuntimeError: cannot use a bus or queuebroker.sockets: gevent has replaced"
        " threading, select in this process, and both need the threads and sockets of"
        " the system; use them in a process that gevent has not patched"
    )
