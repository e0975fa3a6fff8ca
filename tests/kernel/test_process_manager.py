"""The decisions of a process: names, departures, parked messages, subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest

import bus as package
from bus.errors import (
    AddresseeGoneError,
    BusFullError,
    NameTakenError,
    UnresolvedError,
)
from bus.features.subscriptions.local_subscriptions import subscriptions_of
from bus.features.subscriptions.presence import PresenceReport
from bus.kernel.tasks.actions import Fail, Open
from bus.kernel.tasks.process_manager import ProcessManager
from bus.kernel.tasks.routing_table import Entry
from bus.model.address import Address
from bus.model.message import Incoming, Kind, Presence
from bus.model.registration import Visibility
from bus.model.specification import Specification
from bus.process.registration import undoable
from specs.clauses import clause
from tests.kit.messages import new_message
from tests.strikes import everywhere

if TYPE_CHECKING:
    from tests.strikes import Blow

RESOLVE_S = 5.0
NOW = 100.0


@attrs.frozen(eq=False)
class Asked:
    """A subscription or a watch, as the manager sees one."""

    _entry: Entry
    specification: Specification


def manager(*, per_name: int = 10, in_all: int = 10) -> ProcessManager:
    return ProcessManager(
        "here",
        "p1",
        parked_per_name=per_name,
        parked_in_all=in_all,
        resolve_timeout_s=RESOLVE_S,
    )


def register(
    of: ProcessManager, name: str, *, private: bool = False
) -> tuple[Entry, list[Any]]:
    visibility = Visibility.PRIVATE if private else Visibility.PUBLIC
    return of.register(name, visibility, "bus1", host="host", mailbox="mailbox")


def command(name: str, payload: object, deadline: float | None = None) -> Incoming:
    return new_message(payload, _name=name, _deadline=deadline)


def payloads(messages: Any) -> list[object]:
    return [message.payload for message in messages]


def given_up(of: ProcessManager, now: float) -> list[object]:
    return payloads(action.message for action in expire(of, now))


def leave(of: ProcessManager, entry: Entry) -> list[Any]:
    actions: list[Any] = []
    of.leave(entry, actions)
    return actions


def emptied(
    of: ProcessManager, entry: Entry, unread: list[Incoming], now: float, *, final: bool
) -> list[Any]:
    actions: list[Any] = []
    of.on_emptied(entry, unread, now, actions, final=final)
    return actions


def expire(of: ProcessManager, now: float) -> list[Any]:
    actions: list[Any] = []
    of.expire(now, actions)
    return actions


@clause("BUS-ENT-3", "BUS-ENT-4")
def test_a_name_is_found_from_its_registration_to_its_departure() -> None:
    """Neither before nor after; a private task is never found."""
    one = manager()
    assert one.table.find("c") is None

    entry, actions = register(one, "c")
    register(one, "p", private=True)

    assert one.table.find("c") is entry
    assert one.table.find("p") is None
    assert entry.address == Address("c", machine="here", bus="bus1")
    assert actions == [Open(entry, ())]
    leave(one, entry)
    assert one.table.find("c") is None


@clause("BUS-DEREG-1")
def test_a_name_is_free_as_soon_as_its_task_leaves() -> None:
    """Each registration has its own id; the end of an older one touches no other."""
    one = manager()
    first, _ = register(one, "c")
    leave(one, first)
    second, actions = register(one, "c")

    assert second.id != first.id
    assert actions == []  # not opened before the first is emptied
    assert emptied(one, first, [], NOW, final=False) == [Open(second, ())]
    assert one.table.find("c") is second
    assert leave(one, first) == []
    assert one.table.find("c") is second


@clause("BUS-DEREG-1")
def test_nothing_is_kept_of_tasks_that_left() -> None:
    """All tables are empty again, whatever the tasks had requested."""
    one = manager()
    for _ in range(3):
        entry, _ = register(one, "c")
        subscriptions_of(one).subscribe(Asked(entry, Specification.parse("**")))
        subscriptions_of(one).watch(Asked(entry, Specification.parse("a/*")))
        leave(one, entry)
        emptied(one, entry, [], NOW, final=False)

    assert len(one.table) == 0
    assert one.table.named("c") is None
    assert not one.departures.leaving
    assert not one.departures.unopened
    assert subscriptions_of(one).subscriptions.matching("c") == []
    assert subscriptions_of(one).watches.matching("a/b") == []


@clause("BUS-DEREG-1", "BUS-DEREG-10")
@pytest.mark.parametrize("opened", [False, True])
def test_the_next_call_completes_an_interrupted_departure(*, opened: bool) -> None:
    """Each action is queued once, and each name is left once.

    opened: False if the task waits for an earlier one to be emptied.
    """

    def case(interrupted: Blow) -> None:
        one, actions = manager(), list[Any]()
        first, _ = register(one, "c")
        watcher, _ = register(one, "w")
        subscriptions_of(one).watch(Asked(watcher, Specification.parse("c")))
        leave(one, first)
        if opened:
            emptied(one, first, [], NOW, final=False)
        one.park("c", command("c", 1), NOW)
        second, _ = register(one, "c")
        subscriptions_of(one).subscribe(Asked(second, Specification.parse("w")))

        interrupted(lambda: one.leave(second, actions))

        one.leave(second, actions)
        one.leave(second, actions)
        reports = [each for each in actions if isinstance(each, PresenceReport)]
        assert [each.presence.here for each in reports] == [False]
        assert actions.count(Open(second, ())) == (not opened)
        assert watcher.audience == ()
        assert subscriptions_of(one).subscriptions.all() == []
        third, _ = register(one, "c")
        if not opened:
            assert emptied(one, first, [], NOW, final=False) == []
        [opening] = emptied(one, second, [command("c", 2)], NOW, final=False)
        assert payloads(opening.messages) == ([2] if opened else [1, 2])
        assert opening.entry is third

    everywhere(case, packages=(package,))


@clause("BUS-DEREG-8")
@pytest.mark.parametrize("final", [False, True])
def test_an_interrupt_loses_and_doubles_no_message_of_a_departed_task(
    *, final: bool
) -> None:
    """The messages wait for the next task, or fail if the task has left for good."""

    def case(interrupted: Blow) -> None:
        one, actions = manager(), list[Any]()
        first, _ = register(one, "c")
        leave(one, first)
        one.park("c", command("c", 3), NOW)
        second, _ = register(one, "c")
        unread = [command("c", 1), command("c", 2)]

        def empty() -> None:
            one.on_emptied(first, unread, NOW, actions, final=final)

        interrupted(lambda: undoable(one, empty))

        undoable(one, empty)
        undoable(one, empty)
        fails = [each.message for each in actions if isinstance(each, Fail)]
        assert payloads(fails) == ([1, 2] if final else [])
        [opening] = [each for each in actions if isinstance(each, Open)]
        assert opening.entry is second
        assert payloads(opening.messages) == ([3] if final else [1, 2, 3])
        assert len(one.parked) == 0

    everywhere(case, packages=(package,))


def test_park_returns_the_route_that_was_registered_meanwhile() -> None:
    """The message does not stay behind in the parked list."""
    one = manager()
    entry, _ = register(one, "c")

    assert one.park("c", command("c", 1), NOW) is entry
    assert len(one.parked) == 0


@clause("BUS-DEREG-8", "BUS-MSG-15")
def test_unread_messages_precede_messages_sent_since() -> None:
    """With several former holders of the name: in the order of their registrations."""
    one = manager()
    first, _ = register(one, "c")
    leave(one, first)
    second, _ = register(one, "c")
    leave(one, second)
    third, actions = register(one, "c")
    assert actions == []

    assert emptied(one, second, [command("c", 3)], NOW, final=False) == []
    opened: list[Any] = []
    opened += emptied(one, first, [command("c", 1), command("c", 2)], NOW, final=False)

    assert [(each.entry, payloads(each.messages)) for each in opened] == [
        (third, [1, 2, 3])
    ]
    assert one.parked.parked == one.parked.resumed == 3


@clause("BUS-DEREG-8", "BUS-MSG-15")
def test_a_task_that_leaves_unopened_returns_messages_behind_older_ones() -> None:
    """Otherwise the unread messages would come back before older ones."""
    one = manager()
    first, _ = register(one, "c")
    leave(one, first)
    one.park("c", command("c", 2), NOW)
    second, _ = register(one, "c")

    opened = [each for each in leave(one, second) if isinstance(each, Open)]
    one.park("c", command("c", 4), NOW)
    emptied(one, first, [], NOW, final=False)
    emptied(one, second, [command("c", 3)], NOW, final=False)

    assert [payloads(each.messages) for each in opened] == [[]]
    assert [each.message.payload for each in one.parked.of("c")] == [2, 3, 4]


@clause("BUS-DEREG-4")
def test_a_task_that_leaves_unopened_leaves_others_of_its_name_waiting() -> None:
    """A task of another process may have the name of a private one."""
    one = manager()
    first, _ = register(one, "c")
    leave(one, first)
    private, _ = register(one, "c", private=True)
    relay = Entry(
        id=one.new_id(),
        name="c",
        visibility=Visibility.PUBLIC,
        address=first.address,
        host="relay",
        mailbox="relay",
        remote=True,
    )
    assert one.add_relay(relay) == []

    assert leave(one, private) == [Open(private, ())]

    assert emptied(one, private, [], NOW, final=False) == []
    assert emptied(one, first, [], NOW, final=False) == [Open(relay, ())]


@clause("BUS-DEREG-8")
def test_unread_messages_are_parked_while_no_task_holds_the_name() -> None:
    """In front of the messages parked since, for the full resolve timeout."""
    one = manager()
    first, _ = register(one, "c")
    leave(one, first)
    one.park("c", command("c", 2), NOW)
    emptied(one, first, [command("c", 1)], NOW + 1, final=False)

    assert given_up(one, NOW + RESOLVE_S) == [2]
    assert given_up(one, NOW + RESOLVE_S + 1) == [1]


@clause("BUS-ROUTE-19")
@pytest.mark.parametrize(
    ("own", "until"), [(None, 5.0), (2.0, 2.0), (60.0, 5.0)], ids=str
)
def test_a_parked_message_is_given_up_at_its_deadline(
    own: float | None, until: float
) -> None:
    """At its own deadline or the bus's, whichever is first; once, and not earlier."""
    one = manager()
    message = command("c", 1, None if own is None else NOW + own)
    one.park("c", message, NOW)

    assert one.parked.next_deadline() == NOW + until
    assert expire(one, NOW + until - 0.001) == []
    (failed,) = expire(one, NOW + until)
    assert isinstance(failed, Fail)
    assert failed.message is message
    assert isinstance(failed.error, UnresolvedError)
    assert (failed.error.name, failed.error.waited_s) == ("c", until)
    assert expire(one, NOW + 60) == []
    assert one.parked.waiting() == {}
    assert one.parked.next_deadline() is None


@clause("BUS-DEREG-4", "BUS-MSG-15")
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_unread_messages_return_in_the_order_in_which_their_tasks_left(
    order: tuple[int, int],
) -> None:
    """Whichever is emptied first; in front of the messages parked since."""
    lists = manager()
    first, _ = register(lists, "t")
    leave(lists, first)  # emptied later
    second, _ = register(lists, "t")
    leave(lists, second)
    lists.park("t", command("t", 5), NOW)

    for number in order:
        entry = (first, second)[number - 1]
        unread = [command("t", 2 * number - 1), command("t", 2 * number)]
        emptied(lists, entry, unread, NOW, final=False)

    _, actions = register(lists, "t")
    assert isinstance(actions[0], Open)
    assert payloads(actions[0].messages) == [1, 2, 3, 4, 5]


@clause("BUS-DEREG-4", "BUS-MSG-15")
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_messages_parked_between_two_departures_stay_between_their_messages(
    order: tuple[int, int],
) -> None:
    """Messages parked between them precede those posted to the second task."""
    lists = manager()
    first, _ = register(lists, "t")
    leave(lists, first)  # emptied later
    lists.park("t", command("t", 3), NOW)
    second, _ = register(lists, "t")  # not opened before the first is emptied
    leave(lists, second)
    lists.park("t", command("t", 6), NOW)

    for number in order:
        entry, unread = ((first, (1, 2)), (second, (4, 5)))[number - 1]
        messages = [command("t", each) for each in unread]
        emptied(lists, entry, messages, NOW, final=False)

    _, actions = register(lists, "t")
    assert isinstance(actions[0], Open)
    assert payloads(actions[0].messages) == [1, 2, 3, 4, 5, 6]


@clause("BUS-ROUTE-19", "BUS-DEREG-4")
def test_each_of_many_messages_that_a_departed_task_returns_expires() -> None:
    one = manager()
    entry, _ = register(one, "c")
    leave(one, entry)
    unread = [command("c", number) for number in range(200)]
    emptied(one, entry, unread, NOW, final=False)

    assert given_up(one, NOW + RESOLVE_S) == [*range(200)]
    assert len(one.parked) == 0


@clause("BUS-NAME-7")
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("second_private", [False, True])
def test_a_name_is_taken_once_in_a_process(private: bool, second_private: bool) -> None:
    """Whether the tasks are public or private; the first task is not affected."""
    one = manager()
    first, _ = register(one, "c", private=private)

    with pytest.raises(NameTakenError) as refused:
        register(one, "c", private=second_private)

    assert refused.value.name == "c"
    assert one.table.named("c") is first


@clause("BUS-ROUTE-20", "BUS-MOVE-5")
def test_a_new_public_task_is_opened_with_the_parked_messages() -> None:
    """In order, and with nothing else; a private task is opened with no messages."""
    one = manager()
    for payload in (1, 2):
        assert one.park("c", command("c", payload), NOW) is None
    one.park("d", command("d", 3), NOW)

    _, private = register(one, "d", private=True)
    _, public = register(one, "c")

    assert [payloads(action.messages) for action in private] == [[]]
    assert [payloads(action.messages) for action in public] == [[1, 2]]
    assert one.parked.waiting() == {"d": 1}


@clause("BUS-DEREG-8")
@pytest.mark.parametrize("private", [False, True])
def test_unread_commands_fail_if_their_task_deregisters_for_good(private: bool) -> None:
    """Only commands: no error is reported for an unread notification."""
    one = manager()
    entry, _ = register(one, "c", private=private)
    leave(one, entry)
    lost = command("c", 1)
    notification = new_message(2, kind=Kind.NOTIFICATION)

    (failed,) = emptied(one, entry, [lost, notification], NOW, final=not private)

    assert isinstance(failed, Fail)
    assert failed.message is lost
    assert isinstance(failed.error, AddresseeGoneError)
    assert len(one.parked) == 0


@clause("BUS-FLOW-1")
@pytest.mark.parametrize(
    ("names", "what"), [("cc", "the parked list of 'c'"), ("cd", "the parked list")]
)
def test_the_parked_list_is_bounded(names: str, what: str) -> None:
    """Per name and in total; a refused message is not parked."""
    one = manager(per_name=1 if names == "cc" else 5, in_all=5 if names == "cc" else 1)
    one.park(names[0], command(names[0], 1), NOW)

    with pytest.raises(BusFullError) as refused:
        one.park(names[1], command(names[1], 2), NOW)

    assert (refused.value.what, refused.value.limit) == (what, 1)
    assert len(one.parked) == 1


@clause("BUS-MSG-5")
def test_a_subscriber_receives_from_notifiers_that_register_later_or_again() -> None:
    """Each subscriber once, in the order in which the tasks subscribed (AMO-28)."""
    one = manager()
    a, _ = register(one, "a")
    b, _ = register(one, "b")
    pattern = Asked(b, Specification.parse("news/*"))
    plain = Asked(a, Specification.parse("news/x"))
    again = Asked(b, Specification.parse("news/x"))
    for each in (pattern, plain, again):
        subscriptions_of(one).subscribe(each)

    for _ in range(2):
        news, _ = register(one, "news/x")
        received = [(each.entry, each.subscriptions) for each in news.audience]
        assert received == [(b, (pattern, again)), (a, (plain,))]
        leave(one, news)
        emptied(one, news, [], NOW, final=False)


@clause("BUS-MSG-5", "BUS-DEREG-10")
def test_a_subscriber_that_unsubscribes_or_deregisters_receives_no_more() -> None:
    """Even from present notifiers; a pattern for another machine never matches."""
    one = manager()
    a, _ = register(one, "a")
    b, _ = register(one, "b")
    news, _ = register(one, "news")
    mine = Asked(a, Specification.parse("ism://here/news"))
    theirs = Asked(b, Specification.parse("news"))
    elsewhere = Asked(b, Specification.parse("ism://there/news"))
    for each in (mine, theirs, elsewhere):
        subscriptions_of(one).subscribe(each)
    assert [each.entry for each in news.audience] == [a, b]

    assert subscriptions_of(one).unsubscribe(mine)
    assert not subscriptions_of(one).unsubscribe(mine)
    assert [each.entry for each in news.audience] == [b]
    leave(one, b)
    assert news.audience == ()


@clause("BUS-DEREG-10")
def test_a_watcher_is_notified_of_present_new_and_departed_tasks() -> None:
    """Only public tasks, until the watcher cancels or deregisters."""
    one = manager()
    here, _ = register(one, "x/1")
    watcher, _ = register(one, "w")
    watch = Asked(watcher, Specification.parse("x/*"))

    def reports(actions: list[Any]) -> list[tuple[str, bool]]:
        news = [action for action in actions if isinstance(action, PresenceReport)]
        assert all((each._to, each.watch) == (watcher, watch) for each in news)
        assert all(isinstance(each.presence, Presence) for each in news)
        return [(each.presence.address.module, each.presence.here) for each in news]

    assert reports(subscriptions_of(one).watch(watch)) == [("x/1", True)]
    other, actions = register(one, "x/2")
    assert reports(actions) == [("x/2", True)]
    assert reports(register(one, "x/3", private=True)[1]) == []
    assert reports(leave(one, here)) == [("x/1", False)]
    assert subscriptions_of(one).unwatch(watch)
    assert not subscriptions_of(one).unwatch(watch)
    assert reports(leave(one, other)) == []


@clause("B6")
def test_a_registration_is_recorded_before_it_can_be_found() -> None:
    of = manager()
    found: list[object] = []

    def record(number: int, name: str) -> None:
        found.append((number, name, of.table.find(name)))

    entry, _ = of.register("a", Visibility.PUBLIC, "bus1", "host", "box", record=record)

    assert found == [(entry.id.number, "a", None)]
