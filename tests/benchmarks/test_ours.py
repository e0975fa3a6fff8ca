"""Our own contestant follows the same rules, and is measured as it is."""

from __future__ import annotations

from benchmarks import memory, ours, threads
from benchmarks.contest import Contest
from benchmarks.suites import Effort
from benchmarks.workloads import meetings, one_way, round_trip_us
from queuebroker import Operation, Reason


def test_our_link_carries_messages_both_ways() -> None:
    with ours.link(2) as link:
        for end, other in ((link.near, link.far), (link.far, link.near)):
            for message in (b"", b"x" * 64):
                end.send(message)
                assert other.receive() == message


def test_our_queues_have_the_capacity_of_the_figure_and_their_observer() -> None:
    seen: list[Operation] = []

    def observe(operation: Operation, *_facts: int | str | Reason) -> None:
        seen.append(operation)

    with ours.queues(7, observer=observe) as (near, far):
        assert near.capacity == far.capacity == 7
        near.send(b"x")
        far.receive()

    assert {Operation.SEND, Operation.RECEIVE} <= set(seen)


def test_we_do_the_work_of_the_figures() -> None:
    assert one_way(ours.link, 64, 16)(200) > 0
    assert round_trip_us(ours.link, 64, 16, 20) > 0
    assert meetings(ours.doors, 3)(10) > 0


def test_bulk_is_measured_against_our_own_single_calls() -> None:
    contest = threads.bulk(Effort(rounds=5, round_s=0.001, scale=1))

    assert isinstance(contest, Contest)
    assert contest.ours() > 0
    assert {name: measure() > 0 for name, measure in contest.rivals.items()} == {
        "single": True
    }


def test_the_memory_of_one_object_does_not_depend_on_their_number() -> None:
    few, many = memory.weigh_pairs(5), memory.weigh_pairs(50)

    assert 100 < few < 100_000
    # The memory of one does not depend on how many there are.
    assert 0.5 < few / many < 2
    assert 50 < memory.weigh_brokers(20) < 100_000


def test_a_fresh_process_answers_with_a_number() -> None:
    assert memory.import_ms("json") > 0
    assert memory.kib_each("brokers", 3) > 0
