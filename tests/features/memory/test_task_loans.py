"""Loans to tasks: messages that are written where their recipients read them."""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from bus import ArenaFullError, BusConfig, Incoming, PayloadError, UnknownTaskError
from bus.features.memory.link_memory import LoanRequest
from bus.kernel.wire import encode
from bus.testing import memory_bus
from queuebroker import _sync
from specs.clauses import clause
from tests.features.memory.memory_ends import (
    MIB,
    SIZE,
    Owner,
    Recipient,
    all_closed,
    body_of,
    in_memory,
)
from tests.features.memory.test_shared_memory import TELLS, leases, lies_in_memory
from tests.kit.buses import PATIENT, socket_bus
from tests.kit.comm_threads import memory_of
from tests.kit.systems import needs_shared_memory
from tests.kit.tasks import ignore
from tests.process.real import Far
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus import Bus
    from bus.model.loan import Loan


pytestmark = needs_shared_memory

__all__ = ["all_closed"]  # a fixture

ZEROS: Final = np.zeros(MIB, np.uint8)
CONTENT: Final = bytes(range(256)) * (MIB // 256)


def loans(owner: Owner) -> int:
    return sum(each.loans for each in owner.arena.slabs())


def array_of(loan: Loan) -> np.ndarray[Any, Any]:
    return np.frombuffer(loan.buffer, np.uint8)


def lent(owner: Owner, content: bytes) -> memoryview:
    """Return a view of a loan with this content."""
    view = owner.memory.lend(len(content))
    assert view is not None
    view[:] = content
    return view


# Between links, in one process.


@clause("MC-41", "MC-8")
def test_the_recipients_read_the_very_bytes_that_were_written() -> None:
    owner = Owner()
    for number in (1, 2):
        owner.link(number, Recipient())
    owner.prepared(1, 2)
    view = lent(owner, b"a" * SIZE)

    arrived = owner.send(view.toreadonly(), 1, 2)

    assert all(map(in_memory, arrived))
    assert (owner.used, loans(owner)) == (1, 1)
    view[0:1] = b"b"  # what no task should do shows that there is one place
    assert [bytes(body_of(each)[:2]) for each in arrived] == [b"ba"] * 2
    assert owner.arena.check() == []


@clause("MC-41", "MC-35")
def test_a_loan_lasts_as_long_as_a_view_of_it_and_its_leases() -> None:
    owner = Owner()
    owner.link(1, Recipient())
    owner.prepared(1)
    view = lent(owner, b"a" * SIZE)
    body = view.toreadonly()
    arrived = owner.send(body, 1)
    part = body[1:3]
    view.release()
    body.release()

    owner.memory.end_round()
    assert loans(owner) == 1
    del part
    assert owner.memory.is_due(soon=True)
    owner.memory.end_round()
    assert (owner.used, loans(owner)) == (1, 0)  # the recipient has its lease
    assert not owner.memory.is_due(soon=True)

    assert body_of(arrived[0]) == b"a" * SIZE
    arrived.clear()
    gc.collect()
    owner.answers()
    assert owner.used == 0
    assert owner.arena.stray_releases == 0


@clause("MC-41", "MC-29")
def test_a_recipient_that_cannot_read_the_arena_gets_the_bytes_by_the_link() -> None:
    owner = Owner()
    owner.link(1, Recipient(process_id=None))
    view = lent(owner, b"a" * SIZE)

    for _ in range(2):
        [frame] = owner.send(view.toreadonly(), 1)
        assert body_of(frame) == b"a" * SIZE
        owner.answers()

    assert (owner.used, loans(owner)) == (1, 1)


@clause("MC-41")
def test_a_view_with_the_identity_of_one_that_is_gone_is_no_loan() -> None:
    owner = Owner()
    owner.link(1, Recipient())
    owner.prepared(1)
    shared = owner.memory._shared
    gone = lent(owner, b"a" * SIZE)
    [record] = shared.task_loans._loans.values()
    del gone
    other = memoryview(b"b" * SIZE)
    shared.task_loans._loans[id(other.obj)] = record

    [frame] = owner.send(other, 1)

    assert body_of(frame) == b"b" * SIZE


@clause("MC-41")
def test_requests_are_answered_in_order_as_soon_as_there_is_room() -> None:
    owner = Owner(arena_bytes=MIB)
    held = owner.memory.lend(MIB)
    answers: list[Any] = []

    def request(name: str, *, waits: bool = True) -> LoanRequest:
        made = LoanRequest(MIB, lambda it: answers.append((name, it)), waits=waits)
        owner.memory.request_loan(made)
        return made

    request("first")
    request("second").withdrawn = True
    request("third")
    request("at once", waits=False)
    [(name, answer)] = answers
    assert (name, type(answer)) == ("at once", ArenaFullError)
    answers.clear()

    for name in ("first", "third"):
        del held
        owner.memory.end_round()
        owner.memory.serve_requests()
        [(answered, held)] = answers
        assert (answered, len(held)) == (name, MIB)
        answers.clear()
    assert owner.arena.check() == []

    request("late")
    owner.memory.close()
    assert answers == [("late", None)]
    assert owner.memory.lend(SIZE) is None
    request("closed")
    assert answers[1:] == [("closed", None)]


@clause("MC-41", "MC-35")
def test_a_report_that_a_task_thread_takes_lets_the_comm_thread_serve_requests() -> (
    None
):
    owner = Owner(arena_bytes=MIB, ARENA_SHARE=1.0)
    owner.link(1, Recipient())
    owner.prepared(1, size=MIB)
    kept = owner.send(bytes(MIB), 1)
    answers: list[Any] = []
    owner.memory.request_loan(LoanRequest(MIB, answers.append, waits=True))
    kept.clear()
    gc.collect()
    [report] = owner.recipients[1].say()

    assert owner.memory.take(1, encode(report))

    assert answers == []
    [serve] = owner.place.requests
    serve()
    assert [len(each) for each in answers] == [MIB]


# Between tasks.


@pytest.fixture
def near() -> Iterator[Bus]:
    with socket_bus("near") as bus:
        yield bus


@pytest.fixture
def far(near: Bus) -> Iterator[Far]:
    del near  # it is the master
    with Far("far") as made:
        made.started()
        made(TELLS)
        yield made


@clause("MC-41")
@pytest.mark.usefixtures("far")
def test_what_is_written_into_a_loan_arrives_in_another_process(near: Bus) -> None:
    task = near.register("writer", on_command=ignore)
    wanted = hashlib.sha256(CONTENT).hexdigest()

    def in_arena() -> bool:
        with task.loan(MIB) as loan:
            np.add(ZEROS, np.frombuffer(CONTENT, np.uint8), out=array_of(loan))
            shared, digest = task.call("far", loan)
        assert digest == wanted
        return bool(shared)

    until(in_arena, "it lies in memory")
    until(lambda: leases(near) == (0, 0), "all buffers are home")


@clause("MC-41", "BUS-MSG-16")
def test_a_receiver_in_the_same_process_gets_a_read_only_view_of_the_loan(
    near: Bus,
) -> None:
    got: list[Any] = []
    thread = near.thread()
    source = near.register("source", on_command=ignore)
    for name in "ab":
        ear = near.register(name, thread=thread)
        ear.subscribe("source", lambda message: got.append(message.payload))

    with source.loan(SIZE) as loan:
        loan.buffer[:] = b"x" * SIZE
        source.notify(loan)
    until(lambda: len(got) == 2, "both get it")

    assert all(lies_in_memory(each) and each.readonly for each in got)
    assert got == [b"x" * SIZE] * 2
    got[0].release()
    assert got[1] == b"x" * SIZE
    assert leases(near)[0] == 1
    got.clear()
    until(lambda: leases(near) == (0, 0), "its buffer is home")


@clause("MC-41")
def test_an_answer_may_be_a_loan(near: Bus, far: Far) -> None:
    def answer(message: Incoming) -> Any:
        with task.loan(SIZE) as loan:
            loan.buffer[:] = bytes([message.payload]) * SIZE
            message.respond(loan)

    task = near.register("maker", on_command=answer, thread=near.thread())

    assert near.call("maker", 7) == b"\7" * SIZE
    assert far("bus.call('maker', 8)[:3] == b'\\x08' * 3")
    until(lambda: leases(near) == (0, 0), "all buffers are home")


@clause("MC-41")
@pytest.mark.parametrize("raised", [False, True])
def test_a_loan_that_is_not_sent_goes_home_after_its_block(
    near: Bus, raised: bool
) -> None:
    task = near.register("writer", on_command=ignore)
    try:
        with task.loan(SIZE) as loan:
            until(lambda: leases(near) == (1, 1), "it has a buffer")
            if raised:
                raise KeyError
    except KeyError:
        pass
    until(lambda: leases(near) == (0, 0), "it is home")
    task.loan(SIZE)  # no block, and dropped
    until(lambda: leases(near) == (0, 0), "it is home")
    assert "ended" in repr(loan)


@clause("MC-41")
def test_an_array_that_was_made_from_a_loan_keeps_its_buffer(near: Bus) -> None:
    """Otherwise a late write would change another message."""
    task = near.register("writer", on_command=ignore)
    with task.loan(SIZE) as loan:
        array = np.frombuffer(loan.buffer, np.uint8)
    del loan
    gc.collect()
    with task.loan(SIZE) as other:
        array[0] = 1
        assert leases(near) == (2, 2)
        assert len(other.buffer) == SIZE
    del array, other
    until(lambda: leases(near) == (0, 0), "both are home")


@clause("MC-41")
def test_a_loan_is_written_and_sent_before_its_end_and_once(near: Bus) -> None:
    task = near.register("writer", on_command=ignore)
    with task.loan(SIZE) as loan:
        buffer = loan.buffer
        with pytest.raises(PayloadError, match=r"payload\[0\].*<Loan of 131072 bytes"):
            task.notify([loan])
        task.notify(loan)
        name = r"<Loan of 131072 bytes by task 'writer': sent>"
        with pytest.raises(ValueError, match=f"cannot write {name}: it was sent; take"):
            loan.buffer[0] = 1
        with pytest.raises(ValueError, match="released"):
            buffer[0] = 1
        with pytest.raises(PayloadError, match=f"{name}: it was sent; take another"):
            task.notify(loan)
    with task.loan(SIZE) as ended:
        pass
    name = r"<Loan of 131072 bytes by task 'writer': ended>"
    with pytest.raises(PayloadError, match=f"{name}: its block has ended; write"):
        task.command("writer", ended)
    with pytest.raises(ValueError, match=f"cannot write {name}: its block has ended"):
        _ = ended.buffer
    with pytest.raises(
        TypeError, match="it belongs to its process; send it as the payload"
    ):
        pickle.dumps(ended)


# The child only ends: it takes no lock that a thread of the parent may have held.
@clause("MC-41")
def test_a_loan_is_not_sent_by_a_forked_child(near: Bus) -> None:
    task = near.register("writer", on_command=ignore)
    loan = task.loan(SIZE)
    child = os.fork()
    if child == 0:
        try:
            loan._send()
        except PayloadError as error:
            os._exit(7 if f"is of process {os.getppid()}" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    task.notify(loan)


@clause("MC-41")
@pytest.mark.parametrize("alone", [True, False])
def test_without_an_arena_a_loan_is_ordinary_memory(alone: bool) -> None:
    config = PATIENT if alone else BusConfig(shared_memory=False)
    with memory_bus(config=config) if alone else socket_bus("p", config=config) as bus:
        task = bus.register("echo", on_command=lambda m: m.payload)
        for size in (1, SIZE, MIB):
            with task.loan(size, on_full="wait") as loan:
                loan.buffer[:] = b"x" * size
                got = bus.call("echo", loan)
            assert got == b"x" * size
            assert alone or type(got) is bytes


@clause("MC-41")
@pytest.mark.parametrize("size", [0, -1, 2 * MIB - 4, 10**12])
def test_a_wrong_length_is_named(size: int) -> None:
    with memory_bus(config=BusConfig(message_bytes_max=2 * MIB)) as bus:
        task = bus.register("writer", on_command=ignore)
        most = 2 * MIB - 5
        match = f"nbytes must be from 1 to {most}, got {size}: BusConfig"
        with pytest.raises(ValueError, match=match):
            task.loan(size)
        with task.loan(most) as loan:
            task.notify(loan)
        for wrong in (1.0, "1", True):
            with pytest.raises(TypeError, match="nbytes must be an int"):
                task.loan(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="on_full must be one of error, wait, got"):
            task.loan(1, on_full="drop")  # type: ignore[arg-type]
        task.deregister()
        with pytest.raises(UnknownTaskError):
            task.loan(1)


def in_either_thread(act: Callable[[], None], *, main: bool) -> None:
    """Call a function in the main thread, which may be interrupted, or in another."""
    assert _sync.may_be_interrupted()
    if main:
        act()
    else:
        with Threads() as threads:
            threads.start(act)


@clause("MC-41")
@pytest.mark.parametrize("main", [True, False])
def test_a_full_arena_is_an_error_or_a_reason_to_wait(main: bool) -> None:
    # A message of more than 1 MiB would take a buffer of 2 MiB.
    config = BusConfig(arena_bytes=MIB * 3 // 2, send_timeout_s=LIMIT_S)
    with socket_bus("near", config=config) as bus:
        task = bus.register("writer", thread=bus.thread())
        held = [task.loan(MIB), *(task.loan(SIZE) for _ in range(4))]
        seen: list[Any] = []

        def free() -> None:
            requests = memory_of(bus)._requests
            until(lambda: any(not each.withdrawn for each in requests), "it waits")
            held.clear()

        def act() -> None:
            with pytest.raises(ArenaFullError, match="the arena of 1572864 bytes"):
                task.loan(SIZE)
            with pytest.raises(ArenaFullError):
                task.loan(SIZE, on_full="wait", timeout=0.01)
            with pytest.raises(ArenaFullError):
                task.loan(MIB + 1, on_full="wait", timeout=None)  # no wait can help
            with Threads() as threads:
                threads.start(free)
                with task.loan(SIZE, on_full="wait") as loan:
                    seen.append(len(loan.buffer))

        in_either_thread(act, main=main)

        assert seen == [SIZE]


@clause("MC-41")
def test_a_thread_serves_its_tasks_while_it_waits_for_a_loan() -> None:
    config = BusConfig(arena_bytes=MIB, send_timeout_s=LIMIT_S)
    with socket_bus("near", config=config) as bus:
        held: list[Loan] = []
        task = bus.register("writer", thread=bus.here())

        def free(message: Incoming) -> None:
            with pytest.raises(RuntimeError, match="cannot wait within a callback"):
                task.loan(SIZE, on_full="wait")
            held.clear()

        bus.register("freer", on_command=free, thread=bus.here())
        held.append(task.loan(MIB))
        task.command("freer", None)

        with task.loan(SIZE, on_full="wait") as loan:
            assert len(loan.buffer) == SIZE
        assert held == []


@clause("MC-41", "BUS-DEREG-12")
def test_a_wait_for_a_loan_ends_with_the_bus() -> None:
    config = BusConfig(arena_bytes=MIB)
    with Threads() as threads:
        with socket_bus("near", config=config) as bus:
            task = bus.register("writer", thread=bus.thread())
            held = task.loan(MIB)
            waiting = threads.start(
                lambda: task.loan(SIZE, on_full="wait", timeout=LIMIT_S)
            )
            memory = memory_of(bus)
            until(lambda: len(memory._requests) == 1, "it waits")
        assert type(waiting.error()) is UnknownTaskError
    del held
