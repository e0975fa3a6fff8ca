"""``bus keys``: from no keys to two machines, a rotation, and mistakes."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from bus.cli import main
from bus.keys import certificates

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a new folder."""
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    """Run a verb of ``bus keys``."""
    return CliRunner().invoke(main, ["keys", *arguments])


def told(*arguments: str) -> list[str]:
    """Run a verb that ends well; return its lines."""
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_two_commands_make_the_keys_of_a_machine(tmp_path: Path) -> None:
    assert "bus keys issue MACHINE" in told("init")[-1]
    assert told("issue", "kitchen") == [
        "kitchen is certified for 365 days: copy kitchen.keys to that machine"
    ]

    assert sorted(path.name for path in (tmp_path / "kitchen.keys").iterdir()) == [
        "group.key",
        "machine.pem",
        "trusted.pem",
    ]


def test_show_lists_machines_with_state_and_end() -> None:
    told("init", "safe")
    told("issue", "kitchen", "--authority", "safe")
    told("issue", "cellar", "--authority", "safe", "--days", "20", "--out", "c")

    signing, head, cellar, kitchen = told("show", "safe")

    name = signing.removeprefix("signing: ")
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
    told("init")
    skew = dt.timedelta(days=skew_days)
    monkeypatch.setattr(certificates, "_now", lambda: dt.datetime.now(tz=dt.UTC) + skew)
    told("issue", "kitchen", "--days", "1")

    trusted, _, row = told("show", "kitchen.keys")

    assert trusted.startswith("trusted: bus authority ")
    assert f" {state} " in row


def test_a_rotation_is_two_commands_and_an_issue_for_each_machine() -> None:
    told("init")
    told("issue", "kitchen")
    told("rotate")

    refused = run("retire")
    assert refused.exit_code == 2
    assert "kitchen would be locked out" in refused.stderr
    told("issue", "kitchen")
    line, following = told("retire")
    assert line.startswith("only bus authority ")
    assert following.startswith("next: bus keys issue MACHINE, and copy the folder")


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
    told("init", "safe")

    result = run(*arguments)

    assert result.exit_code == code
    assert words in result.stderr.splitlines()[-1]
