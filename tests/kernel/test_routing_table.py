"""`RoutingTable`: read by one thread while another one changes it."""

from __future__ import annotations

import itertools

from bus.kernel.tasks.routing_table import Entry, RoutingTable
from bus.model.address import Address
from bus.model.registration import RegistrationId, Visibility
from specs.clauses import clause
from tests.kit.collector import changed_by_finalizers


@clause("BUS-ROUTE-1")
def test_another_thread_may_register_while_the_public_tasks_are_read() -> None:
    table, numbers = RoutingTable(), itertools.count()

    def register() -> None:
        number = next(numbers)
        if number < 40:
            name = f"t{number}"
            table.add(
                Entry(
                    RegistrationId("m", "p", number),
                    name,
                    Visibility.PUBLIC,
                    Address(name, machine="m", bus="b"),
                    host=None,
                    mailbox=None,
                )
            )

    for _ in range(20):
        register()
    with changed_by_finalizers(register):
        public = list(table.public())

    assert len(public) >= 20
