"""Verbs on a bus of two machines."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.cli.verbs import verb
from tests.kit.site import HERE, THERE, Site
from tests.kit.systems import require_unix_sockets
from tests.process.real import Far

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path, own_run_directory: Path) -> Iterator[Site]:
    """Yield two machines; a task ``echo`` on the other one answers what it gets."""
    require_unix_sockets()  # for the verbs
    made = Site(tmp_path)
    near = Far("near", role="master", network=made.network(HERE))
    with near, made.there("far") as far:
        near.started()
        far("counter('echo')")
        yield made
    shutil.rmtree(f"{own_run_directory}-{THERE}", ignore_errors=True)


def test_a_verb_with_a_network_reaches_a_task_of_another_machine(
    site: Site, tmp_path: Path
) -> None:
    file = tmp_path / "network.toml"
    file.write_text(f"keys = {str(site.network(HERE).keys)!r}\n")

    result = verb("call", f"ism://{THERE}/echo", "[1, 2]", "--network", str(file))

    assert (result.exit_code, result.stdout) == (0, "[1, 2]\n"), result.stderr


def test_a_network_that_cannot_be_read_is_wrong_usage(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text("port = 1\n")

    none = tmp_path / "none.toml"
    for path, words in ((file, "no setting is named"), (none, "No such file")):
        result = verb("list", "--network", str(path))
        assert result.exit_code == 2
        assert words in result.stderr


def test_a_route_to_another_machine_says_which_way_and_why(site: Site) -> None:
    """Also what a name lacks that has no route."""
    name = f"ism://{THERE}/echo"
    assert verb("wait-for", name).exit_code == 0

    lines = verb("route", name).stdout.splitlines()

    assert lines[0] == f"{name}: process {THERE}/far"
    assert lines[1:] == [
        f"  from near: by search: it asks {THERE}/far; then over its signalling link"
        f" with {THERE}/far"
    ]
    for given, words in (
        (f"ism://{THERE}/none", f"no task of machine '{THERE}' has the public name"),
        ("ism://attic/echo", "the master of this machine has no link with 'attic'"),
    ):
        result = verb("route", given, "--timeout", "0.3")
        assert result.exit_code == 1
        assert words in result.stderr


@pytest.mark.deep
@pytest.mark.parametrize("gateway", [False, True])
def test_a_route_says_whether_it_is_direct(
    site: Site, gateway: bool, tmp_path: Path
) -> None:
    """Without a network, the verb cannot tell before there is a link."""
    file = tmp_path / "network.toml"
    file.write_text(f"keys = {str(site.network(HERE).keys)!r}\n")
    network = site.network(THERE, gateway=gateway)
    with (
        site.there("second", network=network) as second,
        Far("slave", network=site.network(HERE)) as slave,
    ):
        slave.started()
        second("counter('far')")
        name = f"ism://{THERE}/far"
        way = (
            f"through the masters: the network of {THERE} has a gateway"
            if gateway
            else "directly"
        )
        assert verb("wait-for", name).exit_code == 0
        route = ("route", name, "--from", "slave")
        unknown = verb(*route).stdout.splitlines()
        before = verb(*route, "--network", str(file)).stdout.splitlines()
        slave(f"bus.call('{name}', 1, timeout=20)")
        after = verb(*route, "--network", str(file)).stdout.splitlines()

    assert unknown[1].endswith(f"over a new data link with {THERE}/second")
    assert before[1:] == [
        f"  from slave: by search: it asks its master near, which asks {THERE}/far,"
        f" which asks second; then over a new data link with {THERE}/second, {way}"
    ]
    assert after[1:] == [
        f"  from slave: by its relay, over its data link with {THERE}/second, {way}"
    ]
