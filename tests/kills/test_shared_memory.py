"""Some kills of processes that share memory; and checks of the parts that judge.

``python -m tests.kills --count 200 --shared-memory`` strikes more often.
"""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

import pytest

from bus.features.memory.mappings import MemoryMapping
from bus.features.memory.shared_memory import SharedMemory
from specs.clauses import clause
from tests.depth import among
from tests.kills.__main__ import main
from tests.kills.bytecode_strike import BUS, MEMORY
from tests.kills.long_messages import is_whole, number_of, payload
from tests.kills.member import MemberError
from tests.kills.notes import Note, Reader
from tests.kills.process_memory import ProcessMemory
from tests.kills.rules import within
from tests.kit.systems import needs_shared_memory
from tests.processes import run

if TYPE_CHECKING:
    from pathlib import Path


@clause("MC-24", "MC-32", "MC-33", "MC-35", "MC-36", "MC-38")
@pytest.mark.parametrize("spared", ["c", "o"])
@pytest.mark.deep
def test_kills_leave_no_memory_and_change_no_message_that_is_held(
    capsys: pytest.CaptureFixture[str], spared: str
) -> None:
    """Survivors read all held messages, and all buffers are home within a second.

    The owner or a receiver is killed before a random bytecode, or at a random moment.
    """
    count = among(8, 20)
    arguments = ["--shared-memory", "--count", f"{count}", "--seed", "4"]
    assert main([*arguments, "--spare", spared]) == 0, capsys.readouterr().out

    out = capsys.readouterr().out.splitlines()
    assert out[0] == "seed 4"
    reported = re.match(
        r"(\d+) killed: ([\d,]+) messages came whole, ([\d,]+) of", out[-1]
    )
    assert reported is not None
    killed, received, lent = (int(each.replace(",", "")) for each in reported.groups())
    assert killed == count
    assert received >= lent > count
    assert len(out) == 1 + count + 3 + 3 + 1


@pytest.mark.parametrize("at", [0, 31, 32, 63, 64, 1000, 131_071])
def test_one_altered_byte_of_a_payload_is_noticed(at: int) -> None:
    message = bytearray(payload("o.1/7", 131_072))
    assert len(message) == 131_072
    assert is_whole(bytes(message))
    assert number_of(bytes(message)) == "o.1/7"

    message[at] ^= 1

    assert not is_whole(bytes(message))


def test_payloads_differ_in_each_stretch_of_their_filling() -> None:
    one, two = payload("o.1/7", 4096), payload("o.1/8", 4096)

    assert all(one[at : at + 64] != two[at : at + 64] for at in range(64, 4032, 64))


@needs_shared_memory
def test_the_memory_of_a_process_is_listed_while_it_is_mapped() -> None:
    memory = SharedMemory(1 << 16)
    before = ProcessMemory.of(os.getpid())
    mapping = MemoryMapping(memory.fileno())

    seen = ProcessMemory.of(os.getpid())
    mapping.close()
    after = ProcessMemory.of(os.getpid())
    memory.close()

    # Each mapping of Python keeps a descriptor of its own.
    assert (before.mapped[memory.name], before.opened[memory.name]) == (1, 2)
    assert (seen.mapped[memory.name], seen.opened[memory.name]) == (2, 3)
    assert after == before
    assert memory.name not in ProcessMemory.of(os.getpid()).names


@pytest.mark.deep
@pytest.mark.parametrize("place", [MEMORY, BUS])
def test_a_process_kills_itself_before_a_chosen_bytecode(
    tmp_path: Path, place: str
) -> None:
    """The same bytecode each time, if one thread runs."""
    notes = []
    for life in ("a.1", "a.2"):
        code, _, errors = run(
            """
            import sys, threading
            from pathlib import Path
            from bus.features.memory.region import PoolLayout
            from tests.kills.bytecode_strike import BytecodeStrike
            from tests.kills.notes import Notebook

            strike = BytecodeStrike(Notebook(Path(sys.argv[1])))
            def work():
                strike.arm(sys.argv[2], 40)
                while True:
                    PoolLayout(4, 64, 4, 4)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            """,
            tmp_path / life,
            place,
        )
        assert code == -signal.SIGKILL, errors
    notes = [words for _, words in Reader(tmp_path).news()]
    assert notes[0] == notes[1]
    assert notes[0][0] == Note.KILLED
    assert notes[0][1].startswith("region.py:")


def test_a_rule_that_a_process_cannot_check_is_not_kept() -> None:
    """Such an error once passed for a rule without faults."""

    def fails() -> list[str]:
        raise MemberError("AttributeError, told to closed_links")

    with pytest.raises(MemberError, match="closed_links"):
        within(fails, "memory is left", 1.0)


def test_faults_that_end_in_time_are_none() -> None:
    faults = ["one"]

    within(lambda: [faults.pop()] if faults else [], "not home", 1.0)

    with pytest.raises(AssertionError, match=r"not home after 0 s: \['one'\]"):
        within(lambda: ["one"], "not home", 0.0)
