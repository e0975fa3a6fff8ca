"""Payloads beside the records: which are kept, where, and how much of them."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any, cast

import pytest

import bus.journal
from bus.journal.checker import check
from bus.journal.format import Flag, RecordKind
from bus.journal.payload_file import PayloadFile, PayloadHeader, StoredPayloads
from bus.journal.payloads import Payloads
from bus.journal.reader import open_journals
from bus.journal.writer import Journal
from bus.kernel.trace import TracedPayload, Tracer
from bus.model.events import BusOperation
from bus.model.payload import decode, encode
from bus.testing import memory_bus
from queuebroker.testing import explore
from specs.clauses import clause
from tests.journal.reading import patch
from tests.journal.telling import SMALL, only
from tests.kit.buses import processes
from tests.kit.systems import ends_by_signals, needs_fork
from tests.processes import run
from tests.strikes import everywhere
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path

    from bus.journal.reader import StoredJournal
    from bus.kernel.trace import TraceSink
    from queuebroker.testing import Run
    from tests.strikes import Blow

_MARKS = int(Flag.PAYLOAD | Flag.TRUNCATED | Flag.ERROR)


def kept(stored: StoredJournal) -> list[tuple[str, Any, str]]:
    """Return kind, payload and marks of each record that names a payload."""
    found = []
    for record in stored.records():
        body = stored.payload(record)
        if body is not None:
            whole = not record.flags & Flag.TRUNCATED
            marks = Flag(record.flags & _MARKS & ~Flag.PAYLOAD)
            found.append(
                (
                    RecordKind(record.kind).name.lower(),
                    decode(body) if whole else body,
                    (marks.name or "").lower(),
                )
            )
    assert stored.problems == []
    return found


def incarnation_payloads(journal: Journal) -> Payloads:
    assert journal._incarnation is not None
    assert journal._incarnation._payloads is not None
    return journal._incarnation._payloads


def refuse(message: Any) -> None:
    message.respond(error="no")


def test_the_sender_keeps_questions_answers_and_errors(tmp_path: Path) -> None:
    with (
        Journal(tmp_path, payloads=True, payload_bytes_max=8) as journal,
        memory_bus(journal=journal) as bus,
    ):
        asker = bus.register("asker")
        bus.register("echo", on_command=lambda message: message.payload)
        bus.register("refusing", on_command=refuse)
        asker.call("echo", {"a": [1]})
        asker.call("echo", b"0123456789")
        with pytest.raises(Exception, match="no"):
            asker.call("refusing", None)

    start = encode(b"0123456789")[:8]
    assert kept(only(tmp_path)) == [
        ("command", {"a": (1,)}, ""),
        ("respond", {"a": (1,)}, ""),
        ("command", start, "truncated"),
        ("respond", start, "truncated"),
        ("command", None, ""),
        ("respond", "no", "error"),
    ]
    assert check(open_journals(tmp_path)).verdict == "PASS"


def test_a_notification_is_kept_once_for_all_its_subscribers(tmp_path: Path) -> None:
    with (
        Journal(tmp_path, payloads=True) as journal,
        memory_bus(journal=journal) as bus,
    ):
        sender = bus.register("sender")
        for name in ("a", "b"):
            bus.register(name).subscribe("sender", lambda _: None, wait=True)
        sender.notify("heard")

    stored = only(tmp_path)
    records = [one for one in stored.records() if one.kind == RecordKind.NOTIFY]
    assert [stored.payload(one) for one in records] == [encode("heard")] * 2
    assert len({one.seq for one in records}) == 1


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ("sensor/*", ["notified", "to a sensor", "of a sensor"]),
        (["other", "nobody"], ["notified by other", "to a sensor", "of a sensor"]),
        ("nobody", []),
    ],
)
def test_patterns_choose_messages_by_sender_and_addressee(
    tmp_path: Path, patterns: str | list[str], expected: list[str]
) -> None:
    with (
        Journal(tmp_path, payloads=patterns) as journal,
        memory_bus(journal=journal) as bus,
    ):
        sensor = bus.register("sensor/1", on_command=lambda _: "of a sensor")
        other, third = bus.register("other"), bus.register("third")
        third.subscribe("sensor/1", lambda _: None, wait=True)
        third.subscribe("other", lambda _: None, wait=True)
        sensor.notify("notified")
        other.notify("notified by other")
        other.call("sensor/1", "to a sensor")

    assert [payload for _, payload, _ in kept(only(tmp_path))] == expected


def test_only_the_process_of_the_sender_keeps_a_payload(tmp_path: Path) -> None:
    folders = {"here": tmp_path / "here", "there": tmp_path / "there"}
    with (
        Journal(folders["here"], payloads=True) as one,
        Journal(folders["there"], payloads=True) as two,
        processes("here there", journals={"here": one, "there": two}) as (here, there),
    ):
        there.register("echo", on_command=lambda message: message.payload + 1)
        here.register("asker").call("echo", 41)

    assert kept(only(folders["here"]))[0] == ("command", 41, "")
    assert ("respond", 42, "") in kept(only(folders["there"]))


@clause("J1")
def test_a_full_file_is_followed_by_the_next_or_the_loss_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost payload leaves its message on record, and no verdict in doubt."""
    monkeypatch.setattr("bus.journal.payloads.Payloads.tend", lambda _: None)
    with Journal(
        tmp_path, payloads=True, segment_bytes=SMALL, payload_bytes_max=6100
    ) as journal:
        payloads = incarnation_payloads(journal)
        with memory_bus(journal=journal) as bus:
            sender = bus.register("sender")
            bus.register("reader", on_command=lambda _: None)
            for byte in (b"a", b"b", b"c", b"d"):
                if byte == b"d":
                    payloads._make()  # the housekeeper is late by one payload
                sender.call("reader", byte * 6000)
        assert journal.payloads_lost == 2  # `c` and the answer to it

    stored = only(tmp_path)
    sent = [payload[:1] for kind, payload, _ in kept(stored) if kind == "command"]
    assert sent == [b"a", b"b", b"d"]
    assert stored.facts().payloads_lost == 2
    (told,) = [one for one in stored.records() if one.kind == RecordKind.LOST]
    assert (told.seq, told.mid) == (0, 2)
    assert check(open_journals(tmp_path)).verdict == "PASS"


@clause("J1")
@pytest.mark.parametrize(
    ("at", "problem"),
    [
        (64 + 9, "is damaged: the payload at byte 64 is not whole"),
        (64, "is damaged: the payload at byte 64 is not whole"),
        (9, "the header is damaged: wrong checksum"),
        (0, "not a payload file: byte 0 reads"),
    ],
    ids=["body", "length", "header", "magic"],
)
def test_a_damaged_payload_is_a_problem_and_a_deleted_one_is_none(
    tmp_path: Path, at: int, problem: str
) -> None:
    with (
        Journal(tmp_path, payloads=True) as journal,
        memory_bus(journal=journal) as bus,
    ):
        bus.register("reader", on_command=lambda _: None)
        bus.call("reader", "text")
    stored = only(tmp_path)
    (command,) = [one for one in stored.records() if one.kind == RecordKind.COMMAND]
    path = stored.path / "payloads-00000.bin"
    byte = path.read_bytes()[at]

    patch(path, at, bytes((byte ^ 255,)))

    assert stored.payload(command) is None
    (line,) = stored.problems
    assert problem in line
    del stored, command  # Windows deletes no file that is open
    path.unlink()
    fresh = only(tmp_path)
    (command,) = [one for one in fresh.records() if one.kind == RecordKind.COMMAND]
    assert fresh.payload(command) is None
    assert fresh.problems == []


@ends_by_signals
def test_a_killed_process_leaves_each_named_payload_whole(tmp_path: Path) -> None:
    code = """
        import sys
        from bus.journal.writer import Journal
        from bus.testing import memory_bus
        journal = Journal(sys.argv[1], payloads=True, segment_bytes=1 << 20)
        with memory_bus(journal=journal) as bus:
            bus.register("echo", on_command=lambda message: message.payload)
            for number in range(1 << 30):
                bus.call("echo", {"number": number, "filler": "x" * (number % 3000)})
                if number == 2000:
                    print(flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.kill()
    assert child.returncode == -signal.SIGKILL

    stored = only(tmp_path)
    named = [one for one in stored.records() if one.flags & Flag.PAYLOAD]
    numbers = [decode(stored.payload(one) or b"\xc0") for one in named]
    assert len(numbers) > 4000
    assert all(
        isinstance(one, dict) and len(str(one["filler"])) == one["number"] % 3000
        for one in numbers
    )
    assert stored.problems == []


@needs_fork
def test_a_forked_child_keeps_payloads_in_a_folder_of_its_own(tmp_path: Path) -> None:
    code = """
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from bus.journal.writer import Journal
        from bus.model.events import BusOperation

        def tell(payload):
            flags, location = sink.write_payload(payload, None, failed=False)
            sink.record(BusOperation.COMMAND, 1, 1, 9, flags=flags, location=location)

        journal = Journal(sys.argv[1], payloads=True)
        sink = journal._trace_sink()
        tell("parent 1")
        child = os.fork()
        if not child:
            tell("child")
            journal.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        tell("parent 2")
        journal.close()
    """

    assert run(code, tmp_path) == (0, "", "")

    journals = map(kept, open_journals(tmp_path))
    told = sorted([payload for _, payload, _ in each] for each in journals)
    assert told == [["child"], ["parent 1", "parent 2"]]


@pytest.mark.deep
def test_an_interrupt_loses_at_most_the_payload_that_was_being_kept(
    tmp_path: Path,
) -> None:
    """The payload needs the next file, which the housekeeper must replace again."""
    cases = itertools.count()

    def case(struck: Blow) -> None:
        folder = tmp_path / str(next(cases))
        with Journal(
            folder, payloads=True, segment_bytes=SMALL, payload_bytes_max=9000
        ) as journal:
            sink = journal._trace_sink()

            def tell(origin: int) -> None:
                payloads = incarnation_payloads(journal)
                until(lambda: len(payloads._line) > 1, "a spare is ready")
                flags, location = sink.write_payload(bytes(8300), None, failed=False)
                sink.record(
                    BusOperation.COMMAND, origin, 1, 9, flags=flags, location=location
                )

            tell(1)
            struck(lambda: tell(2))
            tell(3)
            assert journal.payloads_lost == journal.lost == 0
        stored = only(folder)
        found = [one for one in stored.records() if one.kind == RecordKind.COMMAND]
        assert [one.origin for one in found if one.origin != 2] == [1, 3]
        assert all(stored.payload(one) for one in found)
        assert stored.facts().holes <= 1

    everywhere(case, packages=[bus.journal])


def test_a_file_that_is_closed_takes_no_payload(tmp_path: Path) -> None:
    """A writer suspended before the close must not write to memory that was cut off."""
    file = PayloadFile(tmp_path, PayloadHeader(1, 3, 0, 0), 4096)
    place = file.write(b"kept")

    file.close()
    file.close()

    assert file.write(b"late") == 0
    assert StoredPayloads(tmp_path, 1).read(place) == b"kept"
    assert (tmp_path / "payloads-00003.bin").stat().st_size == 64 + 16


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"payloads": "a*"}, "is no specification"),
        ({"payloads": "ism://far/a"}, "must hold names of this machine"),
        ({"payloads": True, "payload_bytes_max": 0}, "must be 1 to "),
        ({"payloads": True, "segment_bytes": SMALL}, "must be 1 to 16264, got 65536"),
        ({"max_age_s": "7d"}, "max_age_s must be a number, got '7d'"),
    ],
)
def test_an_unusable_setting_is_refused(
    tmp_path: Path, settings: dict[str, Any], text: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        Journal(tmp_path / "none", **settings)


def test_a_finalizer_that_records_during_a_change_of_files_loses_its_payload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs on the thread that holds the lock, so it must not wait for the lock."""
    inner: list[tuple[int, int]] = []
    with Journal(
        tmp_path, payloads=True, segment_bytes=SMALL, payload_bytes_max=9000
    ) as journal:
        sink = journal._trace_sink()
        advance = Payloads.advance

        def finalize(payloads: Payloads) -> bool:
            if not inner:
                inner.append(sink.write_payload(bytes(8300), None, failed=False))
            return advance(payloads)

        monkeypatch.setattr(Payloads, "advance", finalize)
        until(lambda: len(incarnation_payloads(journal)._line) > 1, "a spare is ready")
        outer = [sink.write_payload(bytes(8300), None, failed=False) for _ in range(2)]

    assert inner == [(0, 0)]
    assert all(place for _, place in outer)
    assert journal.payloads_lost == 1


class Places:
    """A trace sink that gives each payload a place of its own."""

    def __init__(self) -> None:
        self.kept: list[tuple[Any, Any]] = []

    def keeps_payloads(self, _: str) -> bool:
        return True

    def write_payload(
        self, payload: Any, encoded: Any, *, failed: bool
    ) -> tuple[int, int]:
        assert not failed
        self.kept.append((payload, encoded))
        return int(Flag.PAYLOAD), len(self.kept)

    def record(self, *_: Any) -> None:
        pass


def test_a_notification_that_waits_for_the_links_holds_its_payload_once() -> None:
    sink = Places()
    tracer = Tracer(cast("TraceSink", sink), 1, itertools.count(1))
    body = tracer.payload("payload", b"encoded")

    trace = tracer.remote_notification(7, body)
    trace.number()
    trace.for_subscriber().record_accepted(9)

    assert sink.kept == [("payload", None)]


def test_two_threads_may_accept_the_messages_of_one_command_to_several_tasks() -> None:
    """One waits for its addressee, which registers while the other one is sent."""

    def program(run: Run) -> None:
        sink = Places()
        body = TracedPayload(cast("TraceSink", sink), "payload", b"encoded")
        places: list[tuple[int, int]] = []

        def wait_and_accept() -> None:
            body.drop_encoding()
            places.append(body.write())

        run.spawn(wait_and_accept)
        places.append(body.write())
        run.join()
        assert {sink.kept[place - 1][0] for _, place in places} == {"payload"}

    explore(program, bound=2, random=30, seed=1, bytecode=[TracedPayload])


def test_a_body_written_after_the_reader_read_its_place_is_found(
    tmp_path: Path,
) -> None:
    """The reader keeps a part of the file, which was still empty there."""
    writer = PayloadFile(tmp_path, PayloadHeader(1, 0, 0, 0), 1 << 16)
    reader = StoredPayloads(tmp_path, 1)

    for body in (b"first", b"second", b"third"):
        assert reader.read(writer.write(body)) == body

    reader.close()
    writer.close()
