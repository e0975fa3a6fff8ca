"""Switch points inside of lines: what they find, what they split, what they leave."""

from __future__ import annotations

import functools
import re
import sys
import threading
import types
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker.testing import Failure, FailureKind, explore, replay
from tests.testing import bounded
from tests.testing.bounded import Bounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Report, Run

traced = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="named code is monitored, not traced"
)


class LostUpdateError(Exception):
    """One of two was not counted."""


class Counter:
    """Counts without a lock."""

    def __init__(self) -> None:
        self.n = 0

    def add(self) -> None:
        self.n += 1

    def add_twice(self) -> None:
        self.add()
        self.add()


def counting(run: Run) -> None:
    """Two tasks count one each."""
    counter = Counter()
    run.spawn(counter.add)
    run.spawn(counter.add)
    run.join()
    if counter.n != 2:
        raise LostUpdateError


def _failure(program: Callable[[Run], None], **options: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        explore(program, **options)
    return caught.value


def test_a_lost_update_is_found_where_each_bytecode_is_a_switch_point() -> None:
    found = _failure(counting, bytecode=[Counter.add], random=0)

    assert found.kind is FailureKind.EXCEPTION
    assert explore(counting, random=50).exhausted


def test_one_preemption_is_needed_for_it_and_counted() -> None:
    """It is a preemption like any other: without one the search finds nothing."""
    assert explore(counting, bytecode=[Counter.add], bound=0, random=0).exhausted
    assert "add is stopped here" in _failure(counting, bytecode=[Counter.add]).story


LOST_UPDATE = """
exception: main raised LostUpdateError()

1  main   starts add                      test_bytecode  run.spawn(counter.add)
2  main   starts add-2                    test_bytecode  run.spawn(counter.add)
3  main   waits for the end of all tasks  test_bytecode  run.join()
4  add    comes to STORE_ATTR n           test_bytecode  self.n += 1
   -- add is stopped here; add-2 goes on --
5  add-2  runs                            test_bytecode  self.n += 1
6  add-2  ends
7  add    does STORE_ATTR n               test_bytecode  self.n += 1
8  add    ends
9  main   ends with LostUpdateError

raised at:
  test_bytecode in counting  raise LostUpdateError
tests.testing.test_bytecode.LostUpdateError

replay with: replay(program, [0, 0, 0, 0, 0, 1], bytecode=[Counter.add])
"""


def test_a_story_names_line_and_instruction() -> None:
    with pytest.raises(Failure) as caught:
        replay(counting, [0, 0, 0, 0, 0, 1], bytecode=[Counter.add])

    story = re.sub(
        r"(?:tests/testing/)?(test_bytecode)\.py:\d+", r"\1", caught.value.story
    )
    assert story == LOST_UPDATE.strip()


@pytest.mark.parametrize("how", ["exhaustive", "random"])
def test_what_was_found_is_found_again_by_schedule_and_by_seed(how: str) -> None:
    part = {"random": 0} if how == "exhaustive" else {"limit": 0}
    found = _failure(counting, bytecode=[Counter], seed=1, **part)

    with pytest.raises(Failure) as again:
        replay(counting, found.schedule, bytecode=[Counter])

    assert (
        again.value.story.partition("replay with")[0]
        == (found.story.partition("replay with")[0])
    )
    if how == "random":
        assert _failure(counting, bytecode=[Counter], seed=found.seed).schedule == (
            found.schedule
        )


def test_to_check_and_then_to_act_is_two_steps() -> None:
    made: list[int] = []

    def get_or_make(cache: dict[str, object]) -> None:
        if "key" not in cache:
            made.append(1)
            cache["key"] = object()

    def program(run: Run) -> None:
        made.clear()
        cache: dict[str, object] = {}
        run.spawn(get_or_make, cache)
        run.spawn(get_or_make, cache)
        run.join()
        assert len(made) == 1

    assert explore(program, random=20).exhausted
    assert _failure(program, bytecode=[get_or_make]).kind is FailureKind.EXCEPTION


def test_a_call_of_what_is_written_in_c_is_one_step() -> None:
    def add(items: list[int], new: int) -> None:
        items.append(new)

    def program(run: Run) -> None:
        items: list[int] = []
        for new in range(3):
            run.spawn(add, items, new)
        run.join()
        assert sorted(items) == [0, 1, 2]

    report = explore(program, bytecode=[add])

    assert report.exhausted
    # The six orders of three calls.
    assert report.classes >= 6


def test_what_is_not_named_is_not_split() -> None:
    def program(run: Run) -> None:
        counter = Counter()
        run.spawn(counter.add_twice)
        run.spawn(counter.add_twice)
        run.join()
        assert counter.n == 4

    assert explore(program, bytecode=[Counter.add_twice]).exhausted
    _failure(program, bytecode=[Counter.add])


class Handover:
    """A deque that never holds more than its capacity, without a lock."""

    def __init__(self, capacity: int) -> None:
        self.items: deque[int] = deque()
        self.room = deque([None] * capacity)
        self.capacity = capacity
        self.most = 0

    def put(self, item: int) -> bool:
        try:
            self.room.pop()
        except IndexError:
            return False
        self.items.append(item)
        self.most = max(self.most, len(self.items))
        return True

    def get(self) -> int | None:
        try:
            item = self.items.popleft()
        except IndexError:
            return None
        self.room.append(None)
        return item


class LooksFirst(Handover):
    """Looks whether there is room, and then puts."""

    def put(self, item: int) -> bool:
        if len(self.items) >= self.capacity:
            return False
        self.items.append(item)
        self.most = max(self.most, len(self.items))
        return True


def _handing_over(make: type[Handover]) -> Callable[[Run], None]:
    def program(run: Run) -> None:
        queue = make(1)
        puts = [run.spawn(queue.put, item, name=f"put {item}") for item in (1, 2)]
        get = run.spawn(queue.get)
        run.join()
        got = [item for item in (get.result, queue.get(), queue.get()) if item]
        assert sorted(got) == [n for n, put in enumerate(puts, 1) if put.result]
        assert queue.most <= 1

    return program


def test_a_handover_of_exact_capacity_is_exhausted() -> None:
    report = explore(_handing_over(Handover), bytecode=[Handover], bound=2, random=100)

    assert report.exhausted
    assert report.preemptions >= 2


def test_a_handover_that_looks_first_is_caught() -> None:
    _failure(_handing_over(LooksFirst), bytecode=[LooksFirst])


def test_a_deadlock_is_found_although_others_stop_inside_of_lines() -> None:
    def program(run: Run) -> None:
        locks = [threading.Lock(), threading.Lock()]

        def take(first: int) -> None:
            with locks[first], locks[1 - first]:
                pass

        run.spawn(take, 0)
        run.spawn(take, 1)

    assert _failure(program, bytecode=[program]).kind is FailureKind.DEADLOCK


def test_code_with_locks_is_right_at_each_bytecode_too() -> None:
    report = explore(
        bounded.program(Bounded, lambda q: q.put(1), lambda q: q.get()),
        bytecode=[Bounded],
        bound=1,
        random=50,
    )

    assert report.exhausted


class Struck(Counter):
    """Counts when it is interrupted."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = False
        self.handled = False

    def work(self) -> None:
        try:
            self.begin()
        except KeyboardInterrupt:
            self.n += 1
            self.handled = True

    def begin(self) -> None:
        self.begun = True


def test_an_interrupt_strikes_in_named_code_and_its_handler_is_split_too() -> None:
    """It interrupts tracing as well, which has to go on; the other is not split."""

    def program(run: Run) -> None:
        struck = Struck()
        victim = run.spawn(struck.work)
        run.spawn(struck.add)
        run.interrupt(victim, KeyboardInterrupt)
        run.join()
        if struck.n != 1 + struck.handled:
            raise LostUpdateError

    assert explore(program, bytecode=[Struck.begin], bound=2, random=0).exhausted
    found = _failure(program, bytecode=[Struck.begin, Struck.work], bound=3, random=0)

    assert "KeyboardInterrupt is thrown here" in found.story
    assert re.search(r"work +comes to (BINARY_OP \+=|STORE_ATTR n)", found.story)


def _python(state: Any = None) -> None:
    """No call into C: an interrupt strikes before it has done anything."""
    if state is not None:
        state.steps = 1


@pytest.mark.parametrize(
    ("line", "strikes"),
    [
        ("self.steps = 1; self.steps = 2", {0}),
        ("self.steps = 1; x = len('a'); self.steps = 2", {0, (1, 0)}),
        ("self.steps = 1; x = python() or 1; self.steps = 2", {0, (1, 0)}),
        ("self.steps = 1; x = python(self) or 1; self.steps = 2", {0, (1, 0)}),
        ("self.steps = 1; x = (lambda: 1)(); self.steps = 2", {0, (1, 0)}),
        ("for _ in 'ab': self.steps += 1", {0, (1, 0), (2, 0)}),
        ("while self.steps < 2: self.steps += 1", {0, (1, 0)}),
        ("for self.steps in iter([1, 2].pop, 1): break", {0, (0, 0)}),
        ("self.steps = 1; lock.release(); self.steps = 2", {0, (1, 0)}),
    ],
)
def test_an_interrupt_strikes_only_where_the_interpreter_looks_for_one(
    line: str, strikes: set[object]
) -> None:
    """After calls of what is in C, and jumps backwards; where a function begins.

    Each line tells what has been done by then: how many steps and the value of x; 0 if
    the function itself had not begun.
    """
    text = f"""def work(self, lock):
        x = 0
        try:
            {line}
        except KeyboardInterrupt:
            self.struck = self.steps, x
    """
    names: dict[str, Any] = {"python": _python}
    exec(text, names)
    seen: set[object] = set()

    def program(run: Run) -> None:
        state = types.SimpleNamespace(steps=0, struck=None)
        lock = threading.Lock()
        lock.acquire()
        victim = run.spawn(names["work"], state, lock)
        run.interrupt(victim, KeyboardInterrupt)
        run.join()
        if victim.error is not None:
            seen.add(state.steps)
        elif state.struck:
            seen.add(state.struck)

    explore(program, bytecode=[names["work"]], bound=2, random=100)

    assert seen == strikes


class Kinds:
    """One of each that can stand in a class."""

    def plain(self) -> int:
        return len([None for _ in "a"])

    @property
    def told(self) -> int:
        return len("a")

    @staticmethod
    def static() -> int:
        return len("a")

    @classmethod
    def of_class(cls) -> int:
        return len("a")

    @functools.cached_property
    def cached(self) -> int:
        return len("a")

    @functools.lru_cache  # noqa: B019 # a few calls in a test
    def remembered(self) -> int:
        return len("a")

    class Nested:
        def __init__(self) -> None:
            self.length = len("a")


def _steps(body: Callable[[], object], *named: object) -> int:
    """How many switch points a task passes in a function."""

    def program(run: Run) -> None:
        Kinds.remembered.cache_clear()
        body()

    report = explore(program, bytecode=named, bound=0, random=0)
    return report.steps - explore(program, bound=0, random=0).steps


@pytest.mark.parametrize(
    "body",
    [
        lambda: Kinds().plain(),
        lambda: Kinds().told,
        lambda: Kinds().static(),
        lambda: Kinds().of_class(),
        lambda: Kinds().cached,
        lambda: Kinds().remembered(),
        lambda: Kinds.Nested().length,
    ],
)
def test_all_that_stands_in_a_class_can_be_split(body: Callable[[], object]) -> None:
    assert _steps(body, Kinds) > 0
    assert _steps(body, sys.modules[__name__]) > _steps(body, Kinds)


@pytest.mark.parametrize("named", [Kinds.plain, Kinds().plain, functools.partial(len)])
def test_a_function_is_named_by_itself(named: object) -> None:
    if isinstance(named, functools.partial):
        with pytest.raises(TypeError, match="functions, classes and modules"):
            explore(counting, bytecode=[named])
    else:
        assert _steps(lambda: Kinds().plain(), named) > 0
        assert _steps(lambda: Kinds().static(), named) == 0


@pytest.mark.parametrize("named", [len, "Counter", 1, object(), deque])
def test_what_has_no_code_in_python_is_refused(named: object) -> None:
    with pytest.raises(TypeError, match="bytecode takes functions, classes and"):
        explore(counting, bytecode=[named])


def _trace_nothing(*_: object) -> None:
    return None


@traced
def test_threads_that_are_traced_already_are_refused() -> None:
    before = threading.gettrace()
    threading.settrace(_trace_nothing)
    try:
        with pytest.raises(RuntimeError, match=r"traced already, by <function _trace_"):
            explore(counting, bytecode=[Counter])
    finally:
        threading.settrace(before)  # type: ignore[arg-type,unused-ignore]


@traced
def test_a_program_that_has_its_threads_traced_is_refused() -> None:
    def program(run: Run) -> None:
        threading.settrace(_trace_nothing)
        try:
            run.spawn(len, "a").join()
        finally:
            threading.settrace(None)  # type: ignore[arg-type,unused-ignore]

    found = _failure(program, bytecode=[Counter])

    assert found.kind is FailureKind.UNCONTROLLED
    assert "threads are traced already, by <function _trace_nothing" in found.story


def test_nothing_is_traced_after_an_exploration() -> None:
    explore(counting, bound=0, random=0, bytecode=[Counter])
    before: Report = explore(counting, bound=0, random=0)

    assert threading.gettrace() is None
    assert before.steps == explore(counting, bound=0, random=0).steps


def test_what_a_function_held_is_finalized_when_it_was_left() -> None:
    """Being watched keeps nothing alive, also not after an exception."""
    gone: list[bool] = []

    class Held:
        def __del__(self) -> None:
            gone.append(True)

    def hold() -> None:
        held = Held()
        int(f"not a number, {held.__class__}")

    def program(run: Run) -> None:
        gone.clear()
        try:  # noqa: SIM105 # a context manager would be called, and hide it
            hold()
        except ValueError:
            pass
        assert gone == [True]

    assert explore(program, bytecode=[hold], bound=0, random=0).exhausted


# Before that the named code is traced, and there is nobody to monitor.
if sys.version_info >= (3, 12):

    def test_an_interpreter_that_is_monitored_by_too_many_is_refused() -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        for number in (3, 4):
            monitoring.use_tool_id(number, f"tool {number}")
        try:
            with pytest.raises(RuntimeError, match=r"monitored by .*tool 4.*tool 3"):
                explore(counting, bytecode=[Counter])
        finally:
            for number in (3, 4):
                monitoring.free_tool_id(number)
        assert explore(counting, bytecode=[Counter], bound=0, random=0).exhausted
