"""Two machines on one host, with keys, TLS and a run directory each."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bus import Network, Role, open_bus
from bus.features.machines.authority import Authority
from queuebroker._net import unused_port
from tests.kit.systems import require_unix_sockets
from tests.process.real import MACHINE, Far

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bus import Bus

__all__ = ["HERE", "THERE", "Site"]

HERE, THERE = MACHINE, "there"


class Site:
    """Two machines with keys, and the addresses of their masters."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority.create(folder / "authority")
        self.folder = folder
        self._processes_there = 0
        self.ports = {HERE: unused_port(), THERE: unused_port()}
        self._keys = {name: self.issue(name) for name in (HERE, THERE)}

    def issue(self, machine: str, *, authority: Authority | None = None) -> Path:
        """Make the keys of a machine."""
        signs = self.authority if authority is None else authority
        return signs.issue(machine, self.folder / f"{signs.name} {machine}", days=1)

    def network(self, machine: str, **options: Any) -> Network:
        """Return the network of a machine; the second dials the first."""
        given: dict[str, Any] = {
            "listen": f"127.0.0.1:{self.ports[machine]}",
            "peers": [f"127.0.0.1:{self.ports[HERE]}"] if machine == THERE else [],
            "keys": self._keys[machine],
        }
        return Network(**(given | options))

    @contextmanager
    def here(self, process: str = "near", **options: Any) -> Iterator[Bus]:
        """Open the bus in this process, on the first machine."""
        given: dict[str, Any] = {
            "role": Role.MASTER,
            "machine": HERE,
            "network": self.network(HERE),
        }
        if options.get("role") is Role.SLAVE:
            require_unix_sockets()
        with open_bus(process=process, **(given | options)) as bus:
            yield bus

    @contextmanager
    def there(self, name: str, **options: Any) -> Iterator[Far]:
        """Start a process on the second machine."""
        given: dict[str, Any] = {"machine": THERE, "network": self.network(THERE)}
        if self._processes_there:
            require_unix_sockets()
        with Far(name, **(given | options)) as far:
            far.started()
            self._processes_there += 1
            yield far
        self._processes_there -= 1
