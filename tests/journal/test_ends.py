"""The end of a process, its fork, and the state of its journal afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.journal.reader import open_journals
from tests.journal.telling import only, records_of
from tests.kit.systems import ends_by_signals, needs_fork
from tests.processes import run, start
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path

    from bus.journal.format import Record


_KILLED = """
    import mmap, sys, threading
    from bus.journal.writer import Journal
    from queuebroker.observer import Operation, Reason

    folder, counters = sys.argv[1:]
    file = open(counters, "r+b")
    done = mmap.mmap(file.fileno(), 32)
    journal = Journal(folder)

    def work(number):
        seq = 0
        while True:
            seq += 1
            journal.observe(
                Operation.SEND, number + 1, 1, seq, seq % 1000, 3, 0,
                "near", "far", 5, Reason.NONE,
            )
            # With one move: pack_into clears the place first, and may be killed then.
            done[8 * number : 8 * number + 8] = seq.to_bytes(8, "little")

    for number in range(4):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.deep
def test_a_killed_writer_has_lost_nothing_it_had_written(tmp_path: Path) -> None:
    counters = tmp_path / "counters"
    counters.write_bytes(bytes(32))

    def done() -> list[int]:
        data = counters.read_bytes()
        return [int.from_bytes(data[i : i + 8], "little") for i in range(0, 32, 8)]

    with start(_KILLED, tmp_path / "journals", counters) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        until(lambda: min(done()) > 500, "every thread has written")
        process.kill()
    stored = only(tmp_path / "journals")

    facts = stored.facts()
    assert (facts.closed, facts.sealed, facts.damaged) == (False, 0, 0)
    by_flow: dict[int, list[Record]] = {}
    for record in records_of(stored):
        by_flow.setdefault(record.flow, []).append(record)
    for written, (_, records) in zip(done(), sorted(by_flow.items()), strict=True):
        seqs = [record.seq for record in records]
        # The last record may be written, but not yet counted.
        assert seqs in ([*range(1, written + 1)], [*range(1, written + 2)])
        assert all(record.size == record.seq % 1000 for record in records)
        assert {stored.name(record.task) for record in records} == {"near"}


_LEFT_OPEN = {
    "nothing": "journal.emit(77)",
    # The journal closes after Python has joined the threads.
    "a thread that outlives main": """
def work():
    threading.main_thread().join()
    journal.emit(77)

threading.Thread(target=work).start()
""",
    # Its last records may come after the close, which is noted.
    "a thread that never ends": """
def work():
    while True:
        journal.emit(77)
        begun.set()

begun = threading.Event()
threading.Thread(target=work, daemon=True).start()
begun.wait()
""",
}


@pytest.mark.parametrize("left", _LEFT_OPEN)
def test_a_program_that_leaves_its_journal_open_closes_it_at_its_end(
    tmp_path: Path, left: str
) -> None:
    begin = """
import sys, threading
from bus.journal.writer import Journal
journal = Journal(sys.argv[1])
"""

    assert run(f"{begin}{_LEFT_OPEN[left]}\nsys.exit(3)", tmp_path) == (3, "", "")

    facts = only(tmp_path).facts()
    assert (facts.closed, facts.damaged) == (True, 0)
    assert facts.conclusive or left == "a thread that never ends"
    assert {record.kind for record in records_of(only(tmp_path))} == {77}


@ends_by_signals
def test_a_program_that_exits_on_sigterm_closes_its_journal(tmp_path: Path) -> None:
    """With the handler for SIGTERM from the page *When something dies*."""
    code = """
        import signal, sys
        from bus.journal.writer import Journal

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        journal = Journal(sys.argv[1])
        journal.emit(77)
        print("ready", flush=True)
        sys.stdin.read()
    """

    with start(code, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        _, complaints = process.communicate(timeout=60)

    assert (process.returncode, complaints) == (0, "")
    assert only(tmp_path).facts().conclusive


@needs_fork
def test_a_forked_child_records_in_a_folder_of_its_own(tmp_path: Path) -> None:
    code = """
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from bus.journal.writer import Journal
        from queuebroker.observer import Operation, Reason

        def tell(seq, name):
            told = Operation.SEND, 1, 1, seq, 0, 0, 0, name, "x", 1, Reason.NONE
            journal.observe(*told)

        journal = Journal(sys.argv[1])
        tell(1, "parent")
        silent = os.fork()
        if not silent:
            journal.close()
            os._exit(0)
        os.waitpid(silent, 0)
        child = os.fork()
        if not child:
            assert journal.folder is None
            tell(2, "child")
            tell(3, "parent")
            journal.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        tell(4, "parent")
        journal.close()
    """

    assert run(code, tmp_path) == (0, "", "")

    journals = open_journals(tmp_path)
    seen = {
        tuple((record.seq, each.name(record.task)) for record in records_of(each))
        for each in journals
    }
    assert seen == {((1, "parent"), (4, "parent")), ((2, "child"), (3, "parent"))}
    assert all(each.facts().complete for each in journals)
    flows = [{record.flow for record in records_of(each)} for each in journals]
    assert flows[0].isdisjoint(flows[1])


@needs_fork
def test_a_forked_child_that_cannot_record_goes_on(tmp_path: Path) -> None:
    code = """
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from bus.journal.writer import Journal
        from queuebroker import _files

        def full(*_):
            raise OSError(28, "No space left on device")

        journal = Journal(sys.argv[1])
        child = os.fork()
        if not child:
            _files.allocate = full
            journal.emit(77)
            journal.emit(78)
            journal.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        journal.close()
    """

    code_, answer, complaints = run(code, tmp_path)

    assert (code_, answer) == (0, "")
    assert complaints.startswith("nothing is recorded in this forked child: cannot")
    assert complaints.count("\n") == 1
    assert only(tmp_path).facts().complete
