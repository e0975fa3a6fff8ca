"""Stories of wake-ups: correct, spurious and lost ones."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import pytest

from tests.testing.failing import story_of

if TYPE_CHECKING:
    from queuebroker.testing import Run

TOO_EARLY = """
lost wake-up: get sleeps, put notified it too early, and no thread will again

 1  main  starts get                                      test_story_wake_ups  run.spawn(get)
 2  main  starts put                                      test_story_wake_ups  run.spawn(put)
 3  main  waits for the end of all tasks                  test_story_wake_ups  run.join()
 4  get   takes condition, lets go of condition           test_story_wake_ups  with condition:
    -- get is stopped here; put goes on --
 5  put   takes condition                                 test_story_wake_ups  with condition:
 6  put   notifies nobody                                 test_story_wake_ups  condition.notify()
 7  put   lets go of condition                            test_story_wake_ups  with condition:
 8  put   ends
 9  get   takes condition                                 test_story_wake_ups  with condition:
10  get   lets go of condition, sleeps until it is woken  test_story_wake_ups  condition.wait()  [Condition.wait]

how it ended, at 0 s of virtual time:
  main  waits for the end of all tasks                  test_story_wake_ups  run.join()
  get   sleeps until it is woken                        test_story_wake_ups  condition.wait()  [Condition.wait]
        put notified it before it slept                 test_story_wake_ups  condition.notify()

replay with: replay(program, [0, 0, 0, 0, 0, 1])
"""  # noqa: E501 # pinned as it is


def test_a_wake_up_that_came_too_early() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()
        items: list[str] = []

        def get() -> None:
            with condition:
                empty = not items
            if empty:
                with condition:
                    condition.wait()

        def put() -> None:
            with condition:
                items.append("apple")
                condition.notify()

        run.spawn(get)
        run.spawn(put)
        run.join()

    assert story_of(program) == TOO_EARLY.strip()


LOST_WAKE_UP = """
lost wake-up: wait-2 sleeps, its predicate is true, and no thread will wake it

 1  main    starts wait                                               test_story_wake_ups  run.spawn(wait)
 2  main    starts wait-2                                             test_story_wake_ups  run.spawn(wait)
 3  main    waits until nobody else can go on                         test_story_wake_ups  run.settle()
 4  wait    takes door                                                test_story_wake_ups  with door:
 5  wait    lets go of door, sleeps until it is woken, or until 60 s  test_story_wake_ups  door.wait_for(lambda: is_open, timeout=60)  [Condition.wait_for]
 6  wait-2  takes door                                                test_story_wake_ups  with door:
 7  wait-2  lets go of door, sleeps until it is woken, or until 60 s  test_story_wake_ups  door.wait_for(lambda: is_open, timeout=60)  [Condition.wait_for]
 8  main    takes door                                                test_story_wake_ups  with door:
 9  main    wakes wait                                                test_story_wake_ups  door.notify()  [Condition.notify]
10  main    lets go of door                                           test_story_wake_ups  with door:
11  main    ends
12  wait    wakes up, takes door                                      test_story_wake_ups  door.wait_for(lambda: is_open, timeout=60)  [Condition.wait_for]
13  wait    lets go of door                                           test_story_wake_ups  with door:
14  wait    ends

how it ended, at 0 s of virtual time:
  wait-2  sleeps until it is woken, or until 60 s                   test_story_wake_ups  door.wait_for(lambda: is_open, timeout=60)  [Condition.wait_for]
          its predicate is true                                     test_story_wake_ups  door.wait_for(lambda: is_open, timeout=60)

replay with: replay(program, [])
"""  # noqa: E501 # pinned as it is


def test_a_lost_wake_up() -> None:
    def program(run: Run) -> None:
        door = threading.Condition()
        is_open: list[bool] = []

        def wait() -> None:
            with door:
                door.wait_for(lambda: is_open, timeout=60)

        run.spawn(wait)
        run.spawn(wait)
        run.settle()
        with door:
            is_open.append(True)
            door.notify()

    assert story_of(program, bound=0) == LOST_WAKE_UP.strip()


NEVER_NOTIFIED = """
deadlock: no thread can continue: get

1  main  starts get                                      test_story_wake_ups  run.spawn(get)
2  main  ends
3  get   takes condition                                 test_story_wake_ups  with condition:
4  get   lets go of condition, sleeps until it is woken  test_story_wake_ups  condition.wait()  [Condition.wait]

how it ended, at 0 s of virtual time:
  get   sleeps until it is woken                        test_story_wake_ups  condition.wait()  [Condition.wait]
        nobody has ever notified it

replay with: replay(program, [])
"""  # noqa: E501 # pinned as it is


def test_a_bare_wait_that_no_task_ever_notifies() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()

        def get() -> None:
            with condition:
                condition.wait()

        run.spawn(get)

    assert story_of(program) == NEVER_NOTIFIED.strip()


def test_a_task_that_was_woken_and_sleeps_again_was_not_notified_too_early() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()

        def get() -> None:
            with condition:
                condition.wait()
                condition.wait()

        run.spawn(get)
        run.settle()
        with condition:
            condition.notify_all()

    story = story_of(program)

    assert "wakes get" in story
    assert "notifies nobody" not in story
    assert "before it slept" not in story


@pytest.mark.parametrize("looks_again", [False, True], ids=["if", "while"])
def test_a_notify_that_would_not_have_helped_is_no_lost_wake_up(
    looks_again: bool,
) -> None:
    """One item for two tasks: one gets none, whenever the notify comes."""

    def program(run: Run) -> None:
        condition = threading.Condition()
        items: list[str] = []

        def get() -> None:
            with condition:
                while not items:
                    condition.wait()
                    if not looks_again:
                        break
                items.pop()

        with condition:
            items.append("apple")
            condition.notify()
        run.spawn(get)
        run.spawn(get)

    story = story_of(program)

    assert story.startswith("deadlock: no thread can continue: get-2\n")
    assert "main notified it before it slept" in story


def test_a_story_reports_a_notify_all_before_the_wait() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()

        def get() -> None:
            with condition:
                condition.wait()

        run.spawn(get)
        with condition:
            condition.notify_all()

    story = story_of(program)

    assert re.search(
        r"main +notifies nobody +test_story_wake_ups +condition.notify_all", story
    )
    assert re.search(r"main notified it before it slept +test_story_wake_ups", story)


def test_a_story_omits_an_event_that_wakes_no_task() -> None:
    def program(run: Run) -> None:
        event = threading.Event()
        event.set()
        event.clear()
        run.spawn(event.wait)

    assert "notifie" not in story_of(program)
