"""``bus keys``: from no keys to two machines, a rotation, and mistakes."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from bus.cli import main
from bus.features.machines import certificates
from specs.clauses import clause

if TYPE_CHECKING:
    from click.testing import Result


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a new folder."""
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    """Run a verb of ``bus keys``."""
    return CliRunner().invoke(main, ["keys", *arguments])


def output_of(*arguments: str) -> list[str]:
    """Run a verb that ends well; return its lines."""
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_two_commands_make_the_keys_of_a_machine(tmp_path: Path) -> None:
    assert "bus keys issue MACHINE" in output_of("init")[-1]
    assert output_of("issue", "kitchen") == [
        "kitchen is certified for 365 days: copy kitchen.keys to that machine"
    ]

    assert sorted(path.name for path in (tmp_path / "kitchen.keys").iterdir()) == [
        "group.key",
        "machine.pem",
        "trusted.pem",
    ]


def test_show_lists_machines_with_state_and_end() -> None:
    output_of("init", "safe")
    output_of("issue", "kitchen", "--authority", "safe")
    output_of("issue", "cellar", "--authority", "safe", "--days", "20", "--out", "c")

    signing, group_key, head, cellar, kitchen = output_of("show", "safe")

    name = signing.removeprefix("signing: ")
    assert re.fullmatch("group key: [0-9a-f]{8}", group_key)
    assert group_key in output_of("show", "c")
    assert head.split() == ["machine", "state", "until", "authority"]
    ends = [dt.datetime.now(tz=dt.UTC) + dt.timedelta(days=days) for days in (20, 365)]
    first, second = (f"{end:%Y-%m-%d}" for end in ends)
    assert " ".join(cellar.split()) == f"cellar ends soon {first} {name}"
    assert " ".join(kitchen.split()) == f"kitchen valid {second} {name}"


@pytest.mark.parametrize(
    ("skew_days", "state"), [(40, "not yet valid"), (-40, "expired")]
)
def test_show_of_a_machine_says_whether_it_is_certified_now(
    monkeypatch: pytest.MonkeyPatch, skew_days: int, state: str
) -> None:
    output_of("init")
    skew = dt.timedelta(days=skew_days)
    monkeypatch.setattr(certificates, "_now", lambda: dt.datetime.now(tz=dt.UTC) + skew)
    output_of("issue", "kitchen", "--days", "1")

    trusted, _, _, row = output_of("show", "kitchen.keys")

    assert trusted.startswith("trusted: bus authority ")
    assert f" {state} " in row


def test_a_rotation_is_two_commands_and_an_issue_for_each_machine() -> None:
    output_of("init")
    output_of("issue", "kitchen")
    output_of("rotate")

    refused = run("retire")
    assert refused.exit_code == 2
    assert "kitchen would be locked out" in refused.stderr
    output_of("issue", "kitchen")
    line, following = output_of("retire")
    assert line.startswith("only bus authority ")
    assert following.startswith("next: bus keys issue MACHINE, and copy the folder")


def rotation(lines: list[str]) -> list[str]:
    """Return the lines of ``show`` about a rotation, each name in place of its text."""
    before = [each for each in lines if each.startswith(("trusted:", "group key:"))]
    last = [each for each in lines if each.startswith("next:")]
    return [*before, *last]


@clause("BUS-SEC-6")
def test_show_of_an_authority_shows_how_far_a_rotation_is() -> None:
    """Which authorities and group keys are valid, and the next step."""
    output_of("init")
    output_of("issue", "kitchen")
    output_of("issue", "cellar")
    before = output_of("show")
    earlier = before[0].removeprefix("signing: ")
    group_key = before[1]
    assert rotation(before) == [group_key]
    output_of("rotate")

    begun = output_of("show")

    new = begun[0].removeprefix("signing: ")
    assert new != earlier
    new_group_key = begun[3].removesuffix(" (new)")
    assert new_group_key != group_key
    valid = [
        f"trusted: {new} (new)",
        f"trusted: {earlier} (earlier)",
        f"{new_group_key} (new)",
        f"{group_key} (earlier)",
    ]
    issue = "next: bus keys issue MACHINE, and copy the folder, for "
    assert rotation(begun) == [*valid, f"{issue}cellar, kitchen"]
    output_of("issue", "kitchen")
    assert rotation(output_of("show")) == [*valid, f"{issue}cellar"]
    assert f"{new_group_key} (new)" in output_of("show", "kitchen.keys")
    assert group_key in output_of("show", "cellar.keys")
    output_of("issue", "cellar")
    retire = "next: bus keys retire, when each machine has the folder that was issued"
    assert rotation(output_of("show")) == [*valid, f"{retire} last"]
    output_of("retire")
    assert rotation(output_of("show")) == [new_group_key]


@clause("BUS-SEC-6")
def test_a_machine_whose_certificate_has_expired_delays_no_rotation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `retire` has it."""
    output_of("init")
    past = dt.datetime.now(tz=dt.UTC) - dt.timedelta(days=40)
    with monkeypatch.context() as patched:
        patched.setattr(certificates, "_now", lambda: past)
        output_of("issue", "attic", "--days", "1")
    output_of("rotate")

    assert output_of("show")[-1].startswith("next: bus keys retire, ")
    output_of("retire")


@clause("BUS-SEC-6")
@pytest.mark.parametrize(
    ("files", "words"),
    [
        (("authority.pem", "cross.pem", "group.key"), "next: bus keys rotate, again"),
        (("group.key",), "next: the last command again, bus keys rotate or retire"),
    ],
)
def test_show_tells_that_a_rotation_was_cut_short(
    files: tuple[str, ...], words: str
) -> None:
    """As after a full disk: some files are those from before the command."""
    output_of("init")
    output_of("issue", "kitchen")
    shutil.copytree("bus-keys", "before")
    output_of("rotate")
    for name in files:
        shutil.copy(Path("before", name), Path("bus-keys", name))

    assert output_of("show")[-1].startswith(words)

    output_of("rotate")
    assert output_of("show")[-1].endswith("for kitchen")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("issue", "kitchen"), 4, "'bus keys init' makes one"),
        (("show",), 4, "'bus keys issue MACHINE' makes such a folder"),
        (("issue", "a b", "--authority", "safe"), 2, "machine name must match"),
        (("issue", "k", "--authority", "safe", "--days", "0"), 2, "days must be"),
        (("init", "safe"), 4, "safe is not empty"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], code: int, words: str
) -> None:
    output_of("init", "safe")

    result = run(*arguments)

    assert result.exit_code == code
    assert words in result.stderr.splitlines()[-1]
