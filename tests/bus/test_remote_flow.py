"""BUS-FLOW: a receiver in another process that does not read holds back its senders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from bus import BusConfig, BusFullError, RemoteError
from specs.clauses import clause
from tests.kit.buses import processes
from tests.kit.constants import configured, set_constants
from tests.kit.inspection import info
from tests.kit.serving import serve
from tests.kit.tasks import Holder, echo
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus, Overflow, Response, Undelivered

# Narrow windows, with much room for unread messages, or with little.
NARROW = BusConfig(window=4, resolve_timeout_s=60.0)
SMALL = evolve(NARROW, task_fifo_messages=8)


@pytest.fixture
def small() -> Iterator[tuple[Bus, Bus]]:
    """Yield two processes with room for little."""
    set_constants(STREAM_WINDOW=16)
    with processes("one two", SMALL) as [one, two]:
        yield one, two


@clause("BUS-FLOW-2", "BUS-RELAY-11")
def test_a_remote_receiver_that_does_not_read_holds_back_the_sender(
    small: tuple[Bus, Bus],
) -> None:
    """A command is refused once the task, the window and the relay are full."""
    one, two = small
    with Holder.holding(two, name="doer") as holder:
        sender = one.register("sender", thread=one.here())
        accepted, refused = [], 0
        for number in range(100):
            try:
                sender.command("doer", number)
                accepted.append(number)
            except BusFullError:
                refused += 1
            one.here().poll(0.001)
        assert len(accepted) <= 3 * 8 + 4 + 1  # parked, waiting, under way, unread
        assert refused > 0

        holder.let_go()
        until(lambda: len(holder.got) == len(accepted) + 1, "all have arrived")
        assert holder.got == ["hold", *accepted]


@clause("BUS-RELAY-11", "BUS-FLOW-1")
def test_the_bytes_in_flight_to_a_receiver_that_does_not_read_are_bounded() -> None:
    config = configured(NARROW, window=100, window_bytes=100, STREAM_WINDOW=16)
    with (
        processes("one two", config) as [one, two],
        Holder.holding(two, name="doer") as holder,
    ):
        two.register("other", on_command=echo)
        sender = one.register("sender", thread=one.here())
        for number in range(10):
            sender.command("doer", bytes([number]) * 60)
        until(lambda: info(two, "doer").commands.unread == 2, "two are there")
        # This call is behind all messages under way to that process.
        assert sender.call("other", 1) == 1
        assert info(two, "doer").commands.unread == 2

        holder.let_go()
        until(lambda: len(holder.got) == 11, "all have arrived")
        assert [each[0] for each in holder.got[1:]] == list(range(10))


@clause("BUS-FLOW-6")
def test_a_policy_holds_wherever_the_sender_is(small: tuple[Bus, Bus]) -> None:
    one, two = small
    policies: tuple[Overflow, ...] = ("drop-oldest", "drop-newest")
    for policy in policies:
        with Holder.holding(two, name=policy, overflow=policy) as holder:
            undelivered: list[Undelivered] = []
            sender = one.register(
                f"to-{policy}", thread=one.here(), on_undelivered=undelivered.append
            )
            count = 200
            for number in range(count):
                sender.command(policy, number)
                one.here().poll(0)
            holder.let_go()

            def accounted() -> int:
                counters = info(two, policy).commands  # noqa: B023
                dropped = counters.dropped + counters.refused
                return counters.delivered + dropped + len(undelivered)  # noqa: B023

            serve(one, lambda: accounted() == count + 1, "all are read or dropped")  # noqa: B023
            numbers = [each for each in holder.got if each != "hold"]
            assert numbers == sorted(set(numbers))
            kept = numbers[-1] if policy == "drop-oldest" else numbers[0]
            assert kept == (count - 1 if policy == "drop-oldest" else 0)
            assert all(isinstance(each.error, BusFullError) for each in undelivered)


@clause("BUS-FLOW-6", "BUS-FLOW-7")
def test_a_dropped_question_is_answered_and_a_dropped_command_is_acknowledged() -> None:
    """At once, while the receiver reads nothing."""
    with (
        processes("one two") as [one, two],
        Holder.holding(two, name="doer", overflow="drop-oldest", capacity=1),
    ):
        answers: list[Response] = []
        sender = one.register("sender", thread=one.here())
        sender.command("doer", 1)
        sender.command("doer", 2, on_response=answers.append)
        sender.command("doer", 3)
        serve(one, lambda: answers, "the question is answered")
        until(lambda: one.inspect().sent.in_transit == 1, "only the last is unread")

    assert isinstance(answers[0].error, RemoteError)
    assert "BusFullError" in str(answers[0].error)


@clause("BUS-FLOW-6")
def test_a_plain_thread_waits_for_a_reader_elsewhere(small: tuple[Bus, Bus]) -> None:
    one, two = small
    with Holder.holding(two, name="doer", overflow="block") as holder:
        sender = one.register("sender", thread=one.thread())
        sender.command("doer", 0)
        until(lambda: info(two, "doer").commands.unread == 1, "the first is there")
        holder.let_go()

        for number in range(1, 500):
            sender.command("doer", number)

        until(lambda: len(holder.got) == 501, "all have arrived")
        assert holder.got == ["hold", *range(500)]
