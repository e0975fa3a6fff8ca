"""`python -m specs.promela`: SPIN's output, expected failures, missing tools."""

from __future__ import annotations

import importlib
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from specs.promela import __main__ as command
from specs.promela.model import MODELS, Case, Fault, Model, Size
from specs.promela.spin import Finding, Spin, SpinError, Verdict, parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

has_tools = shutil.which("spin") is not None and shutil.which("cc") is not None

END = """
State-vector 128 byte, depth reached {depth}, errors: {errors}
   {states} states, stored
   380237 transitions (= stored+matched)
pan: elapsed time 0.23 seconds
"""
HELD = END.format(depth=144, errors=0, states=215953)
BROKEN = END.format(depth=97, errors=1, states=312)

# A process that counts to two; the second property does not hold.
COUNTING = """
byte number;
#ifdef STUCK
#define LAST 1
#else
#define LAST 2
#endif
active proctype Count() { do :: number < LAST -> number++ :: else -> break od }
ltl small { [] (number < 3) }
ltl smaller { [] (number < 2) }
/* Liveness. */
ltl arrives { <> (number == 2) }
"""


class OwnModel(Model):
    """A model with a given text."""

    def text(self) -> str:
        return COUNTING


def own(*props: str, faults: tuple[Fault, ...] = ()) -> Model:
    return OwnModel("counting", (Size("only", only=props),), faults)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (HELD, Finding(Verdict.HOLDS, 215953, 144, 0.23)),
        (
            "pan:1: assertion violated !( !( !(late))) (at depth 89)\n" + BROKEN,
            Finding(Verdict.BROKEN, 312, 97, 0.23),
        ),
        (
            "pan:1: acceptance cycle (at depth 85)\n" + BROKEN,
            Finding(Verdict.BROKEN, 312, 97, 0.23),
        ),
    ],
    ids=["holds", "safety", "liveness"],
)
def test_parse_returns_the_finding_in_the_output_of_the_verifier(
    text: str, finding: Finding
) -> None:
    assert parse(text) == finding


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("error: max search depth too small\n" + HELD, "not completed"),
        ("pan: reached -DMEMLIM bound\n" + HELD, "not completed"),
        ("pan:1: invalid end state (at depth 3)\n" + BROKEN, "invalid end state"),
        ("pan: bad option\n", "bad option"),
        ("", "nothing"),
    ],
    ids=["depth", "memory", "another error", "wrong use", "silence"],
)
def test_a_search_that_proves_nothing_is_an_error(text: str, reported: str) -> None:
    with pytest.raises(SpinError, match=reported):
        parse(text)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_property_is_run_and_can_be_broken(model: Model) -> None:
    every = {*model.safety(), *model.liveness()}

    assert model.safety()
    assert model.liveness()
    assert {case.prop for case in model.cases(quick=True) if case.holds} <= every
    assert {case.prop for case in model.cases(quick=False) if case.holds} == every
    assert {fault.found_by for fault in model.faults} == every


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_define_of_a_model_is_used_and_documented(model: Model) -> None:
    text = model.text()
    head = text.partition("*/")[0]
    tested = set(re.findall(r"#ifn?def (\w+)|defined\((\w+)\)", text))
    numbers = set(re.findall(r"#ifndef (\w+)\n#define \1 \d", text))
    names = {name for pair in tested for name in pair if name} - numbers
    sizes = {each for size in model.sizes for each in size.defines if "=" not in each}

    assert names == sizes | {fault.name for fault in model.faults}
    assert all(re.search(rf"\b{name}\b", head) for name in names)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_function_that_a_model_mirrors_exists(model: Model) -> None:
    """A renamed function would make the model's header wrong."""
    head = model.text().partition("*/")[0]
    mirrored = list(mirrored_functions(head))

    assert len(mirrored) > 6
    for module, name in mirrored:
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        assert found is not None, f"{module}.{name}"


# The modules that the models mirror, by their package.
MIRRORED = {
    "queuebroker": "_sync",
    "queuebroker.waiting": "parking",
    "queuebroker.channel": "status|end|connection|queue_connection|circular_buffer",
    "queuebroker.meeting": "rendezvous|meet|broker",
    "bus.kernel.streams": "outgoing_stream|incoming_streams|incoming_stream",
    "bus.kernel.tasks": "process_manager",
    "bus.kernel.peer": "peer|session",
    "bus.kernel": "name_registry|relays|task_announcer|remote_manager",
    "bus.kernel.searches": "resolver|own_searches|requests",
    "bus.kernel.messages": "outbound_messages|inbound_messages",
    "bus.kernel.links": "link_table|link",
    "bus.features.machines": "machine_dialler",
    "bus.features.durable": "store|horizons",
}


def mirrored_functions(head: str) -> Iterator[tuple[str, str]]:
    """Return names of the form module.function or module.Class.method."""
    for package, modules in MIRRORED.items():
        for module, name in re.findall(rf"(?<!\w)({modules})\.([\w.]*\w)", head):
            yield f"{package}.{module}", name


def test_the_command_reports_a_missing_tool_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")

    assert command.main(["--quick"]) == 4
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        "specs.promela: spin and a C compiler are needed: apt-get install spin gcc\n"
    )


def test_wrong_arguments_are_a_wrong_use() -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["--nonsense"])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("verdict", "fault", "expected", "reported"),
    [
        (Verdict.HOLDS, None, True, "holds"),
        (Verdict.BROKEN, None, False, "BROKEN"),
        (Verdict.BROKEN, "GHOST", True, "found"),
        (Verdict.HOLDS, "GHOST", False, "NOT FOUND"),
    ],
)
def test_an_unexpected_verdict_fails_the_run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verdict: Verdict,
    fault: str | None,
    expected: bool,
    reported: str,
) -> None:
    """A model that fails and a fault that is not found are both reported; exit 1."""
    case = Case(own(), "only", (), "small", fault)

    class OneCase(OwnModel):
        def cases(self, *, quick: bool) -> Iterator[Case]:
            yield case

    class Saying:
        def __init__(self, folder: Path) -> None:
            assert folder.is_dir()

        def run(self, case: Case) -> Finding:
            return Finding(verdict, 7, 3, 0.1)

    monkeypatch.setattr(command, "MODELS", (OneCase("counting", (), ()),))
    monkeypatch.setattr(command, "Spin", Saying)

    assert command.main([]) == (0 if expected else 1)
    out = capsys.readouterr().out.splitlines()
    assert out[1].split()[0] == "counting"
    assert out[1].endswith(f"  {reported}")
    assert out[-1].startswith(f"1 runs, {0 if expected else 1} not as expected")


needs_spin = pytest.mark.skipif(not has_tools, reason="needs spin and a C compiler")


@pytest.mark.deep
@needs_spin
def test_spin_judges_a_small_model(tmp_path: Path) -> None:
    spin = Spin(tmp_path)
    model = own()

    def verdict(prop: str, *defines: str) -> Verdict:
        return spin.run(Case(model, "only", defines, prop)).verdict

    assert verdict("small") is Verdict.HOLDS
    assert verdict("smaller") is Verdict.BROKEN
    assert verdict("arrives") is Verdict.HOLDS
    assert verdict("arrives", "STUCK") is Verdict.BROKEN
    assert verdict("smaller", "STUCK") is Verdict.HOLDS


@needs_spin
def test_a_model_that_cannot_be_read_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(OwnModel, "text", lambda self: "nonsense {\n")
    monkeypatch.setattr(command, "MODELS", (own("small"),))

    assert command.main([]) == 4
    assert "specs.promela: cannot read counting.pml: " in capsys.readouterr().err


@needs_spin
@pytest.mark.deep
def test_a_model_holds_and_its_faults_are_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The quickest; ``python -m specs.promela --quick`` is a step of ``.ci/run``."""
    assert command.main(["--quick", "--model", "stream"]) == 0

    out = capsys.readouterr().out
    assert ", 0 not as expected, " in out
    assert "search" not in out
