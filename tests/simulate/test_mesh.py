"""The simulation of many machines: one master costs the same alone and in a mesh."""

from __future__ import annotations

import pytest

from bus.features.machines.discovery import Rejection
from specs.clauses import clause
from tests.simulate.mesh import main, measure, table_of

TASKS = 2


@pytest.mark.deep
@clause("BUS-DISC-10")
@pytest.mark.parametrize("machines", [10, 30])
def test_one_master_among_unlinked_others_costs_as_much_as_in_a_mesh(
    machines: int,
) -> None:
    """So the figures for 1,000 machines need only the links of one of them."""
    mesh, one = measure(machines, TASKS), measure(machines, TASKS, one=True)

    assert mesh.links == one.links == machines - 1
    assert one.links_s <= mesh.links_s + 0.01  # the mesh waits for its last pair
    for figure in ("early", "read", "frames", "kib"):
        assert getattr(one, figure) == pytest.approx(getattr(mesh, figure), rel=0.1), (
            figure
        )
    # A master with one link has sent fewer PINGs: their numbers take fewer bytes.
    assert 0.8 * mesh.bytes < one.bytes < 1.1 * mesh.bytes


@pytest.mark.deep
@clause("BUS-DISC-5", "BUS-DISC-11")
def test_a_mesh_beyond_the_table_has_missing_links_and_counts_the_refusals() -> None:
    """A pair has a link if at least one of the two has room for the other."""
    with table_of(8):
        costs = [measure(20, TASKS, one=one) for one in (False, True)]

    for cost in costs:
        assert cost.rejected[Rejection.TABLE_FULL] > 0
        assert 8 <= cost.links < 19


def test_the_command_prints_a_line_for_each_number_of_machines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["2", "5", "--one", "--table", "3"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["machines", "links", "linked,"]
    assert [line.split()[0] for line in lines] == ["2", "5"]
    assert "of one machine too many" in lines[1]
