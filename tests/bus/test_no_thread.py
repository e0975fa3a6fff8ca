"""A call that cannot start its thread leaves nothing behind (QB-SOCK-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from bus import open_bus
from bus.process.link_helpers import PORT
from bus.testing import memory_bus
from queuebroker import DisconnectedQueueError, QueueBroker, Task, _sync
from specs.clauses import clause
from tests.kit.buses import socket_bus
from tests.kit.systems import needs_unix_sockets

if TYPE_CHECKING:
    from pathlib import Path

    from queuebroker import MessageQueue


def refuse(patch: pytest.MonkeyPatch, name: str) -> None:
    """Make each start of a thread of a given name fail."""
    start = _sync.Thread.start

    def refused(thread: _sync.Thread) -> None:
        if thread.name.endswith(name):
            raise_it()
        start(thread)

    patch.setattr(_sync.Thread, "start", refused)


def raise_it() -> NoReturn:
    msg = "can't start new thread"
    raise RuntimeError(msg)


@needs_unix_sockets
@clause("QB-SOCK-10")
@pytest.mark.parametrize("name", ["comm", "inspector"])
def test_a_bus_that_cannot_start_a_thread_can_be_joined_later(
    name: str, monkeypatch: pytest.MonkeyPatch, own_run_directory: Path
) -> None:
    with monkeypatch.context() as patch:
        refuse(patch, name)
        with pytest.raises(RuntimeError, match="new thread"):
            open_bus("bus1", process="one")
    with (
        open_bus("bus1", process="one", machine="machine") as one,
        socket_bus("two") as two,
    ):
        thread = one.thread("serves")
        thread.call_soon(lambda: one.register("here", on_command=lambda _: "yes"))
        two.wait_for("here")
        assert two.call("here") == "yes"


@clause("QB-SOCK-10")
def test_a_bus_that_cannot_start_a_thread_keeps_no_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that has dialled it meanwhile must not wait for a silent one."""
    links: list[MessageQueue] = []
    start = _sync.Thread.start

    with memory_bus() as one:
        network: Any = one._node.network
        dialler = QueueBroker("dialler", manager=network._brokers)

        def start_or_dial(thread: _sync.Thread) -> None:
            if thread.name == "machine/two comm":
                links.append(dialler.connect("machine/two", PORT, required=True))
                raise_it()
            start(thread)

        with monkeypatch.context() as patch:
            patch.setattr(_sync.Thread, "start", start_or_dial)
            with (
                pytest.raises(RuntimeError, match="new thread"),
                memory_bus(process="two", beside=one),
            ):
                pass
        [link] = links
        with pytest.raises(DisconnectedQueueError):
            link.receive(timeout=0)


@clause("QB-SOCK-10")
def test_a_thread_of_tasks_that_cannot_be_started_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with memory_bus() as bus:
        with monkeypatch.context() as patch:
            refuse(patch, "serves")
            with pytest.raises(RuntimeError, match="new thread"):
                bus.thread("serves")
        bus.thread("serves")


@clause("QB-SOCK-10")
def test_a_task_that_cannot_be_started_can_be_started_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[int] = []
    with QueueBroker("one") as broker:
        task = Task(broker, done.append, 1)
        with monkeypatch.context() as patch:
            refuse(patch, "one")
            with pytest.raises(RuntimeError, match="new thread"):
                task.start()
        task.start()
        task.join()
    assert done == [1]


@clause("QB-SOCK-10")
def test_a_process_in_memory_that_cannot_start_a_thread_can_join_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process without a thread does not keep its name."""
    with memory_bus() as bus:
        with monkeypatch.context() as patch:
            refuse(patch, "comm")
            with (
                pytest.raises(RuntimeError, match="new thread"),
                memory_bus(beside=bus, process="two"),
            ):
                pass
        with memory_bus(beside=bus, process="two"):
            pass
