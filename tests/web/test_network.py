"""``bus web`` with other machines: their processes, and the page served to them."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bus.features.machines.machine_keys import TRUSTED
from specs.clauses import clause
from tests.cli.test_network import site
from tests.kit.site import HERE, THERE, Site
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from tests.web.conftest import Served

    Serve = Callable[..., Served]

__all__ = ["site"]

pytest.importorskip("uvicorn", reason="needs uvicorn, of the extra")
pytestmark = pytest.mark.deep


@pytest.fixture
def file(site: Site, tmp_path: Path) -> Path:
    """Return the settings of the network of the first machine."""
    path = tmp_path / "network.toml"
    path.write_text(f"keys = {str(site.network(HERE).keys)!r}\n")
    return path


def test_the_processes_of_other_machines_are_shown(serve: Serve, file: Path) -> None:
    served = serve("--network", str(file))

    def tasks() -> set[str]:
        _, found = served.ask("/data/at")
        return {
            f"{change['key']}: {name}"
            for change in found["changes"]
            for name in change["tasks"]
        }

    until(lambda: f"{THERE}/far: echo" in tasks(), "the other machine is shown")


@clause("BUS-PAGE-1")
def test_the_page_is_served_to_other_machines_by_tls_alone(
    serve: Serve, site: Site, file: Path
) -> None:
    served = serve("--network", str(file), "--listen", "127.0.0.1")
    keys = site.network(HERE).keys
    assert keys is not None
    trusts = ssl.create_default_context(cafile=str(keys / TRUSTED))
    trusts.check_hostname = False

    def status(connection: HTTPConnection) -> int:
        try:
            headers = {"Authorization": f"Bearer {served.token}"}
            connection.request("GET", "/data/at", headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    assert served.address.startswith("https://127.0.0.1:")
    assert status(HTTPSConnection(served.host, context=trusts, timeout=LIMIT_S)) == 200
    with pytest.raises((OSError, HTTPException)):
        status(HTTPConnection(served.host, timeout=LIMIT_S))
