"""The calls of a command are counted on its whole way, in both processes."""

from __future__ import annotations

from benchmarks.hops import Hops, measure


def test_the_way_begins_at_the_sender_and_ends_at_the_receiver() -> None:
    hops = min([measure() for _ in range(3)], key=lambda each: each.calls)

    assert "bus/api/task.py:Task.command" in hops.near
    assert "queuebroker/sockets/queue.py:SocketMessageQueue.send" in hops.near
    assert "bus/api/receiver.py:Receiver._command" in hops.far
    assert "bus/api/task.py:Task.command" not in hops.far
    # Neither comm thread takes part: with both it is 271 calls in 64 files.
    assert hops.calls <= 170
    assert hops.files <= 55


def test_a_file_of_both_sides_counts_once() -> None:
    hops = Hops(("bus/a.py:f", "bus/b.py:g"), ("bus/a.py:h",))

    assert (hops.calls, hops.files) == (3, 2)
