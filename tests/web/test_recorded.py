"""`Recording`: the history of a bus from its journals, and the way of each loss."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pytest

from bus.errors import JournalError
from bus.web.picture import COLUMNS
from bus.web.recorded import Recording
from specs.clauses import clause
from tests.kit.systems import needs_unix_sockets
from tests.process.real import Far
from tests.support import until

pytestmark = needs_unix_sockets

_STEP_S: Final = 0.1  # ten steps of a recording that lasts less than six seconds


def task(recording: Recording, process: str, name: str, number: int) -> dict[str, Any]:
    """Return the row of a task after a round."""
    view = recording.history.at(number).views[f"machine/{process}"]
    return dict(zip(COLUMNS, view.tasks[name], strict=True))


def record(folder: Path) -> None:
    """Record five commands between two processes, and three drops."""
    with Far("alpha", role="master", journal=folder) as alpha:
        alpha.started()
        with Far("beta", journal=folder) as beta:
            beta.started()
            _exchange(alpha, beta)


def _exchange(alpha: Far, beta: Far) -> None:
    alpha("counter('echo')")
    alpha("bus.register('shelf', capacity=2, overflow='drop-oldest') and None")
    alpha("bus.register('clock') and None")
    beta("[bus.call('echo', n) for n in range(5)] and None")
    beta("bus.register('hand').subscribe('clock', print, wait=True) and None")
    alpha("[bus.command('shelf', n) for n in range(5)] and None")
    beta("bus.close()")
    beta("journal.close()")  # alpha is killed


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    record(tmp_path / "journals")
    return Recording.read(str(tmp_path / "journals"))


def test_the_rounds_show_the_bus_as_it_was(recording: Recording) -> None:
    rounds = recording.history.rounds
    seen = [
        view.tasks["echo"][COLUMNS.index("commands")]
        for each in rounds
        if (view := recording.history.at(each.number).views.get("machine/alpha"))
        and "echo" in view.tasks
    ]
    assert seen[-1] == 5
    assert seen == sorted(seen)
    last = recording.history.at(rounds[-1].number).views
    assert {key: view.facts["state"] for key, view in last.items()} == {
        "machine/alpha": "",
        "machine/beta": "left",
    }
    [link] = last["machine/beta"].facts["links"]
    assert link["to"] == "machine/alpha"
    assert link["posted"] >= 5
    assert any(each.totals.delay_us for each in rounds)
    assert sum(each.totals.lost for each in rounds) == 3


@clause("BUS-PAGE-4")
def test_each_drop_is_a_message_whose_way_is_known(recording: Recording) -> None:
    dropped = [each for each in recording.history.losses if each.kind == "dropped"]
    assert [(each.task, each.count, each.rule) for each in dropped] == [
        ("shelf", 1, "BUS-FLOW-6")
    ] * 3
    assert len({each.message for each in dropped}) == 3
    steps = recording.way(dropped[0].message)
    words = [each["what"] for each in steps]
    assert words[0] == "accepted for shelf"
    assert "will not be delivered to shelf" in words[-1]
    assert [each["at_ns"] for each in steps] == sorted(each["at_ns"] for each in steps)

    with pytest.raises(ValueError, match=r"'1\.2' is no message"):
        recording.way("1.2")
    assert recording.way("1.2.0") == []


def _is_past(moment: float) -> bool:
    return monotonic() > moment


@clause("BUS-PAGE-5")
def test_a_killed_process_is_lost_and_its_next_run_begins_anew(tmp_path: Path) -> None:
    with Far("alpha", role="master", journal=tmp_path / "z") as alpha:
        alpha.started()
        for folder in ("y", "x"):  # their paths are not in the order of the runs
            with Far("beta", journal=tmp_path / folder) as beta:
                beta.started()
                beta(f"counter('of {folder}'.replace(' ', '/'))")
                alpha(f"bus.call('of/{folder}', 1) and None")
            until(lambda: alpha("len(bus.inspect().peers)") == 0, "beta is lost")
            # A step shows only its last state, so the next run begins in a later one.
            until(partial(_is_past, monotonic() + _STEP_S), "the step has ended")

    recording = Recording.read(str(tmp_path))

    seen: list[tuple[str, list[str]]] = []
    for each in recording.history.rounds:
        view = recording.history.at(each.number).views.get("machine/beta")
        if view is not None:
            now = view.facts["state"], [*view.tasks]
            if now not in seen[-1:] and (now[1] or now[0]):
                seen.append(now)
    assert seen == [("", ["of/y"]), ("lost", []), ("", ["of/x"]), ("lost", [])]
    losses = [each for each in recording.history.losses if each.kind == "lost"]
    assert {each.process for each in losses} == {"machine/beta"}
    assert sum(each.totals.lost for each in recording.history.rounds) == 0


def test_a_folder_without_a_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal"):
        Recording.read(str(tmp_path))
