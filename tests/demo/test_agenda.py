"""The agenda: nothing is assigned twice, nothing is left."""

from __future__ import annotations

import pytest

from bus.demo.agenda import Agenda


def test_every_file_is_handed_out_once_in_each_pass() -> None:
    passes = iter([True, False])
    agenda = Agenda(2, lambda: next(passes))
    done = []

    while (item := agenda.take()) is not None:
        done.append(item)
        agenda.done(item)

    assert done == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert agenda.passes == 2
    assert agenda.over


def test_an_item_given_back_is_the_next_to_be_handed_out() -> None:
    agenda = Agenda(2, lambda: False)
    first, second = agenda.take(), agenda.take()
    assert (first, second) == ((1, 0), (1, 1))
    assert agenda.take() is None

    agenda.give_back((1, 0))

    assert agenda.take() == (1, 0)
    assert not agenda.over


def test_no_pass_begins_before_the_one_before_it_is_complete() -> None:
    passes = iter([True, False])
    agenda = Agenda(2, lambda: next(passes))
    agenda.take()
    agenda.take()

    agenda.done((1, 0))
    assert agenda.passes == 1
    assert agenda.take() is None
    agenda.done((1, 1))

    assert agenda.passes == 2
    assert agenda.take() == (2, 0)


def test_an_item_that_was_not_handed_out_cannot_be_done() -> None:
    agenda = Agenda(1, lambda: False)

    with pytest.raises(KeyError):
        agenda.done((1, 0))
    with pytest.raises(KeyError):
        agenda.give_back((1, 0))
