"""A task that moves to another machine under traffic, between real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest

from bus import BusConfig, MovedError, Role, Visibility
from bus.features.moving.new_addresses import NewAddresses
from bus.kernel import constants
from specs.clauses import clause
from tests.kit.buses import PATIENT
from tests.kit.comm_threads import comm_of
from tests.kit.inspection import all_acknowledged
from tests.kit.site import HERE, THERE, Site
from tests.kit.systems import needs_unix_sockets
from tests.kit.tasks import Holder, Reader, unwanted
from tests.process.real import Far
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from bus import Undelivered

NEW = f"ism://{THERE}/log"
FOLLOWING = attrs.evolve(PATIENT, follow_moved_tasks=True)


@clause("BUS-MOVE-1", "BUS-MOVE-9")
def test_commands_follow_a_task_to_another_machine_in_their_order(site: Site) -> None:
    """Those that it has not read, those on their way, and those sent later."""
    with site.here(config=FOLLOWING) as near, site.there("far") as far:
        sender = near.register("sender", on_undelivered=unwanted)
        log = Holder(near, "log", holds=lambda number: number == 9)
        for number in range(20):
            sender.command("log", number)
        assert log.held.wait(LIMIT_S)

        far("counter('log')")
        log.task.deregister(moved_to=NEW)
        for number in range(20, 30):
            sender.command("log", number)
        log.let_go()

        far("made['log'].has(20)")
        assert log.got == [*range(10)]
        assert far("made['log'].got") == [*range(10, 30)]
        assert near.call("log", "again", timeout=LIMIT_S) == "again"
        all_acknowledged(near)


@clause("BUS-MOVE-9")
def test_senders_of_another_machine_are_told_the_new_address(site: Site) -> None:
    """Of a process that does not follow: by the error of each command."""
    undelivered: list[Undelivered] = []
    with site.here() as near, site.there("far") as far:
        far("counter('log')")
        asker = near.register("asker", on_undelivered=undelivered.append)
        assert near.call(NEW, 1, timeout=LIMIT_S) == 1
        far(f"made['log'].task.deregister(moved_to='ism://{HERE}/log')")
        log = Reader(near, "log")

        asker.command(NEW, 2)
        until(lambda: len(undelivered) == 1, "it is reported")
        with pytest.raises(
            MovedError, match=r"BusConfig\.follow_moved_tasks"
        ) as caught:
            near.call(NEW, 3, timeout=LIMIT_S)

        assert isinstance(undelivered[0].error, MovedError)
        assert (
            undelivered[0].error.address == caught.value.address == f"ism://{HERE}/log"
        )
        assert log.got == []


@clause("BUS-MOVE-9")
def test_a_command_follows_a_task_that_comes_to_its_own_process(site: Site) -> None:
    with site.here(config=FOLLOWING) as near, site.there("far") as far:
        far("counter('log')")
        assert near.call(NEW, 1, timeout=LIMIT_S) == 1
        log = Reader(near, "log")
        far(f"made['log'].task.deregister(moved_to='ism://{HERE}/log')")

        assert near.call(NEW, 2, timeout=LIMIT_S) == 2
        assert log.got == [2]


@clause("BUS-MOVE-9")
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"moved_to": "log"}, ValueError, "of another machine .* got 'log'"),
        ({"moved_to": f"ism://{HERE}/log"}, ValueError, "of another machine"),
        ({"moved_to": f"ism://other@{THERE}/log"}, ValueError, "on this bus"),
        ({"moved_to": "ism://"}, ValueError, "is no address"),
        ({"moved_to": 1}, TypeError, "address must be a str"),
        ({"moved_to": NEW, "final": True}, ValueError, "exclude each other"),
    ],
)
def test_a_wrong_new_address_is_named_and_the_task_stays(
    site: Site, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with site.here() as near:
        log = Reader(near, "log")

        with pytest.raises(error, match=words):
            log.task.deregister(**options)

        assert near.call("log", 1, timeout=LIMIT_S) == 1


@clause("BUS-MOVE-9")
def test_follow_moved_tasks_is_true_or_false() -> None:
    with pytest.raises(TypeError, match="follow_moved_tasks"):
        BusConfig(follow_moved_tasks=1)  # type: ignore[arg-type]


@clause("BUS-MOVE-9")
def test_commands_follow_though_the_thread_that_sent_them_serves_nothing(
    site: Site,
) -> None:
    """As a script that sends, and then computes."""
    with site.here(config=FOLLOWING) as near, site.there("far") as far:
        log = Reader(near, "log")
        far("counter('log')")
        log.task.deregister(moved_to=NEW)

        for number in range(10):
            near.command("log", number)

        far("made['log'].has(10)")
        assert far("made['log'].got") == [*range(10)]


@clause("BUS-MOVE-10")
def test_a_task_is_handed_over_to_another_machine(site: Site) -> None:
    """Senders that follow reach its successor, which has its state."""
    with site.here(config=FOLLOWING) as near, site.there("far") as far:
        far("accept('movers')")
        log = Reader(near, "log")
        log.task.on_leave(lambda: log.got)
        sender = near.register("sender", on_undelivered=unwanted)
        for number in range(10):
            sender.command("log", number)

        address = near.hand_over(log.task, f"ism://{THERE}/movers", timeout=LIMIT_S)
        for number in range(10, 20):
            sender.command("log", number)

        assert str(address) == f"ism://bus1@{THERE}/log"
        far("made['log'].has(20)")
        assert far("made['log'].got") == [*range(20)]
        all_acknowledged(near)


@clause("BUS-MOVE-9", "BUS-DEREG-4")
def test_unread_commands_follow_before_those_sent_since(site: Site) -> None:
    """Though the callback of the task still runs when the new address is known."""
    with (
        Far("m1", role="master", machine=HERE, network=site.network(HERE)) as m1,
        site.here(role=Role.SLAVE, config=FOLLOWING) as near,
        site.there("far") as far,
    ):
        m1.started()
        remote = comm_of(near).remote
        until(lambda: remote.topology.has_master, "it has a master to tell")
        sender = near.register("sender", on_undelivered=unwanted)
        log = Holder(near, "log", holds=lambda number: number == 0)
        for number in range(10):
            sender.command("log", number)
        assert log.held.wait(LIMIT_S)
        far("counter('log')")

        log.task.deregister(moved_to=NEW)
        for number in range(10, 20):
            sender.command("log", number)
        moves = remote.resolver.own.moves
        assert isinstance(moves, NewAddresses)
        until(lambda: "log" in moves.deferred, "the new address is known")
        log.let_go()

        far("made['log'].has(19)")
        assert (log.got, far("made['log'].got")) == ([0], [*range(1, 20)])
        all_acknowledged(near)


@needs_unix_sockets
@clause("BUS-MOVE-9")
def test_a_name_registered_again_is_found_though_its_former_task_leaves_late(
    site: Site,
) -> None:
    """Its callback ends after another process of its machine has the name."""
    with site.here() as near, site.there("far") as far:
        far("counter('log')")
        near.call(NEW, "first", timeout=LIMIT_S)
        log = Holder(near, "log")
        near.command("log", "held")
        assert log.held.wait(LIMIT_S)
        with Far("slave", network=site.network(HERE)) as slave:
            slave.started()
            log.task.deregister(moved_to=NEW)
            slave("counter('log')")
            log.let_go()

            assert far(f"bus.call('ism://{HERE}/log', 1, timeout=20)") == 1
            slave("made['log'].has(1)")


@clause("BUS-MOVE-9", "BUS-FLOW-1")
def test_all_unread_commands_follow_however_many(site: Site) -> None:
    """Those that a task has accepted are not refused for lack of room."""
    count = 3 * constants.PARKED_PER_NAME
    with site.here(config=FOLLOWING) as near, site.there("far") as far:
        sender = near.register("sender", on_undelivered=unwanted)
        log = Holder(near, "log")
        for number in range(count):
            sender.command("log", number)
        assert log.held.wait(LIMIT_S)

        log.task.deregister(moved_to=NEW)
        log.let_go()
        far("counter('log')")

        far(f"made['log'].has({count - 1})")
        assert far("made['log'].got") == [*range(1, count)]
        all_acknowledged(near)


def test_a_private_task_tells_no_new_address(site: Site) -> None:
    with site.here() as near:
        task = near.register("own", visibility=Visibility.PRIVATE)

        with pytest.raises(ValueError, match="is for public tasks"):
            task.deregister(moved_to=NEW)
