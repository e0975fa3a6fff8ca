"""Verbs on a bus of two machines."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.cli.verbs import verb
from tests.kit.site import HERE, THERE, Site
from tests.links.real import Far

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path, own_run_directory: Path) -> Iterator[Site]:
    """Yield two machines; a task ``echo`` on the other one answers what it gets."""
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
