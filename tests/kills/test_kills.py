"""A dozen blows to a real bus; and checks of the judge itself.

``python -m tests.kills --count 200`` strikes often enough to hit each state in many
places; ``python -m tests.kills.sweep`` strikes before each of many system calls.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause
from tests.depth import among
from tests.kills import soak, sweep
from tests.kills.__main__ import main
from tests.kills.blow import STATES
from tests.kills.campaign import Campaign
from tests.kills.ledger import Fate, Ledger
from tests.kills.notes import Note, Notebook, Reader
from tests.kills.soak import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

# A message from a to the fast task of b, and its arrival there.
ASKED = "a.1: S a.1/1 fast/b ask"
BRIEF = "a.1: S a.1/1 fast/b brief"
TOLD = "a.1: S a.1/1 fast/b tell"
GOT = "b.1: G a.1/1 fast/b"
ANSWERED = "a.1: O a.1/1 ok"
DOUBTED = "a.1: O a.1/1 InDoubtError"


def ledger_of(*lines: str) -> Ledger:
    """Return a ledger that has read some lines, each with its life."""
    ledger = Ledger()
    take(ledger, *lines)
    return ledger


def take(ledger: Ledger, *lines: str) -> None:
    for line in lines:
        life, _, words = line.partition(": ")
        ledger.take(life, words.split())


@pytest.mark.deep
@clause("OPEN-1", "OPEN-2", "BUS-MOVE-8", "BUS-DEREG-9", "AMO-19", "BUS-ENT-17")
def test_a_killed_process_loses_only_the_messages_it_held(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No process hangs, nothing arrives twice, each message has its outcome.

    Masters, slaves and clients are killed, or stopped for a while, under load;
    afterwards the accounts balance.
    """
    count = among(4, 12)
    assert main(["--count", f"{count}", "--seed", "7"]) == 0, capsys.readouterr().out

    out = capsys.readouterr().out.splitlines()
    assert out[0] == "seed 7"
    assert out[-1].startswith(f"{count} struck: ")
    assert len(out) == 1 + count + 1 + len(STATES) + 1


@clause("OPEN-2", "BUS-MOVE-8", "BUS-ENT-17")
@pytest.mark.deep
def test_a_process_killed_right_before_a_system_call_hangs_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two of the points that the sweep covers."""
    arguments = ["--points", "1", "--calls", "sendto", "recvfrom", "--seed", "1"]
    assert sweep.main(arguments) == 0, capsys.readouterr().out

    assert capsys.readouterr().out.splitlines()[-3:] == [
        "sendto       1 points",
        "recvfrom     1 points",
        "2 killed: nobody hung, nothing came twice",
    ]


@pytest.mark.deep
def test_a_client_that_is_spared_outlives_the_others_and_does_not_grow(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In 10 blows after the first 20; ``python -m tests.kills.soak`` takes an hour."""
    assert soak.main(["--count", "30", "--seed", "5"]) == 0, capsys.readouterr().out

    first, line, *_, last = capsys.readouterr().out.splitlines()
    assert first == "seed 5"
    assert "1 struck: " in line
    assert last.endswith("struck: the counters balance, and the memory is flat")


@pytest.mark.parametrize(
    ("blocks_each", "kib_each", "reported"),
    [
        (0, 0, []),
        (1 / 4, 0, []),
        (1, 0, ["4,000 more blocks in use after 4000 blows"]),
        (0, 3, ["12,000 KiB more resident after 4000 blows"]),
    ],
)
def test_an_object_kept_for_each_blow_is_growth(
    blocks_each: float, kib_each: int, reported: list[str]
) -> None:
    seen = [
        Memory(int(90_000 + blocks_each * number), 40_000 + kib_each * number)
        for number in range(8000)
    ]

    assert soak.growth(seen) == reported


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Yield a folder for sockets: the paths of `tmp_path` may be too long for them."""
    with TemporaryDirectory(prefix="kills-") as folder:
        yield Path(folder)


@pytest.mark.deep
def test_a_campaign_tells_of_a_message_that_came_twice(short_folder: Path) -> None:
    """A duplicate in the notes appears in the story of the next blow."""
    folder = short_folder / "k"
    with Campaign(folder, 1) as bus:
        forger = Notebook(folder / "notes" / "forger")
        for _ in range(2):
            forger.note(Note.GOT, "b.1/1", "mover")
        forger.close()

        with pytest.raises(AssertionError, match=r"b\.1/1 came (2 times|twice)"):
            bus.strike(5)


@pytest.mark.parametrize(
    ("fate", "lines"),
    [
        (Fate.DELIVERED, (ASKED, GOT, ANSWERED)),
        (Fate.DELIVERED, (GOT, ANSWERED, ASKED)),  # the files are read one by one
        (Fate.DELIVERED, (TOLD, GOT)),
        (Fate.REFUSED, (ASKED, "a.1: O a.1/1 UnresolvedError")),
        (Fate.REFUSED, (TOLD, "a.1: O a.1/1 BusFullError")),
        (Fate.EXPIRED, (BRIEF, "a.1: O a.1/1 CommandTimeoutError")),
        (Fate.EXPIRED, (BRIEF, GOT, "a.1: O a.1/1 CommandTimeoutError")),
        (Fate.DOUBT, (ASKED, DOUBTED)),
        (Fate.DOUBT, (ASKED, DOUBTED, GOT)),
        (Fate.LOST, (ASKED, GOT, "a.1: O a.1/1 PeerLostError")),
        (Fate.LOST, (TOLD, "b.1: T a.1/1")),
    ],
)
def test_each_message_has_one_fate(fate: Fate, lines: tuple[str, ...]) -> None:
    verdict = ledger_of(*lines).judge((), ())

    assert verdict.faults == []
    assert verdict.fates == {fate: 1}


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        ("has no outcome", (ASKED,)),
        ("has no outcome", (ASKED, GOT)),
        ("has no outcome", (TOLD,)),
        ("several outcomes", (ASKED, GOT, ANSWERED, ANSWERED)),
        ("came twice", (ASKED, GOT, GOT, ANSWERED)),
        ("came twice", (TOLD, GOT, "c.1: G a.1/1 fast/b")),
        ("came twice", (ASKED, GOT, GOT, DOUBTED)),
        ("came 0 times", (ASKED, ANSWERED)),
        ("came 1 times", (ASKED, GOT, "a.1: O a.1/1 UnresolvedError")),
        ("came 1 times", (TOLD, GOT, "a.1: O a.1/1 AddresseeGoneError")),
        ("that cannot be", (ASKED, GOT, "a.1: O a.1/1 another's")),
        ("that cannot be", (ASKED, "a.1: O a.1/1 CommandTimeoutError")),
        ("was never sent", (GOT,)),
        ("not what was sent", (TOLD, "b.1: B a.1/1 fast/b")),
        ("after a.1/1", (ASKED, GOT, ANSWERED, "b.1: G a.1/0 fast/b")),
        ("twice to", ("b.1: N a.1/7 from/b", "b.1: N a.1/7 from/b")),
    ],
)
def test_each_kind_of_fault_is_reported(fault: str, lines: tuple[str, ...]) -> None:
    faults = ledger_of(*lines).judge((), ()).faults

    assert any(fault in each for each in faults), faults


@pytest.mark.parametrize("outcome", ["ok", "InDoubtError", "UnresolvedError"])
def test_the_ledger_remembers_judged_messages(outcome: str) -> None:
    """A message in doubt may arrive late, once; any other may not."""
    received = [GOT] if outcome == "ok" else []
    ledger = ledger_of(ASKED, *received, f"a.1: O a.1/1 {outcome}")
    assert ledger.judge((), ()).faults == []

    take(ledger, GOT)
    assert bool(ledger.judge((), ()).faults) is (outcome != "InDoubtError")
    take(ledger, GOT)
    assert ledger.judge((), ()).faults == ["a.1/1 was over, and b.1 notes G ['fast/b']"]


def test_a_message_of_a_dead_sender_needs_no_outcome_and_arrives_once() -> None:
    ledger = ledger_of(ASKED)
    assert ledger.in_flight() == 1
    verdict = ledger.judge({"a.1"}, ())
    assert (verdict.fates, verdict.faults) == ({Fate.DEAD: 1}, [])

    take(ledger, GOT, GOT)
    assert len(ledger.judge({"a.1"}, ()).faults) == 1


def test_a_message_taken_by_a_dead_receiver_is_lost_and_counted() -> None:
    """No error reports a message sent without an answer; a question has its outcome."""
    verdict = ledger_of(TOLD).judge({"b.1"}, {"fast/b"})
    assert (verdict.fates, verdict.silent) == ({Fate.LOST: 1}, 1)
    assert ledger_of(ASKED).undecided({"b.1"}, {"fast/b"})
    assert ledger_of(TOLD).sent_to({"fast/b"}) == 1


def test_notes_are_read_once_each_and_not_before_they_are_whole(
    tmp_path: Path,
) -> None:
    reader, book = Reader(tmp_path), Notebook(tmp_path / "a.1")
    book.note(Note.SENT, "a.1/1", "mover", "ask")
    with book.path.open("ab") as file:
        file.write(b"G a.1")
    assert list(reader.news()) == [("a.1", ["S", "a.1/1", "mover", "ask"])]

    with book.path.open("ab") as file:
        file.write(b"/2 mover\n")
    assert list(reader.news()) == [("a.1", ["G", "a.1/2", "mover"])]
    assert list(reader.news()) == []
    book.close()
