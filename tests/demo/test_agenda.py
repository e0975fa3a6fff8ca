"""The agenda under the explorer: nothing is done twice, nothing is left."""

from __future__ import annotations

from bus.demo.agenda import Agenda, Item
from queuebroker.testing import Run, explore


def test_every_file_is_done_once_in_each_pass() -> None:
    def program(run: Run) -> None:
        passes = iter([True, False])
        agenda = Agenda(2, lambda: next(passes))
        done: list[Item] = []

        def work() -> None:
            while (item := agenda.take()) is not None:
                done.append(item)
                agenda.done(item)

        for _ in range(2):
            run.spawn(work)
        run.join()
        assert sorted(done) == [(1, 0), (1, 1), (2, 0), (2, 1)]
        assert agenda.passes == 2

    assert explore(program, bound=2, random=100).exhausted


def test_what_is_given_back_goes_to_somebody_who_waits() -> None:
    def program(run: Run) -> None:
        agenda = Agenda(2, lambda: False)
        done: list[Item] = []

        def leave() -> None:
            item = agenda.take()
            if item is not None:
                agenda.give_back(item)

        def work() -> None:
            while (item := agenda.take()) is not None:
                done.append(item)
                agenda.done(item)

        run.spawn(leave)
        run.spawn(work)
        run.spawn(work)
        run.join()
        assert sorted(done) == [(1, 0), (1, 1)]

    assert explore(program, bound=1, random=200).exhausted


def test_no_pass_begins_before_the_one_before_it_is_complete() -> None:
    passes = iter([True, False])
    agenda = Agenda(2, lambda: next(passes))
    first, second = agenda.take(), agenda.take()
    assert first == (1, 0)
    assert second == (1, 1)

    agenda.done(first)
    assert agenda.passes == 1
    agenda.done(second)

    assert agenda.passes == 2
    assert agenda.take() == (2, 0)
