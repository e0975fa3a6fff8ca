"""BUS-MSG: commands and their answers, at each distance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    NOREPLY,
    AlreadyAnsweredError,
    Incoming,
    Kind,
    NotJoinedError,
    Response,
    UnknownTaskError,
    Visibility,
)
from specs.clauses import clause
from tests.bus.support import DISTANCES, There
from tests.kit.inspection import info
from tests.kit.serving import serve, settle
from tests.kit.tasks import Holder, unwanted
from tests.support import Threads, switch_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus, Task


@clause("BUS-MSG-1")
@pytest.mark.parametrize("distance", DISTANCES)
def test_each_kind_of_message_gets_there(bus: Bus, there: There) -> None:
    got: list[tuple[Kind, Any]] = []
    answers: list[Any] = []

    def received(message: Incoming) -> None:
        got.append((message.kind, message.payload))
        message.respond("heard")

    def asked(message: Incoming) -> str:
        got.append((message.kind, message.payload))
        return "done"

    asker = bus.register("asker", thread=bus.here())
    doer = there.register("doer", on_command=asked)
    doer.subscribe(there.back("asker"), received)

    asker.command(
        there.at("doer"), "do", on_response=lambda one: answers.append(one.payload)
    )
    # By then the subscription is known here: it was sent before the answer.
    serve(bus, lambda: answers, "the command is answered")
    asker.notify(
        "news", on_response=lambda one: answers.append(one.payload), timeout=60
    )

    serve(bus, lambda: len(answers) == 2, "both are answered")
    assert sorted(got) == [(Kind.COMMAND, "do"), (Kind.NOTIFICATION, "news")]
    assert sorted(answers) == ["done", "heard"]


@clause("BUS-MSG-2", "BUS-MSG-3")
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_command_carries_its_sender_and_the_reference_of_each_side(
    bus: Bus, there: There
) -> None:
    ours, theirs = object(), object()
    got: list[Incoming] = []
    responses: list[Response] = []

    def asked(message: Incoming) -> int:
        got.append(message)
        return 7

    sender = bus.register("sender", thread=bus.here())
    doer = there.register("doer", on_command=asked, ref=theirs)

    sender.command(there.at("doer"), [1, "two"], on_response=responses.append, ref=ours)

    serve(bus, lambda: responses, "it is answered")
    [message], [response] = got, responses
    assert message.reference is theirs
    assert message.sender == sender.address
    assert message.payload == (1, "two")
    assert message.wants_reply
    assert response.reference is ours
    assert response.responder == doer.address
    assert (response.payload, response.error, response.final) == (7, None, True)


@clause("BUS-MSG-3")
def test_a_callback_can_be_set_later_and_commands_wait_for_it(bus: Bus) -> None:
    mark, got = object(), list[Incoming]()
    sender = bus.register("sender", thread=bus.here())
    doer = bus.register("doer", thread=bus.here())
    for number in range(3):
        sender.command("doer", number)
        settle(bus)

    doer.on_command(got.append, ref=mark)
    sender.command("doer", 3)

    assert got == []  # no callback runs within the call
    settle(bus)
    assert [message.payload for message in got] == [0, 1, 2, 3]
    assert {id(message.reference) for message in got} == {id(mark)}


@clause("BUS-MSG-2")
def test_a_command_without_a_response_callback_wants_no_reply(bus: Bus) -> None:
    got: list[Incoming] = []
    bus.register("doer", thread=bus.here(), on_command=got.append)

    bus.command("doer")
    settle(bus)

    assert [(one.payload, one.wants_reply) for one in got] == [(None, False)]


@clause("BUS-MSG-6")
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_command_can_be_answered_after_others_were_handled(
    bus: Bus, there: There
) -> None:
    kept: list[Incoming] = []
    responses: list[Response] = []

    def asked(message: Incoming) -> Any:
        if message.payload == 0:
            kept.append(message)
            return NOREPLY
        if message.payload == 5:
            kept[0].respond("at last")
        return message.payload

    sender = bus.register("sender", thread=bus.here())
    there.register("doer", on_command=asked)
    for number in range(6):
        sender.command(
            there.at("doer"), number, on_response=responses.append, ref=number
        )

    serve(bus, lambda: len(responses) == 6, "all are answered")
    assert [one.reference for one in responses] == [1, 2, 3, 4, 0, 5]
    assert [one.payload for one in responses] == [1, 2, 3, 4, "at last", 5]


@clause("BUS-MSG-6")
def test_the_task_that_got_a_message_answers_it_and_no_other(bus: Bus) -> None:
    kept: list[Incoming] = []
    responses: list[Response] = []

    def asked(message: Incoming) -> Any:
        kept.append(message)
        return NOREPLY

    other = bus.register("other", thread=bus.here())
    doer = bus.register("doer", thread=bus.here(), on_command=asked)
    other.command("doer", on_response=responses.append)
    settle(bus)

    with pytest.raises(ValueError, match="'other' did not receive that message"):
        other.respond(kept[0], "mine")
    doer.respond(kept[0], "ours")
    settle(bus)

    assert [one.payload for one in responses] == ["ours"]


@clause("BUS-MSG-7")
def test_a_second_answer_is_refused(bus: Bus) -> None:
    errors: list[str] = []
    responses: list[Response] = []

    def asked(message: Incoming) -> str:
        message.respond("first")
        with pytest.raises(AlreadyAnsweredError) as caught:
            message.respond("second")
        errors.append(caught.value.name)
        return "third"

    sender = bus.register("sender", thread=bus.here())
    bus.register("doer", thread=bus.here(), on_command=asked)
    sender.command("doer", on_response=responses.append)
    settle(bus)

    assert errors == ["doer"]
    assert [one.payload for one in responses] == ["first"]


@clause("BUS-MSG-7")
def test_an_unwanted_answer_is_counted(bus: Bus) -> None:
    bus.register("doer", thread=bus.here(), on_command=lambda one: one.respond("x"))

    bus.command("doer")
    settle(bus)

    assert info(bus, "doer").unasked == 1
    assert info(bus, "doer").failures == 0


@clause("BUS-MSG-7")
def test_an_answer_to_a_deregistered_sender_is_counted(bus: Bus) -> None:
    kept: list[Incoming] = []

    def asked(message: Incoming) -> Any:
        kept.append(message)
        return NOREPLY

    sender = bus.register("sender", thread=bus.here())
    bus.register("doer", thread=bus.here(), on_command=asked)
    sender.command("doer", on_response=unwanted)
    settle(bus)
    sender.deregister()
    settle(bus)

    kept[0].respond("too late")

    assert info(bus, "doer").unasked == 1


@clause("BUS-MSG-8")
@pytest.mark.parametrize("distance", DISTANCES)
def test_one_command_to_several_is_answered_by_each(bus: Bus, there: There) -> None:
    responses: list[Response] = []
    for name in "def":
        there.register(name, on_command=lambda one: str(one.payload))
    sender = bus.register("sender", thread=bus.here())
    names = [there.at(name) for name in "def"]

    sender.command(names, 1, on_response=responses.append, ref="ours")

    serve(bus, lambda: len(responses) == 3, "all have answered")
    assert [one.responder.module for one in responses if one.responder] == [*"def"]
    assert {one.payload for one in responses} == {"1"}
    assert {one.reference for one in responses} == {"ours"}


@clause("BUS-MSG-8")
def test_of_several_addressees_each_has_its_own_outcome(bus: Bus) -> None:
    outcomes: dict[str, str] = {}

    def received(response: Response) -> None:
        assert response.responder is not None
        assert response.responder.module not in outcomes
        outcomes[response.responder.module] = (
            str(response.payload)
            if response.error is None
            else type(response.error).__name__
        )

    def fails(_: Incoming) -> None:
        raise LookupError

    full = bus.register("full", thread=bus.here(), capacity=1)
    sender = bus.register("sender", thread=bus.here())
    sender.command("full")
    bus.register("good", thread=bus.here(), on_command=lambda _: "good")
    bus.register("fails", thread=bus.here(), on_command=fails)

    sender.command(
        ["good", "nobody", "full", "fails"], on_response=received, timeout=1.0
    )

    serve(bus, lambda: len(outcomes) == 4, "each has its outcome")
    assert outcomes == {
        "good": "good",
        "fails": "RemoteError",
        "full": "BusFullError",
        "nobody": "UnresolvedError",
    }
    assert full.receive(0).payload is None


@clause("BUS-MSG-10")
def test_a_sender_does_not_wait_for_a_blocked_receiver(bus: Bus) -> None:
    with Holder.holding(bus) as holder:
        sender = bus.register("sender", thread=bus.here())
        for number in range(100):
            sender.command("holder", number)

        assert info(bus, "holder").commands.unread == 100
        assert holder.got == []


@clause("BUS-MSG-10")
def test_the_callback_of_an_addressee_never_runs_within_the_call(bus: Bus) -> None:
    steps: list[str] = []

    def relay(_: Incoming) -> None:
        first.command("last")
        steps.append("sent")

    first = bus.register("first", thread=bus.here(), on_command=relay)
    bus.register("last", thread=bus.here(), on_command=lambda _: steps.append("got"))
    bus.command("first")
    settle(bus)

    assert steps == ["sent", "got"]


@clause("BUS-MSG-15")
@pytest.mark.parametrize("distance", DISTANCES)
def test_commands_of_one_sender_arrive_in_the_order_sent(
    bus: Bus, there: There
) -> None:
    got: list[Any] = []
    name = there.at("doer")
    sender = bus.register("sender", thread=bus.here())
    for number in range(3):
        sender.command(name, number)  # parked: the name has no owner
    doer = there.register("doer")
    sender.command(name, 3)
    doer.on_command(lambda message: got.append(message.payload))
    for number in range(4, 200):
        sender.command(name, number)

    serve(bus, lambda: len(got) == 200, "all have arrived")
    assert got == list(range(200))


@clause("BUS-MSG-15")
def test_commands_sent_from_two_threads_are_read_in_the_order_sent(
    bus: Bus,
) -> None:
    """A command of the thread itself waits behind earlier ones from outside."""
    here = bus.here()
    got: list[object] = []
    sender = bus.register("sender", thread=here)
    bus.register(
        "reader", thread=here, on_command=lambda message: got.append(message.payload)
    )
    with Threads() as threads:
        threads.start(sender.command, "reader", 1).result()
    sender.command("reader", 2)

    serve(bus, lambda: len(got) == 2, "both are read")
    assert got == [1, 2]


@clause("BUS-MSG-15")
def test_several_senders_at_once_keep_each_its_order(bus: Bus) -> None:
    got: list[Any] = []
    count = 200
    bus.register(
        "doer", thread=bus.thread(), on_command=lambda one: got.append(one.payload)
    )

    def sends(who: int) -> None:
        for number in range(count):
            bus.command("doer", [who, number])

    with switch_interval(1e-6), Threads() as threads:
        for who in range(4):
            threads.start(sends, who)

    serve(bus, lambda: len(got) == 4 * count, "all have arrived")
    for who in range(4):
        assert [number for sender, number in got if sender == who] == [*range(count)]


@clause("BUS-MSG-2")
def test_a_task_that_has_left_sends_nothing(bus: Bus) -> None:
    bus.register("doer", thread=bus.here(), on_command=unwanted)
    sender = bus.register("sender", thread=bus.here())
    sender.deregister()

    acts: list[Callable[[], object]] = [
        lambda: sender.command("doer"),
        lambda: sender.call("doer"),
        sender.notify,
        lambda: sender.subscribe("doer", print),
        lambda: sender.watch("doer", print),
        lambda: sender.on_command(print),
        lambda: sender.receive(0),
        lambda: sender.move(bus.here()),
        lambda: sender.thread,
    ]
    for act in acts:
        with pytest.raises(UnknownTaskError, match="'sender'"):
            act()
    settle(bus)


@clause("BUS-MSG-2")
def test_the_bus_of_the_addressee_may_stand_beside_it(bus: Bus) -> None:
    sender = bus.register("sender", thread=bus.here(), visibility=Visibility.PRIVATE)
    task: Task = bus.register("doer", thread=bus.here(), on_command=lambda _: "here")

    assert sender.call("doer", bus="bus1") == "here"
    with pytest.raises(NotJoinedError, match="bus2"):
        sender.command("doer", bus="bus2")
    with pytest.raises(ValueError, match="bus must be 'bus1' as in the address"):
        sender.command(task.address, bus="bus2")
