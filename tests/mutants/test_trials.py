"""A catch is a test that fails with the fault, and that passes without it."""

from __future__ import annotations

import ast
import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

from bus.pattern.dialler import Redial
from tests.mutants.by_hand import Results
from tests.mutants.catalogue import changed, parse
from tests.mutants.collected import Outcome, Ran
from tests.mutants.edit import Edit
from tests.mutants.forks import NOT_SWAPPABLE
from tests.mutants.library import source
from tests.mutants.swap import Functions, NotSwappableError

if TYPE_CHECKING:
    from collections.abc import Iterator

TEST: Final = "tests/a.py::test"
[FAULT] = parse(f"""\
X1 QB-SEND-1
  the bound never grows
  {TEST}
Redial.next_pause
- self._bound_s = min(2 * self._bound_s, self._max_s)
""")
PASSES: Final = Outcome({TEST: Ran(0.1)})
FAILS: Final = Outcome(failed=(TEST,))
BROKEN: Final = Outcome(trouble="exit code 1")
UNSWAPPABLE: Final = Outcome(trouble=NOT_SWAPPABLE)


@pytest.mark.parametrize(
    ("outcomes", "counts"),
    [
        ([PASSES, FAILS], (1, 0, 0)),
        ([PASSES, PASSES, PASSES, FAILS], (1, 0, 0)),  # in a planted copy
        ([PASSES, UNSWAPPABLE, PASSES, FAILS], (1, 0, 0)),
        ([PASSES, PASSES, PASSES, PASSES], (0, 1, 0)),
        ([FAILS], (0, 0, 1)),  # without the fault
        ([BROKEN], (0, 0, 1)),
        ([PASSES, BROKEN], (0, 0, 1)),
        ([PASSES, PASSES, FAILS], (0, 0, 1)),  # in a planted copy without the fault
    ],
)
def test_only_a_test_that_passes_without_the_fault_catches_it(
    outcomes: list[Outcome], counts: tuple[int, int, int]
) -> None:
    collected: Any = SimpleNamespace(tests={TEST: frozenset(FAULT.clauses)})
    results = Results(collected, find=False)
    trials = results.judge(FAULT)

    unchanged = next(trials)
    for outcome in outcomes[:-1]:
        trials.send(outcome)
    with pytest.raises(StopIteration):
        trials.send(outcomes[-1])

    [(file, tree)] = unchanged.trees.items()
    assert ast.dump(tree) == ast.dump(ast.parse(source(file)))
    assert (len(results.caught), results.lives, results.broken) == counts


def test_a_test_of_other_clauses_is_no_catch() -> None:
    collected: Any = SimpleNamespace(tests={TEST: frozenset({"QB-RECV-1"})})
    results = Results(collected, find=False)

    assert list(results.judge(FAULT)) == []
    assert results.broken == 1


@pytest.fixture
def functions() -> Iterator[Functions]:
    code = Redial.next_pause.__code__
    gc.unfreeze()  # `gc.get_objects` returns no frozen object
    yield Functions()
    Redial.next_pause.__code__ = code


def test_a_swap_changes_the_functions_of_the_running_library(
    functions: Functions,
) -> None:
    redial = Redial(1.0, 9.0, lambda: 1.0)
    assert [redial.next_pause(), redial.next_pause()] == [1.0, 2.0]

    functions.swap(FAULT.trees())

    assert [redial.next_pause(), redial.next_pause()] == [4.0, 4.0]


@pytest.mark.deep
@pytest.mark.parametrize(
    "edit",
    [
        Edit("bus.pattern.dialler:", '__all__ = ["Dialler", "Redial"]', "__all__ = []"),
        Edit("Redial.next_pause", "return pause_s", "yield pause_s"),
        Edit("Redial", "def reset(self) -> None:", "def reset(self, now=0):"),
    ],
)
def test_what_has_run_already_is_not_swapped(functions: Functions, edit: Edit) -> None:
    code = Redial.next_pause.__code__

    with pytest.raises(NotSwappableError):
        functions.swap(changed([*FAULT.edits, edit]))

    assert Redial.next_pause.__code__ is code
