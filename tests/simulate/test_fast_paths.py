"""`FastPath`: the fast path leaves the same accounts as the normal path, at once."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from bus.kernel.peer.relay import RelayState
from bus.kernel.wire import Gap
from specs.clauses import clause
from tests.simulate.dialogue import Dialogue, accounts_of

if TYPE_CHECKING:
    from collections.abc import Callable


@clause("BUS-CHAN-7")
def test_the_fast_path_leaves_the_same_counters_as_rounds() -> None:
    """Two worlds send the same, one of them by the fast path where possible."""
    ends = []
    for fast_paths in (0.0, 1.0):
        talk = Dialogue(fast_paths=fast_paths)
        commands = []
        for _ in range(40):
            commands.append(talk.ask())
            talk.stage.soon(0.1)
        talk.answer_kept()
        talk.stage.soon()
        assert [each.answers for each in commands] == [1] * 40
        assert bool(talk.stage.world.went_short) is bool(fast_paths)
        ends.append(
            (accounts_of(talk.near, talk.far), accounts_of(talk.far, talk.near))
        )

    assert ends[0] == ends[1]


@pytest.mark.deep
@clause("AMO-7")
@pytest.mark.parametrize("seed", range(30))
def test_each_question_has_one_end_whatever_becomes_of_the_link(seed: int) -> None:
    """Though links are cut, and senders are interrupted on the fast path."""
    talk = Dialogue(fast_paths=0.9, interrupted=0.1)
    random, commands = Random(seed), []
    for _ in range(60):
        commands.append(talk.ask())
        talk.stage.soon(random.choice((0.0, 0.001, 0.01)))
        if random.random() < 0.05:
            talk.stage.cut("s1", "s2")
        if random.random() < 0.1:
            talk.stage.send(talk.asker, "answerer")
        if random.random() < 0.1:
            talk.answer_kept()
    talk.stage.soon(60.0)
    talk.answer_kept()
    talk.stage.soon(60.0)

    assert talk.stage.world.went_short
    assert [each.answers for each in commands] == [1] * len(commands)
    talk.stage.world.checks.rest()


def _second_question(talk: Dialogue) -> None:
    assert talk.short.command(talk.question(), talk.stage.world.now) is not None


def _other_things_to_say(talk: Dialogue) -> None:
    talk.short.peer.session.send_control(Gap(relay=talk.asker.entry.relay, count=1))


def _something_queued(talk: Dialogue) -> None:
    talk.short.peer.session.pause()
    talk.near.remote.outbound_messages.post(
        talk.question()._to, [talk.question(wants_reply=False, payload=b"x")]
    )
    talk.short.peer.session._held = None


def _new_link(talk: Dialogue) -> None:
    talk.stage.cut("s1", "s2")
    talk.stage.soon()


def _no_link(talk: Dialogue) -> None:
    talk.stage.cut("s1", "s2")
    talk.stage.soon(0.11)


def _full_window(talk: Dialogue) -> None:
    relay = talk.question()._to.mailbox
    while relay.under_way < relay.config.window:
        _second_question(talk)


def _full_bytes(talk: Dialogue) -> None:
    relay = talk.question()._to.mailbox
    _second_question(talk)
    relay.unacked_bytes = relay.config.window_bytes


def _asker_leaves(talk: Dialogue) -> None:
    talk.near.deregister(talk.asker)


def _asker_is_leaving(talk: Dialogue) -> None:
    """It is not found any more, but its thread has not emptied its mailbox yet."""
    talk.near.manager.leave(talk.asker.entry, [], final=False)
    talk.near.remote.flush(talk.stage.world.now)  # withdraws the right to send


def _superseded(talk: Dialogue) -> None:
    talk.question()._to.mailbox.state = RelayState.SUPERSEDED


def _on_hold(talk: Dialogue) -> None:
    talk.short.peer.session.pause()


@clause("BUS-MSG-15", "BUS-ROUTE-3")
@pytest.mark.parametrize(
    "so",
    [
        _other_things_to_say,
        _something_queued,
        _new_link,
        _no_link,
        _full_window,
        _full_bytes,
        _asker_leaves,
        _asker_is_leaving,
        _on_hold,
        _superseded,
    ],
)
def test_nothing_goes_by_a_fast_path_that_could_overtake(
    so: Callable[[Dialogue], None],
) -> None:
    talk = Dialogue()
    question = talk.question()
    so(talk)
    before = accounts_of(talk.near, talk.far)

    assert talk.short.command(question, talk.stage.world.now) is None
    assert accounts_of(talk.near, talk.far) == before


@clause("BUS-MSG-15")
@pytest.mark.parametrize("so", [_other_things_to_say, _full_window, _superseded])
def test_a_decision_since_the_last_question_stops_the_fast_path(
    so: Callable[[Dialogue], None],
) -> None:
    """The conditions are remembered only until the next decision."""
    talk = Dialogue()
    assert talk.short.command(talk.question(), talk.stage.world.now) is not None
    so(talk)
    talk.decide()

    assert talk.short.command(talk.question(), talk.stage.world.now) is None


@clause("BUS-MSG-15")
def test_that_it_was_looked_at_is_forgotten_though_nothing_went() -> None:
    talk = Dialogue()
    too_long = talk.question(payload=bytes(2**16 + 1))
    assert talk.short.command(too_long, talk.stage.world.now) is None
    _superseded(talk)
    talk.decide()

    assert talk.short.command(talk.question(), talk.stage.world.now) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"_trace": object()},
        {"payload": bytes(2**16 + 1)},
    ],
)
def test_only_a_short_command_that_is_not_recorded_goes_by_a_fast_path(
    changes: dict[str, Any],
) -> None:
    talk = Dialogue()
    before = accounts_of(talk.near, talk.far)

    assert talk.short.command(talk.question(**changes), talk.stage.world.now) is None
    assert accounts_of(talk.near, talk.far) == before


@clause("BUS-MSG-15")
def test_a_task_that_the_peer_does_not_know_is_announced_first() -> None:
    talk = Dialogue()
    new = talk.stage.task("new", "s1")
    talk.stage.soon()

    question = talk.question(_source=new.entry)

    assert talk.short.command(question, talk.stage.world.now) is None


@clause("BUS-RELAY-11")
@pytest.mark.parametrize("window", [3, 8])
def test_no_more_go_by_a_fast_path_than_the_window_holds(window: int) -> None:
    talk = Dialogue(window=window)
    talk.answer_kept()
    talk.stage.soon()
    went = 0
    while talk.short.command(talk.question(), talk.stage.world.now) is not None:
        went += 1

    assert went == window


@clause("BUS-RELAY-11", "AMO-13")
def test_no_more_go_by_a_fast_path_than_the_stream_takes() -> None:
    talk = Dialogue(window=10_000, STREAM_WINDOW=7)
    talk.answer_kept()
    talk.stage.soon()
    went = 0
    while talk.short.command(talk.question(), talk.stage.world.now) is not None:
        went += 1

    assert went == 7
