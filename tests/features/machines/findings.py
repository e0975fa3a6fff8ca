"""The findings of ``bus doctor --network`` for the first of two machines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from bus.features.machines.doctor_verb import _ADVICE
from tests.cli.verbs import verb
from tests.kit.site import HERE, Site

if TYPE_CHECKING:
    from pathlib import Path

    from bus.features.machines.probe import Fault

__all__ = [
    "Finding",
    "diagnosis",
    "failure",
    "file_of",
    "findings",
    "is_fault",
    "states",
]

Finding: TypeAlias = dict[str, str]


def file_of(site: Site, **given: Any) -> Path:
    """Write the network file of the first machine; return its path."""
    whole = {
        "listen": f"127.0.0.1:{site.ports[HERE]}",
        "keys": str(site.network(HERE).keys),
    } | given
    path = site.folder / "network.toml"
    # JSON has the same texts, numbers and lists as TOML.
    lines = [
        f"{name} = {json.dumps(value)}\n"
        for name, value in whole.items()
        if value is not None
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def findings(site: Site, *words: str, **given: Any) -> list[Finding]:
    """Return the findings for a network of the first machine."""
    arguments = ("--network", str(file_of(site, **given)), "--json", *words)
    result = verb("doctor", *arguments)
    assert result.stderr == ""
    found: list[Finding] = json.loads(result.stdout)
    failed = any(each["state"] == "fail" for each in found)
    assert result.exit_code == int(failed)
    return found


def failure(found: list[Finding]) -> Finding:
    """Return the one finding that is a failure."""
    [failed] = [each for each in found if each["state"] == "fail"]
    return failed


def states(found: list[Finding], address: str) -> dict[str, str]:
    """Return the state of each step to an address."""
    place = f" {address}"
    return {
        each["what"].removesuffix(place): each["state"]
        for each in found
        if each["what"].endswith(place) and not each["what"].startswith("listen")
    }


def diagnosis(site: Site, port: int, **given: Any) -> tuple[str, Finding]:
    """Return the step at which a peer fails, and its finding."""
    address = f"127.0.0.1:{port}"
    found = findings(site, peers=[address], **given)
    failed = failure(found)
    step = failed["what"].removesuffix(f" {address}")
    tried = {"tcp": ["tcp"], "tls": ["tcp", "tls"], "bus": ["tcp", "tls", "bus"]}
    expected = dict.fromkeys(tried[step], "ok") | {step: "fail"}
    assert states(found, address) == expected
    return step, failed


def is_fault(failed: Finding, fault: Fault) -> bool:
    """Return True if the remedy is that of a fault."""
    return failed["do"] == _ADVICE[fault]
