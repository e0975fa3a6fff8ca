"""``bus journal``: recorded operations, as found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from bus.cli import main
from bus.journal.format import RecordKind
from bus.journal.writer import Journal
from bus.model.events import BusOperation
from tests.journal.by_hand import B_LEAVES, met, received, sent
from tests.journal.histories import Condition, clean, journal_id, store
from tests.journal.telling import tell

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

ID = f"{journal_id(0):016x}"


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["journal", *map(str, arguments)])


def test_ls_lists_journals_with_their_state_holes_and_losses(tmp_path: Path) -> None:
    conditions = {
        0: Condition(),
        1: Condition(closed=False, sealed=False, lost=4, holes=(3,)),
        2: Condition(damaged=True),
    }
    store(clean(1, journals=3, channels=6), tmp_path, conditions=conditions)

    result = invoke("ls", tmp_path)

    assert result.exit_code == 4  # the damage
    head, *rows = [line.split() for line in result.stdout.splitlines()]
    listed = [dict(zip(head, row, strict=True)) for row in rows]
    assert [row["journal"] for row in listed] == [
        f"{journal_id(index):016x}" for index in range(3)
    ]
    assert [row["state"] for row in listed] == ["closed", "open", "damaged"]
    assert [row["holes"] for row in listed] == ["0", "1", "0"]
    assert [row["lost"] for row in listed] == ["0", "4", "0"]
    assert listed[0]["machine"] == "machine"
    assert listed[0]["opened"] == "1970-01-01T02:46:40.000000Z"
    assert "is damaged: the checksum of bytes" in result.stderr


def test_records_are_shown_a_line_each(tmp_path: Path) -> None:
    store(met(*sent(1), *received(1), B_LEAVES), tmp_path)

    result = invoke("cat", tmp_path)

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"1970-01-01T02:46:40.000000Z {ID}:0 open"
    flow = sent(1)[0].flow
    assert lines[4] == (
        f"1970-01-01T02:46:40.000004Z {ID}:4 send a / b port 5"
        f" flow {flow:016x} seq 1 size 8"
    )
    assert lines[-1].endswith(f"{ID}:7 close")
    assert len(lines) == 8


def test_records_are_chosen_by_kind_flow_and_name(tmp_path: Path) -> None:
    store(met(*sent(1, 2), *received(1, 2), B_LEAVES), tmp_path)
    to_b = f"{B_LEAVES.flow:016x}"

    def shown(*arguments: str) -> list[str]:
        lines = invoke("cat", tmp_path, *arguments).stdout.splitlines()
        return [line.split()[2] for line in lines]

    assert shown("--kind", "send") == ["send", "send"]
    assert shown("--kind", "send", "--kind", "close_local") == [
        "send",
        "send",
        "close_local",
    ]
    assert shown("--flow", to_b) == ["connect_end", "close_local"]
    assert shown("--flow", to_b, "--kind", "close_local") == ["close_local"]
    assert shown("--only", "nobody") == []
    assert shown("--only", "a", "--kind", "send") == ["send", "send"]


def test_records_as_json_lines(tmp_path: Path) -> None:
    store(met(*sent(1)), tmp_path)

    result = invoke("cat", tmp_path, "--json")

    rows = [json.loads(line) for line in result.stdout.splitlines()]
    (row,) = [row for row in rows if row["kind"] == "send"]
    assert row["journal"] == ID
    assert row["flow"] == f"{sent(1)[0].flow:016x}"
    assert (row["task"], row["peer"], row["mid"]) == ("a", "b", 5)
    assert (row["seq"], row["size"], row["n"]) == (1, 8, 4)
    assert row["wall"] == 10**13 + 4000
    assert row["reason"] == "none"


def test_a_kind_or_reason_of_a_later_version_is_shown_by_its_number(
    tmp_path: Path,
) -> None:
    (entry,) = sent(1)
    entry.kind, entry.reason = 99, 98  # type: ignore[assignment] # of a later version
    store(met(entry), tmp_path)

    result = invoke("cat", tmp_path)

    assert " kind-99 " in result.stdout
    assert " reason reason-98" in result.stdout


def test_verify_reports_a_whole_journal_as_ok(tmp_path: Path) -> None:
    history = clean(1)
    store(history, tmp_path)

    result = invoke("verify", tmp_path)

    count = len(history.entries) + 2
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{ID} ok: records {count}, segments {-(-count // 64)}\n"


def test_cat_shows_which_payloads_are_kept_and_verify_reads_them(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path, payloads=True, payload_bytes_max=5) as journal:
        sink = journal._trace_sink()
        for mid, payload in enumerate((b"abc", b"abcdefghi"), start=1):
            flags, location = sink.write_payload(payload, None, failed=False)
            sink.record(
                BusOperation.COMMAND, 1, mid, 2, 0, 9, flags=flags, location=location
            )
    (file,) = tmp_path.rglob("payloads-*.bin")

    lines = invoke("cat", tmp_path, "--kind", "command").stdout.splitlines()
    whole = invoke("verify", tmp_path)
    file.write_bytes(file.read_bytes()[:-4])
    damaged = invoke("verify", tmp_path)

    shown = [line.partition("flow")[2].split("[")[0].split()[1:] for line in lines]
    assert shown == [["payload", "size", "9"], ["truncated", "payload", "size", "9"]]
    assert whole.exit_code == 0
    assert damaged.exit_code == 1
    assert "payloads-00000.bin is damaged: the payload at byte 80" in damaged.stderr


def test_cat_shows_the_records_around_a_number(
    tmp_path: Path,
) -> None:
    messages = range(1, 31)
    store(met(*sent(*messages), *received(*messages), B_LEAVES), tmp_path)

    def shown(*arguments: str) -> list[int]:
        lines = invoke("cat", tmp_path, *arguments).stdout.splitlines()
        return [int(line.split()[1].partition(":")[2]) for line in lines]

    everything = shown()
    sends = shown("--kind", "send")
    assert shown("--around", "20") == everything[15:26]
    assert shown("--around", "2") == everything[:8]
    assert shown("--around", str(everything[-1])) == everything[-6:]
    # The context consists of selected records, even if the given one is not selected.
    assert shown("--kind", "send", "--around", str(sends[9])) == sends[4:15]
    assert shown("--kind", "send", "--around", "0") == sends[:5]
    assert shown("--kind", "open", "--around", "20") == [0]


def test_cat_shows_the_records_around_one_of_one_journal(tmp_path: Path) -> None:
    """As `cat` itself and `bus check` name it."""
    for number in (1, 2):
        with Journal(tmp_path / str(number)) as journal:
            for _ in range(20):
                tell(journal)
    names = [line.split()[1] for line in invoke("cat", tmp_path).stdout.splitlines()]
    second = names[30]

    result = invoke("cat", tmp_path, "--around", second)
    unknown = invoke("cat", tmp_path, "--around", "abc:3")
    wrong = invoke("cat", tmp_path, "--around", "abc:x")

    assert [line.split()[1] for line in result.stdout.splitlines()] == names[25:36]
    assert f"{tmp_path} has no journal 0000000000000abc" in unknown.stderr
    assert "'abc:x' is no record" in wrong.stderr
    assert (unknown.exit_code, wrong.exit_code) == (2, 2)


def test_cat_reports_a_record_number_that_does_not_exist(tmp_path: Path) -> None:
    store(met(*sent(1, 2), *received(1, 2), B_LEAVES), tmp_path)
    everything = invoke("cat", tmp_path)
    last = everything.stdout.splitlines()[-1].split()[1].partition(":")[2]
    assert everything.stderr == ""

    beyond = invoke("cat", tmp_path, "--around", "999")
    nothing = invoke("cat", tmp_path, "--kind", "lost", "--around", "999")

    assert len(beyond.stdout.splitlines()) == 5
    no = "bus: no record has the number 999"
    assert beyond.stderr == f"{no}: the last one is {last}\n"
    assert (nothing.stdout, nothing.stderr) == ("", f"{no}\n")
    assert invoke("cat", tmp_path, "--around", last).stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["cat"],
        ["cat", "x", "--kind", "nonsense"],
        ["cat", "x", "--flow", "zz"],
        ["cat", "x", "--around", "-1"],
        ["ls"],
        ["frobnicate"],
    ],
)
def test_wrong_arguments_are_exit_code_2(arguments: list[str]) -> None:
    result = invoke(*arguments)

    assert result.exit_code == 2
    assert "Error: " in result.stderr


@pytest.mark.parametrize("verb", ["ls", "cat", "verify"])
def test_without_a_journal_there_is_one_line_and_exit_code_4(
    tmp_path: Path, verb: str
) -> None:
    result = invoke(verb, tmp_path)

    assert (result.exit_code, result.stdout) == (4, "")
    assert (
        result.stderr == f"bus: no journal in {tmp_path}: give a folder with journals\n"
    )


def test_every_kind_can_be_asked_for(tmp_path: Path) -> None:
    store(clean(1), tmp_path)

    for kind in RecordKind:
        assert invoke("cat", tmp_path, "--kind", kind.name.lower()).exit_code == 0


@pytest.mark.parametrize(
    ("verb", "last"),
    [("ls", " closed "), ("cat", " close"), ("verify", f"{journal_id(1):016x} ok: ")],
)
def test_the_readable_part_is_shown_with_exit_code_4(
    tmp_path: Path, verb: str, last: str
) -> None:
    (path, _) = store(clean(1, journals=2, channels=6, steps=20), tmp_path)
    segment = path / "seg-00000.qbj"
    segment.unlink()
    segment.mkdir()

    result = invoke(verb, tmp_path)

    assert result.exit_code == 4
    assert last in result.stdout.splitlines()[-1]
    assert result.stderr == f"bus: cannot read {segment}: Is a directory\n"
    if verb == "ls":
        assert result.stdout.splitlines()[1].split()[9] == "?"


@pytest.mark.parametrize("unreadable", [False, True])
def test_verify_exits_with_1_for_damage_also_if_a_file_cannot_be_read(
    tmp_path: Path, *, unreadable: bool
) -> None:
    incomplete = Condition(closed=False, sealed=False, holes=(5,), lost=1)
    conditions = {0: incomplete, 1: Condition(damaged=True)}
    history = clean(1, journals=2, channels=6, steps=20)
    (path, _) = store(history, tmp_path, conditions=conditions)
    if unreadable:
        (path / "meta.jsonl").unlink()

    result = invoke("verify", tmp_path)

    # An incomplete journal is not damaged.
    assert result.exit_code == 1
    assert result.stdout.count(" ok: ") == (not unreadable)
    *others, line = result.stderr.splitlines()
    assert len(others) == unreadable
    assert "is damaged: the checksum of bytes 4096 to " in line
