"""Stories as a reader sees them. They are pinned whole, so that they are looked at."""

from __future__ import annotations

import queue
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

import queuebroker
from queuebroker.testing import Failure, explore

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


def _told(program: Callable[[Run], object], **options: Any) -> str:
    """The story, with the numbers of lines in this file taken out."""
    with pytest.raises(Failure) as caught:
        explore(program, random=0, **options)
    return re.sub(r"(?:tests/testing/)?(test_story)\.py:\d+", r"\1", caught.value.story)


TOO_EARLY = """
lost wake-up: get sleeps, put notified it too early, and nobody will again

 1  main  starts get                                      test_story  run.spawn(get)
 2  main  starts put                                      test_story  run.spawn(put)
 3  main  waits for the end of all tasks                  test_story  run.join()
 4  get   takes condition, lets go of condition           test_story  with condition:
    -- get is stopped here; put goes on --
 5  put   takes condition                                 test_story  with condition:
 6  put   notifies nobody                                 test_story  condition.notify()
 7  put   lets go of condition                            test_story  with condition:
 8  put   ends
 9  get   takes condition                                 test_story  with condition:
10  get   lets go of condition, sleeps until it is woken  test_story  condition.wait()  [Condition.wait]

how it ended, at 0 s of virtual time:
  main  waits for the end of all tasks                  test_story  run.join()
  get   sleeps until it is woken                        test_story  condition.wait()  [Condition.wait]
        put notified it before it slept                 test_story  condition.notify()

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

    assert _told(program) == TOO_EARLY.strip()


LOST_WAKE_UP = """
lost wake-up: wait-2 sleeps, what it sleeps for is true, and nobody will wake it

 1  main    starts wait                                               test_story  run.spawn(wait)
 2  main    starts wait-2                                             test_story  run.spawn(wait)
 3  main    waits until nobody else can go on                         test_story  run.settle()
 4  wait    takes door                                                test_story  with door:
 5  wait    lets go of door, sleeps until it is woken, or until 60 s  test_story  door.wait_for(lambda: is_open, timeout=60)  [Condition.wait_for]
 6  wait-2  takes door                                                test_story  with door:
 7  wait-2  lets go of door, sleeps until it is woken, or until 60 s  test_story  door.wait_for(lambda: is_open, timeout=60)  [Condition.wait_for]
 8  main    takes door                                                test_story  with door:
 9  main    wakes wait                                                test_story  door.notify()  [Condition.notify]
10  main    lets go of door                                           test_story  with door:
11  main    ends
12  wait    wakes up, takes door                                      test_story  door.wait_for(lambda: is_open, timeout=60)  [Condition.wait_for]
13  wait    lets go of door                                           test_story  with door:
14  wait    ends

how it ended, at 0 s of virtual time:
  wait-2  sleeps until it is woken, or until 60 s                   test_story  door.wait_for(lambda: is_open, timeout=60)  [Condition.wait_for]
          what it sleeps for is true                                test_story  door.wait_for(lambda: is_open, timeout=60)

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

    assert _told(program, bound=0) == LOST_WAKE_UP.strip()


DEADLOCK = """
deadlock: nobody can go on: forward, backward

1  main      starts forward                       test_story  run.spawn(forward)
2  main      starts backward                      test_story  run.spawn(backward)
3  main      ends
4  forward   takes left                           test_story  with left, right:
   -- forward is stopped here; backward goes on --
5  backward  takes right                          test_story  with right:
6  backward  waits for left, which forward has    test_story  left.acquire()

how it ended, at 0 s of virtual time:
  forward   waits for right, which backward has  test_story  with left, right:
  backward  waits for left, which forward has    test_story  left.acquire()

replay with: replay(program, [0, 0, 0, 0, 1])
"""


def test_a_deadlock() -> None:
    def program(run: Run) -> None:
        left = threading.Lock()
        right = threading.Lock()

        def forward() -> None:
            with left, right:
                pass

        def backward() -> None:
            with right:
                left.acquire()
                left.release()

        run.spawn(forward)
        run.spawn(backward)

    assert _told(program) == DEADLOCK.strip()


SLOW_MACHINE = """
exception: wait raised TimeoutError: nobody came

1  main  starts wait                                                            test_story  run.spawn(wait)
2  main  starts come                                                            test_story  run.spawn(come)
3  main  ends
4  wait  takes event, lets go of event, sleeps until it is woken, or until 5 s  test_story  if not event.wait(timeout=5):  [Event.wait]
   -- the clock goes to 5 s (though not everybody waits: a slow machine) --
5  wait  is out of time, takes event, lets go of event                          test_story  if not event.wait(timeout=5):  [Event.wait]
6  wait  ends with TimeoutError
7  come  takes event, lets go of event                                          test_story  event.set()  [Event.set]
8  come  ends

raised at:
  test_story in wait  raise TimeoutError("nobody came")
TimeoutError: nobody came

replay with: replay(program, [0, 0, 0, 0, 0, 1])
"""  # noqa: E501 # pinned as it is


def test_an_exception_on_a_slow_machine() -> None:
    def program(run: Run) -> None:
        event = threading.Event()

        def wait() -> None:
            if not event.wait(timeout=5):
                raise TimeoutError("nobody came")

        def come() -> None:
            event.set()

        run.spawn(wait)
        run.spawn(come)

    assert _told(program) == SLOW_MACHINE.strip()


def test_the_library_is_shown_only_where_no_user_is() -> None:
    def program(run: Run) -> None:
        server = queuebroker.QueueBroker("server")
        run.spawn(server.accept, 1, name="acceptor")
        run.settle()
        server.waiting_accepts()

    story = _told(program)

    at_the_users_line = r"test_story  server\.waiting_accepts\(\)  \[\w+\.\w+\]"
    assert re.search(at_the_users_line, story)
    ending = story[story.index("how it ended") :]
    line = r" +queuebroker/\w+\.py:\d+  "
    assert re.search(f"acceptor  sleeps until it is woken{line}", ending)
    assert re.search(f"what it sleeps for is not true{line}", ending)


def test_a_long_undisturbed_stretch_is_cut_short() -> None:
    def program(run: Run) -> None:
        lock = threading.Lock()

        def work() -> None:
            lock.acquire()
            lock.release()
            lock.acquire()
            lock.release()
            lock.acquire()
            lock.release()
            lock.acquire()
            lock.release()
            lock.acquire()
            lock.release()
            raise LookupError

        run.spawn(work)

    lines = _told(program).splitlines()

    shown = [line.split("  test_story")[0].rstrip() for line in lines[4:13]]
    assert shown == [
        " 3  work  takes lock",
        " 4  work  lets go of lock",
        " 5  work  takes lock",
        " 6  work  lets go of lock",
        "    work  ... 4 more lines",
        "11  work  takes lock",
        "12  work  lets go of lock",
        "13  work  ends with LookupError",
        "",
    ]


def test_a_task_that_repeats_itself_on_one_line_is_cut_short() -> None:
    def program(_run: Run) -> None:
        lock = threading.Lock()
        for _ in range(20):
            lock.acquire(timeout=1)
        raise LookupError

    line = _told(program).splitlines()[2]

    assert "waits for lock, which it has itself" in line
    assert line.count("is out of time") <= 2


def test_locks_are_called_what_they_are_assigned_to() -> None:
    class Pair:
        def __init__(self) -> None:
            self.first: threading.Lock = threading.Lock()
            self.second = threading.RLock()

    def program(run: Run) -> None:
        forks = [threading.Lock() for _ in range(2)]
        pair = Pair()
        tasks = queue.Queue[int]()
        run.settle()  # until here nobody else can know them, and nothing is told
        forks[0].acquire()
        forks[1].acquire()
        pair.first.acquire()
        pair.second.acquire()
        tasks.mutex.acquire()
        raise LookupError

    story = _told(program)

    taken = re.findall(r"takes (.+?)  ", story)
    assert taken == ["forks", "forks (2)", "first", "second", "tasks.mutex"]


def test_locks_that_are_assigned_together_have_names_of_their_own() -> None:
    class Pair:
        def __init__(self) -> None:
            self.first, self.second = threading.Lock(), threading.Condition()

    def program(run: Run) -> None:
        items, lock = list[str](), threading.Lock()
        pair = Pair()
        one, other = (threading.Lock() for _ in range(2))
        run.settle()
        lock.acquire()
        pair.first.acquire()
        pair.second.acquire()
        one.acquire()
        other.acquire()
        raise LookupError(items)

    story = _told(program)

    taken = re.findall(r"takes (.+?)  ", story)
    assert taken == ["lock", "first", "second", "a lock", "a lock (2)"]


NEVER_NOTIFIED = """
deadlock: nobody can go on: get

1  main  starts get                                      test_story  run.spawn(get)
2  main  ends
3  get   takes condition                                 test_story  with condition:
4  get   lets go of condition, sleeps until it is woken  test_story  condition.wait()  [Condition.wait]

how it ended, at 0 s of virtual time:
  get   sleeps until it is woken                        test_story  condition.wait()  [Condition.wait]
        nobody has ever notified it

replay with: replay(program, [])
"""  # noqa: E501 # pinned as it is


def test_a_bare_wait_that_nobody_ever_notifies() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()

        def get() -> None:
            with condition:
                condition.wait()

        run.spawn(get)

    assert _told(program) == NEVER_NOTIFIED.strip()


def test_who_was_woken_and_sleeps_again_was_not_notified_too_early() -> None:
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

    story = _told(program)

    assert "wakes get" in story
    assert "notifies nobody" not in story
    assert "before it slept" not in story


@pytest.mark.parametrize("looks_again", [False, True], ids=["if", "while"])
def test_a_notify_that_would_not_have_helped_is_no_lost_wake_up(
    looks_again: bool,
) -> None:
    """There is one item for two: somebody gets none, whoever was notified when."""

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

    story = _told(program)

    assert story.startswith("deadlock: nobody can go on: get-2\n")
    assert "main notified it before it slept" in story


def test_a_notify_of_all_that_came_too_early_is_told_too() -> None:
    def program(run: Run) -> None:
        condition = threading.Condition()

        def get() -> None:
            with condition:
                condition.wait()

        run.spawn(get)
        with condition:
            condition.notify_all()

    story = _told(program)

    assert re.search(r"main +notifies nobody +test_story +condition.notify_all", story)
    assert re.search(r"main notified it before it slept +test_story", story)


def test_that_an_event_wakes_nobody_is_nothing_to_tell() -> None:
    def program(run: Run) -> None:
        event = threading.Event()
        event.set()
        event.clear()
        run.spawn(event.wait)

    assert "notifie" not in _told(program)
