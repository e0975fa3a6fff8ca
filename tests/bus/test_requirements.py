"""Versions of the required packages: read from the metadata, and reported."""

from __future__ import annotations

import importlib
import importlib.metadata
import tomllib
from pathlib import Path

import pytest

import bus
from bus.pipeline.session import missing
from bus.requirements import explain, requirements, unfit
from tests.cli.verbs import read, verb


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return versions by name, which replace the installed ones."""
    others: dict[str, str] = {}
    version = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: others.get(name) or version(name)
    )
    return others


def test_the_versions_match_pyproject() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["pipeline"], *extras["net"]]

    reported = requirements("pipeline", "net")

    assert [each.name + each.needed for each in reported] == lines
    assert unfit("pipeline", "net") == []


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "version", "fits"),
    [
        ("pyspark", "3.5.9", False),
        ("pyspark", "4.2.0", True),
        ("pyspark", "4.2", True),
        ("pyspark", "5.0.0.dev1", False),
        ("pandas", "2.2.0", True),
        ("pandas", "3.0.0rc1", False),
        ("pandas", "2.1.4", False),
        ("msgspec", "0.17.0", False),
        ("msgspec", "0.18.6", True),
        ("msgspec", "0.100", True),
        ("rich", "13.0.0", True),
        ("rich", "git-4f2a", True),  # a version without an order
    ],
)
def test_a_version_fits_or_does_not(
    installed: dict[str, str], name: str, version: str, *, fits: bool
) -> None:
    installed[name] = version

    (one,) = (each for each in requirements("pipeline") if each.name == name)

    assert one.fits is fits
    assert unfit("pipeline") == ([] if fits else [one])


def test_without_metadata_every_version_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", unknown)

    assert requirements("pipeline") == []


def test_an_import_that_an_old_package_breaks_names_it(
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug report: with msgspec 0.17 a traceback came from the codec."""
    installed["msgspec"] = "0.17.0"
    said = (
        'msgspec 0.17.0 found, >=0.18 needed: pip install "msgspec>=0.18"'  # one line
    )

    def broken(_: str) -> None:
        raise TypeError("'order' is an invalid keyword argument for this function")

    monkeypatch.setattr(importlib, "import_module", broken)
    monkeypatch.delitem(vars(bus), "open_bus", raising=False)

    with pytest.raises(ImportError) as caught:
        bus.__getattr__("open_bus")
    assert str(caught.value) == said
    result = verb("doctor")
    assert (result.exit_code, result.stderr) == (4, f"bus: cannot run doctor: {said}\n")


def test_an_import_that_fails_for_another_reason_says_so() -> None:
    explain(TypeError("ours"))  # all versions are sufficient


@pytest.mark.parametrize(
    ("name", "version"), [("pyspark", "3.5.1"), ("pandas", "3.0.0")]
)
def test_the_doctor_shows_the_version_found_and_needed(
    installed: dict[str, str], name: str, version: str
) -> None:
    """Bug report: `bus doctor` printed ok for pyspark 3.5 and pandas 3."""
    installed[name] = version
    (needed,) = (each.needed for each in unfit("pipeline"))

    found = {each["what"]: each for each in read("doctor")}

    reported = found[f"package {name}"]
    assert reported["state"] == "warn"
    assert reported["fact"] == f"{version} found, {needed} needed"
    assert reported["do"] == 'pip install ".[pipeline]" in a clone of queuebroker'
    assert found["Java and Spark"]["state"] == "warn"
    line = f"{name} {version} found, {needed} needed: pip install "
    assert (missing() or "").startswith(line)


def test_an_old_package_that_every_bus_needs_is_a_failure(
    installed: dict[str, str],
) -> None:
    installed["rich"] = "12.6.0"

    result = verb("doctor")

    assert result.exit_code == 1
    assert 'pip install "rich>=13"' in result.stdout
