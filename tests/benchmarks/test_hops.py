"""The calls of a command are counted on its whole way, in both processes."""

from __future__ import annotations

from benchmarks.hops import Hops, measure


def test_the_way_begins_at_the_sender_and_ends_at_the_receiver() -> None:
    hops = min([measure() for _ in range(3)], key=lambda each: each.calls)

    assert hops.near["bus/api/task.py"] > 0
    assert hops.near["queuebroker/sockets/queue.py"] > 0
    assert hops.far["bus/api/receiver.py"] > 0
    assert "bus/api/task.py" not in hops.far
    # Neither comm thread takes part: with both it is 271 calls in 64 files.
    assert hops.calls <= 170
    assert hops.files <= 50


def test_a_file_of_both_sides_counts_once() -> None:
    hops = Hops({"bus/a.py": 2, "bus/b.py": 1}, {"bus/a.py": 3})

    assert (hops.calls, hops.files) == (6, 2)
