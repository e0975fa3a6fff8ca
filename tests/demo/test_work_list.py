"""The work list: nothing is assigned twice, nothing is left."""

from __future__ import annotations

import pytest

from bus.demo.lister import WorkList


def test_every_file_is_handed_out_once_in_each_pass() -> None:
    passes = iter([True, False])
    work_list = WorkList(2, lambda: next(passes))
    done = []

    while (item := work_list.take()) is not None:
        done.append(item)
        work_list.done(item)

    assert done == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert work_list.passes == 2
    assert work_list.over


def test_an_item_given_back_is_the_next_to_be_handed_out() -> None:
    work_list = WorkList(2, lambda: False)
    first, second = work_list.take(), work_list.take()
    assert (first, second) == ((1, 0), (1, 1))
    assert work_list.take() is None

    work_list.give_back((1, 0))

    assert work_list.take() == (1, 0)
    assert not work_list.over


def test_no_pass_begins_before_the_one_before_it_is_complete() -> None:
    passes = iter([True, False])
    work_list = WorkList(2, lambda: next(passes))
    work_list.take()
    work_list.take()

    work_list.done((1, 0))
    assert work_list.passes == 1
    assert work_list.take() is None
    work_list.done((1, 1))

    assert work_list.passes == 2
    assert work_list.take() == (2, 0)


def test_an_item_that_was_not_handed_out_cannot_be_done() -> None:
    work_list = WorkList(1, lambda: False)

    with pytest.raises(KeyError):
        work_list.done((1, 0))
    with pytest.raises(KeyError):
        work_list.give_back((1, 0))
