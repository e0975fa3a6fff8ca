"""Names of any machine in the shell: `doctor`, `route`, `call`."""

from __future__ import annotations

import json
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from bus.errors import BusError, CommandTimeoutError
from bus.features.machines.doctor_verb import shared_names
from specs.clauses import clause
from tests.cli.verbs import verb
from tests.kit.site import HERE, THERE, Site
from tests.kit.systems import require_unix_sockets
from tests.process.real import Far
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path, own_run_directory: Path) -> Iterator[Site]:
    """Yield two machines with keys of one authority."""
    require_unix_sockets()  # for the verbs
    yield Site(tmp_path)
    shutil.rmtree(f"{own_run_directory}-{THERE}", ignore_errors=True)


@clause("BUS-DISC-14", "BUS-NAME-8")
@pytest.mark.parametrize(
    ("users", "shared"),
    [
        ({"m1": ["log"], "m2": []}, []),
        ({"m1": ["log", "a"], "m2": ["b"]}, []),
        ({"m1": ["log", "a"], "m2": ["b", "log"]}, [("name log", "m1, m2")]),
        (
            {"m10": ["log", "a"], "m9": ["log"], "m2": ["a", "log"]},
            [("name a", "m10, m2"), ("name log", "m10, m2, m9")],
        ),
    ],
)
def test_each_name_on_several_machines_gets_a_warning(
    users: dict[str, list[str]], shared: list[tuple[str, str]]
) -> None:
    """With the machines in the order in which they precede each other."""
    findings = shared_names(users, {})

    assert [
        (each.what, each.fact.partition(" have it")[0].removeprefix("machines "))
        for each in findings
        if each.state == "warn"
    ] == shared
    if not shared:
        assert [each.state for each in findings] == ["ok"]
    for each in findings:
        assert (each.state == "ok") or each.fact.endswith(
            f"else of {each.fact.split()[1].rstrip(',')}"
        )


def test_one_machine_has_nothing_to_compare() -> None:
    assert shared_names({"m1": ["log"]}, {}) == []


@clause("BUS-DISC-14")
@pytest.mark.parametrize("names", [[], ["log"]], ids=["none shared", "one shared"])
def test_the_names_of_a_machine_that_does_not_answer_are_not_ok(
    names: list[str],
) -> None:
    """Though those of two other machines were compared."""
    missing: dict[str, BusError] = {"m3/p": CommandTimeoutError("m3/p", 1.0)}

    findings = shared_names({"m1": ["log"], "m2": names}, missing)

    assert [(each.what, each.state) for each in findings] == [
        *((f"name {name}", "warn") for name in names),
        ("names", "warn"),
    ]
    fact = "not compared with m3: cannot query m3/p: no answer from 'm3/p'"
    assert findings[-1].fact.startswith(fact)
    assert "run this command again" in findings[-1].do


def test_many_shared_names_are_counted() -> None:
    names = [f"t{number:03}" for number in range(50)]

    findings = shared_names({"m1": names, "m2": names}, {})

    assert len(findings) == 21
    assert findings[-1].fact == "30 further names are on several machines"


@clause("BUS-DISC-14", "BUS-NAME-8")
def test_the_doctor_of_a_bus_that_runs_warns_of_shared_names(site: Site) -> None:
    """Also if slaves have the tasks; the bus's own names are not compared."""
    with (
        Far("m1", role="master", machine=HERE, network=site.network(HERE)) as m1,
        site.there("m2", role="master") as m2,
        site.there("far") as far,
    ):
        m1.started()
        m1("counter('log')")
        far("counter('log')")
        m2("counter('other')")
        assert m1("bus.call('ism://*/other', 1, timeout=20)") == 1
        path = site.folder / "network.toml"
        path.write_text(
            f'listen = "127.0.0.1:{site.ports[HERE]}"\n'
            f'peers = ["127.0.0.1:{site.ports[THERE]}"]\n'
            f'keys = "{site.network(HERE).keys}"\n'
        )

        result = verb("doctor", "--network", str(path), "--json")

        found = {each["what"]: each for each in json.loads(result.stdout)}
        assert result.exit_code == 0, result.stdout
        assert [each for each in found if each.startswith("name")] == ["name log"]
        warning = found["name log"]
        assert warning["state"] == "warn"
        assert f"machines {', '.join(sorted((HERE, THERE)))} have it" in warning["fact"]


@pytest.mark.deep
@clause("BUS-DISC-14", "BUS-NAME-8")
def test_the_doctor_reports_names_that_it_could_not_compare(site: Site) -> None:
    """A slave that hangs is not queried: its master has the names of its machine."""
    path = site.folder / "network.toml"
    path.write_text(f'keys = "{site.network(HERE).keys}"\n')

    def names() -> list[dict[str, str]]:
        doctor = ("doctor", "--network", str(path), "--timeout", "1", "--json")
        found = json.loads(verb(*doctor).stdout)
        return [each for each in found if each["what"] == "names"]

    with (
        Far("m1", role="master", machine=HERE, network=site.network(HERE)) as m1,
        site.there("m2", role="master") as m2,
        site.there("far") as far,
    ):
        m1.started()
        linked = "[each.state.value for each in bus.inspect().machines]"
        until(lambda: m1(linked) == ["linked"], "the machines are linked")
        far.signal(signal.SIGSTOP)
        compared = names()
        far.signal(signal.SIGCONT)
        m2.signal(signal.SIGSTOP)
        [missing] = names()
        m2.signal(signal.SIGCONT)

    assert [each["state"] for each in compared] == ["ok"]
    assert missing["state"] == "warn"
    words = f"not compared with {THERE}: cannot query {THERE}/m2: no answer from "
    assert missing["fact"].startswith(words)
    assert "stopped or overloaded" in missing["do"]


@clause("BUS-NAME-8")
def test_route_and_call_take_a_name_of_any_machine(site: Site) -> None:
    with (
        Far("m1", role="master", machine=HERE, network=site.network(HERE)) as m1,
        site.there("far", role="master") as far,
    ):
        m1.started()
        far("counter('log')")
        path = site.folder / "network.toml"
        path.write_text(
            f'listen = "127.0.0.1:{site.ports[HERE]}"\n'
            f'keys = "{site.network(HERE).keys}"\n'
        )
        network = ("--network", str(path))

        route = verb("route", "ism://*/log", *network)
        assert route.stdout.startswith(f"ism://{THERE}/log: process {THERE}/far\n")
        assert verb("call", "ism://*/log", "7", *network).stdout == "7\n"
        missing = verb("route", "ism://*/nobody", "--timeout", "0.2", *network)
        assert missing.exit_code == 1
        assert "no machine has the public name 'nobody'" in missing.stderr
