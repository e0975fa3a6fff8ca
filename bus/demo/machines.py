"""`Machines`: two machines on this host, with keys of their own and a cable between.

A machine is a name, a run directory and a network, so any user can have two on one
host. Everything here is made for one run, in a temporary folder that is removed with
its keys at the end.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from bus.demo.cable import LOOPBACK, Cable
from bus.demo.worker_group import FAR, NEAR
from bus.errors import DemoError
from bus.features.machines.machine_keys import MachineKeys
from bus.features.machines.network import Network
from bus.requirements import install
from queuebroker import _net

if TYPE_CHECKING:
    from typing import Self

    from bus.model.config import BusConfig
    from queuebroker.sockets import Tls

__all__ = ["Machines", "impatient", "tls_of"]

# Seconds without a frame until a link is probed, and until it is lost. The defaults are
# longer than most people watch a demo.
_KEEP_ALIVE_S: Final = 0.75
_LEASE_S: Final = 3.0


def impatient(config: BusConfig) -> BusConfig:
    """Return a configuration by which a silent link is lost within a few seconds."""
    return attrs.evolve(config, keep_alive_s=_KEEP_ALIVE_S, lease_s=_LEASE_S)


def tls_of(network: Network) -> Tls:
    """Return the keys of a machine, for the queues that carry content."""
    assert network.keys is not None
    return MachineKeys(network.keys).tls


class Machines:
    """A context manager: both machines can be opened within the block.

    cable: all connections between the two machines are made through it.

    Raises:
        DemoError: a package of the extra ``net`` is missing, the temporary folder
            cannot be used, or no port is left.
    """

    cable: Cable

    def __init__(self) -> None:
        self._opened: Final = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._begin()
        except ModuleNotFoundError as error:
            name = (error.name or "").partition(".")[0]
            raise DemoError(
                f"cannot use two machines: {name} is not installed;"
                f" run {install('net')}"
            ) from None
        except OSError as error:
            raise DemoError(f"cannot use two machines: {error}") from None
        return self

    def _begin(self) -> None:
        # Loaded where used: all else of the demo runs without the extra `net`.
        import ifaddr  # noqa: F401, PLC0415 # for discovery, in each process

        from bus.features.machines.authority import Authority  # noqa: PLC0415

        with ExitStack() as stack:
            folder = tempfile.TemporaryDirectory(prefix="bus-demo-")
            self._folder = Path(stack.enter_context(folder))
            self.cable = stack.enter_context(Cable())
            authority = Authority.create(self._folder / "authority")
            discovery_port = _net.unused_port(LOOPBACK, datagrams=True)
            for machine in (NEAR, FAR):
                authority.issue(machine, self._folder / f"{machine}.keys")
                listens = _net.unused_port(LOOPBACK)
                self.network_file(machine).write_text(
                    f'listen = "{LOOPBACK}:{listens}"\n'
                    f'advertise = "{LOOPBACK}:{self.cable.lead_to(listens)}"\n'
                    'discovery = "host"\n'
                    f"discovery_port = {discovery_port}\n"
                    f'keys = "{machine}.keys"\n'
                    # Else the processes that are no masters would link directly, at
                    # ports that no cable can lead to.
                    "gateway = true\n",
                    encoding="utf-8",
                )
            self._opened.push(stack.pop_all())

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def network_file(self, machine: str) -> Path:
        """Return the file with the network of a machine."""
        return self._folder / f"{machine}.toml"

    def network(self, machine: str) -> Network:
        """Return the network of a machine."""
        return Network.read(self.network_file(machine))

    def environment(self, machine: str) -> dict[str, str]:
        """Return the variables by which a process is on a machine."""
        if machine == NEAR:
            return {}  # it is where the other commands look for the bus
        return {"BUS_RUN_DIR": os.fspath(self._folder)}
