"""Stories as a reader sees them. Some are pinned whole, so that changes are seen."""

from __future__ import annotations

import functools
import linecache
import queue
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

import queuebroker
from tests.testing.failing import story_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run

# A Python for embedding has compiled modules only: no line shows the name of a lock.
needs_sources = pytest.mark.skipif(
    not linecache.getline(queue.__file__, 1),
    reason="no source of the standard library here",
)

DEADLOCK = """
deadlock: no thread can continue: forward, backward

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

    assert story_of(program) == DEADLOCK.strip()


SLOW_MACHINE = """
exception: wait raised TimeoutError: nobody came

1  main  starts wait                                                               test_story  run.spawn(wait)
2  main  starts come                                                               test_story  run.spawn(come)
3  main  ends
4  wait  takes event's lock, lets go of event's lock, sleeps until event event is set, or until 5 s  test_story  if not event.wait(timeout=5):  [Event.wait]
   -- the clock goes to 5 s (though not everybody waits: a slow machine) --
5  wait  is out of time, takes event's lock, lets go of event's lock               test_story  if not event.wait(timeout=5):  [Event.wait]
6  wait  ends with TimeoutError
7  come  takes event's lock, lets go of event's lock                               test_story  event.set()  [Event.set]
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

    assert story_of(program) == SLOW_MACHINE.strip()


def test_the_library_is_shown_only_where_no_user_is() -> None:
    def program(run: Run) -> None:
        server = queuebroker.QueueBroker("server")
        run.spawn(server.accept, 1, name="acceptor")
        run.settle()
        server.waiting_accepts()

    story = story_of(program)

    at_the_users_line = r"test_story  server\.waiting_accepts\(\)  \[\w+\.\w+\]"
    assert re.search(at_the_users_line, story)
    ending = story[story.index("how it ended") :]
    line = r" +queuebroker/[\w/]+\.py:\d+  "
    assert re.search(f"acceptor  sleeps until it is woken{line}", ending)
    assert re.search(f"its predicate is not true{line}", ending)


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

    lines = story_of(program).splitlines()

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

    line = story_of(program).splitlines()[2]

    assert "waits for lock, which it has itself" in line
    assert line.count("is out of time") <= 2


@needs_sources
def test_a_story_names_locks_after_the_variables_that_hold_them() -> None:
    class Pair:
        def __init__(self) -> None:
            self.first: threading.Lock = threading.Lock()
            self.second = threading.RLock()

    def program(run: Run) -> None:
        forks = [threading.Lock() for _ in range(2)]
        pair = Pair()
        tasks = queue.Queue[int]()
        run.settle()  # until here no other task can know them, and the story omits them
        forks[0].acquire()
        forks[1].acquire()
        pair.first.acquire()
        pair.second.acquire()
        tasks.mutex.acquire()
        raise LookupError

    story = story_of(program)

    taken = re.findall(r"takes (.+?)  ", story)
    assert taken == ["forks[0]", "forks[1]", "first", "second", "tasks.mutex"]


def test_a_lock_is_named_by_its_own_assignment_among_several_of_a_line() -> None:
    def program(run: Run) -> None:
        # fmt: off
        items = list[int](); cond = threading.Condition()  # noqa: E702
        a = threading.Semaphore(0); b = threading.Semaphore(0)  # noqa: E702
        # fmt: on
        forks = []
        for _ in range(2):
            forks.append(threading.Lock())  # noqa: PERF401 # as beginners write it
        plates = [threading.Lock(), threading.Lock()]
        run.settle()
        cond.acquire()
        b.release()
        a.release()
        forks[1].acquire()
        plates[1].acquire()
        raise LookupError(items)

    taken = re.findall(r"takes (.+?)(?:  |,)", story_of(program))
    assert taken == ["cond", "b's lock", "a's lock", "forks[1]", "plates[1]"]


def test_a_table_of_its_own_counts_its_forks_from_0() -> None:
    def table() -> list[threading.Lock]:
        forks = [threading.Lock() for _ in range(2)]
        return forks  # noqa: RET504 # the name is what the test is about

    def program(run: Run) -> None:
        first, second = table(), table()
        run.settle()
        with first[1], second[1]:
            raise LookupError

    taken = re.findall(r"takes (.+?)(?:  |,)", story_of(program))
    assert taken == ["forks[1]", "forks[1] (2)"]


@pytest.mark.parametrize(
    ("make", "sleep", "wanted"),
    [
        (threading.Semaphore, "acquire", "semaphore {} is released"),
        (threading.BoundedSemaphore, "acquire", "semaphore {} is released"),
        (threading.Event, "wait", "event {} is set"),
        (functools.partial(threading.Barrier, 2), "wait", "barrier {} is full"),
        pytest.param(queue.Queue, "get", "queue {} has an item", marks=needs_sources),
    ],
)
def test_a_story_names_the_object_that_a_sleeper_waits_for(
    make: Callable[[], Any], sleep: str, wanted: str
) -> None:
    def with_a_name(run: Run) -> None:
        it = make()
        while True:
            getattr(it, sleep)()

    def without_one(run: Run) -> None:
        for it in (make(),):
            while True:
                getattr(it, sleep)()

    kind = wanted.partition(" ")[0]
    assert f"sleeps until {wanted.format('it')}" in story_of(with_a_name)
    assert (
        f"sleeps until {wanted.format('').replace(f'{kind} ', f'a {kind}')}"
        in story_of(without_one)
    )


def test_a_story_names_the_full_queue_of_a_sleeper() -> None:
    def program(run: Run) -> None:
        jobs = queue.Queue[int](1)
        jobs.put(1)
        jobs.put(2)

    assert "sleeps until queue jobs has room" in story_of(program)


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

    story = story_of(program)

    taken = re.findall(r"takes (.+?)  ", story)
    assert taken == ["lock", "first", "second", "a lock", "a lock (2)"]
