"""The helpers of the other tests: threads that report, ordered steps, waiting."""

from __future__ import annotations

import threading

import pytest

from tests.support import Sequencer, Threads, until


def test_a_thread_gives_the_result_of_its_function() -> None:
    with Threads() as threads:
        running = threads.start(divmod, 7, 2)

    assert running.result() == (3, 1)
    assert running.done


def test_an_error_that_was_not_fetched_is_raised_at_the_end() -> None:
    with pytest.raises(ZeroDivisionError), Threads() as threads:
        threads.start(divmod, 1, 0)


def test_an_error_that_was_asked_for_is_not_raised_again() -> None:
    with Threads() as threads:
        first, second = threads.start(divmod, 1, 0), threads.start(divmod, 2, 0)

        assert isinstance(first.error(), ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):
            second.result()


def test_the_error_of_the_block_wins() -> None:
    def block() -> None:
        with Threads() as threads:
            threads.start(divmod, 1, 0)
            raise KeyError

    with pytest.raises(KeyError):
        block()


def test_a_thread_that_hangs_is_named_with_its_stack(
    capfd: pytest.CaptureFixture[str],
) -> None:
    held = threading.Event()

    def wait_for_ever() -> None:
        held.wait()

    threads = Threads(limit_s=0.05)
    threads.start(wait_for_ever)
    with pytest.raises(AssertionError, match="wait_for_ever-0 still runs after"):
        threads.join()

    assert "in wait_for_ever" in capfd.readouterr().err
    held.set()


def test_steps_come_in_the_order_of_their_numbers() -> None:
    in_turn = Sequencer()
    done: list[int] = []

    def work(numbers: range) -> None:
        for number in numbers:
            with in_turn(number):
                done.append(number)

    with Threads() as threads:
        threads.start(work, range(2, 30, 3))
        threads.start(work, range(1, 30, 3))
        threads.start(work, range(0, 30, 3))

    assert done == list(range(30))


def test_until_waits_for_the_action_of_another_thread() -> None:
    seen: list[str] = []
    with Threads() as threads:
        threads.start(seen.append, "x")

        until(lambda: bool(seen), "seen")

    assert seen == ["x"]


def test_until_names_the_condition_that_never_held(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(AssertionError, match=r"not so after 0\.01 s: the sun rises"):
        until(lambda: False, "the sun rises", limit_s=0.01)

    assert "most recent call first" in capfd.readouterr().err
