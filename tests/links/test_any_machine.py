"""Names of any machine between real processes of two machines."""

from __future__ import annotations

import pytest

from bus import Role, UnresolvedError
from specs.clauses import clause
from tests.kit.site import HERE, THERE, Site
from tests.kit.tasks import Reader, unwanted
from tests.links.processes import linked
from tests.links.real import Far
from tests.support import LIMIT_S, until

LOG = "ism://*/log"


@clause("BUS-NAME-8", "BUS-ROUTE-21")
def test_slaves_of_two_machines_find_each_other_by_name_alone(site: Site) -> None:
    """The masters search; the slaves exchange the messages directly, in order."""
    with (
        Far("m1", role="master", machine=HERE, network=site.network(HERE)) as m1,
        site.there("m2", role="master"),
        site.there("far") as far,
    ):
        m1.started()
        with site.here("near", role=Role.SLAVE) as near:
            sender = near.register("sender", on_undelivered=unwanted)
            for number in range(20):
                sender.command(LOG, number)
            far("counter('log')")
            for number in range(20, 200):
                sender.command(LOG, number)

            assert near.call(LOG, "last", timeout=LIMIT_S) == "last"
            assert far("made['log'].has(201) or made['log'].got") == [
                *range(200),
                "last",
            ]
            assert "far" in linked(near)
            assert str(near.wait_for(LOG)) == f"ism://bus1@{THERE}/log"


@clause("BUS-NAME-8", "BUS-ROUTE-21")
def test_each_machine_prefers_its_own_task_between_two_masters(site: Site) -> None:
    with site.here() as near, site.there("far", role="master") as far:
        far("counter('log')")
        assert near.call(LOG, 1, timeout=LIMIT_S) == 1
        log = Reader(near, "log")
        assert far(f"bus.call('{LOG}', 2, timeout=20)") == 2
        assert near.call(LOG, 3, timeout=LIMIT_S) == 3
        with pytest.raises(UnresolvedError, match="neither this machine nor any"):
            near.call("ism://*/nobody", timeout=0.2)

        # The name stays bound until the task deregisters.
        assert (log.got, far("made['log'].got")) == ([], [1, 2, 3])
        far("made['log'].task.deregister()")
        until(lambda: near._exchange.find(LOG) is None, "the binding has ended")
        assert near.call(LOG, 4, timeout=LIMIT_S) == 4
        assert log.got == [4]
