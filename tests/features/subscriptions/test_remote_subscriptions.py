"""How the features of a process begin: at their first use, or among others."""

from __future__ import annotations

import pytest

from bus.features.moving.new_addresses import NewAddresses
from bus.features.subscriptions.local_subscriptions import subscriptions_of
from bus.features.subscriptions.remote_subscriptions import RemoteSubscriptions
from bus.kernel.tasks.remote import NoAudiences
from bus.model.registration import Visibility
from bus.model.specification import Specification
from specs.clauses import clause
from tests.features.machines.test_static_addresses import Master
from tests.kernel.test_process_manager import Asked, manager, register


@clause("BUS-MSG-5")
def test_a_process_without_a_subscription_keeps_nothing_for_any() -> None:
    """From the first one on, tasks that registered before are notifiers, too."""
    one = manager()
    notifier, _ = register(one, "news")
    reader, _ = register(one, "reader")
    before = one.audiences

    subscriptions_of(one).subscribe(Asked(reader, Specification.parse("news")))

    assert [each.entry for each in notifier.audience] == [reader]
    assert isinstance(before, NoAudiences)
    assert subscriptions_of(one) is one.audiences


@clause("BUS-RELAY-8", "BUS-DEREG-2")
@pytest.mark.parametrize("presence", [False, True])
def test_what_a_process_wants_before_it_joins_others_is_asked_of_them(
    presence: bool,
) -> None:
    """A task of another bus of the process may subscribe while this one is opened."""
    remote = Master("m1").remote
    local = subscriptions_of(remote.manager)
    entry, _ = remote.manager.register("r", Visibility.PRIVATE, "bus1", "host", "box")
    asked = Asked(entry, Specification.parse("news"))
    _ = local.watch(asked) if presence else local.subscribe(asked)

    remote.begin(0.0)

    assert isinstance(local.remote, RemoteSubscriptions)
    assert list(local.remote.own) == [("m1", "news", presence)]


@clause("BUS-MOVE-9")
def test_a_process_is_alone_until_its_features_record_the_departures() -> None:
    """Else a departure would be announced, and its new address recorded nowhere."""
    remote = Master("m1").remote
    manager = remote.manager
    entry, _ = manager.register("f", Visibility.PUBLIC, "bus1", "host", "box")
    assert manager.remote is None
    entry.moved_to = "ism://m2/f"
    manager.leave(entry, [])

    remote.begin(0.0)
    manager.on_emptied(entry, [], 0.0, [], final=False)

    moves = remote.resolver.own.moves
    assert isinstance(moves, NewAddresses)
    assert moves.by_name == {"f": ("ism://m2/f", 5.0)}
