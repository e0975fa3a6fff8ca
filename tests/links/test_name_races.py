"""OPEN-3: real processes that register one name at the same moment."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from specs.clauses import clause
from tests.links.real import Far
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

# On a machine under load no verdict comes too late.
PATIENT = (
    "setattr(__import__('sys').modules['bus.api.task_registration'],"
    f" '_VERDICT_S', {LIMIT_S})"
)


def claims(processes: Sequence[Far], name: str) -> list[bool]:
    """Let processes register a name at once; return which of them got a task."""
    for each in processes:
        each.tell(f"bus.register({name!r}).address.module")
    outcomes = []
    for each in processes:
        try:
            outcomes.append(each.answer() == name)
        except AssertionError as error:
            if "NameTakenError" not in str(error):
                raise
            outcomes.append(False)
    return outcomes


@clause("OPEN-3", "BUS-NAME-7")
def test_of_six_processes_that_register_one_name_at_once_one_gets_a_task() -> None:
    """One of them is the master. The task keeps its name."""
    with ExitStack() as stack:
        processes = [stack.enter_context(Far(f"p{n}")) for n in range(6)]
        for each in processes:
            each.started()
            each(PATIENT)

        won = [claims(processes, f"n{n}") for n in range(20)]

        assert [sum(each) for each in won] == [1] * 20
        for number, each in enumerate(processes):
            expected = {f"n{n}" for n, which in enumerate(won) if which[number]}
            has = each("[task.address.module for task in bus.tasks()]")
            assert expected <= set(has)
