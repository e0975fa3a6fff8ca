"""`open_bus`: join a bus, once per process, and leave it when the process ends."""

from __future__ import annotations

import errno
from typing import Final

from bus.api.arguments import check_instance, config_or_default
from bus.api.bus import Bus
from bus.errors import BusyError
from bus.features import other_machines
from bus.features.durable.api import Durability
from bus.features.machines.network import Network
from bus.kernel.trace import Journal
from bus.model.address import check_bus_name
from bus.model.config import BusConfig, settings_table, suggests_names
from bus.model.registration import Role
from bus.process.at_exit import call_at_exit
from bus.process.socket_network import SocketNetwork
from queuebroker import _platform

__all__ = ["open_bus"]

# The buses that this process has joined, by name; addresses on other buses use it.
_joined: Final[dict[str, Bus]] = {}


@suggests_names(
    "open_bus",
    {each.name: f"config=BusConfig({each.name}=...)" for each in settings_table()},
)
def open_bus(
    name: str = "bus1",
    *,
    role: Role = Role.AUTO,
    process: str | None = None,
    machine: str | None = None,
    config: BusConfig | None = None,
    network: Network | None = None,
    journal: Journal | None = None,
    durability: Durability | None = None,
) -> Bus:
    """Join a bus; the first process to join creates it.

    name: the name of the bus.
    role: determines whether this process may be master, which routes for its machine
      (BUS-INIT-1). By default the first process is master; if it leaves, another one
      takes over.
    process, machine: the names of this process and its machine. By default the process
      gets a unique name, and the machine the name of its host. Processes with the same
      machine name are on one machine.
    config: the settings of the bus in this process; by default those of `BusConfig`.
    network: how the processes of this machine reach other machines; every process of
      the machine gets the same. By default no other machine is reached, and no network
      socket is opened (BUS-DISC-1).
    journal: records each message in this process and its outcome; it must stay open
      until the bus is closed. Recording costs some microseconds per message, and
      commands to other processes are then sent one by one.

    durability: the storage of a process that gets no message twice, even if it is
      started again after a power cut (AMO-20). Such a process needs a name, `process`,
      which is the same each time. By default a restarted process relies on its senders,
      which never repeat a message to it (AMO-19).

    Returns when this process has connected to the others, or is alone. A `Role.SLAVE`
    without a master continues to search for one.

    Raises:
        ValueError: a name is not legal (BUS-NAME-6), the path of the run directory is
          too long or not UTF-8 (BUS-ENT-16), the journal is closed, a durable process
          has no name of its own, or a file of the keys is damaged.
        BusyError: this process has already joined that bus, another process has its
          name, it must be master and another process is master, or another process
          holds the directory of ``durability``.
        HorizonError: that directory is broken, or belongs to another process.
        AccessDeniedError: this process may not join (BUS-INIT-5).
        VersionMismatchError: the master supports no protocol version that this process
          supports.
        MachineNameConflictError: another machine has that name (BUS-DISC-8).
        OSError: the run directory cannot be created, the keys cannot be read, the
          address for other machines is taken, or no descriptor is left.
    """
    check_bus_name(name)
    check_instance("role", role, Role)
    config = config_or_default(config)
    if network is not None:
        check_instance("network", network, Network)
    if durability is not None:
        check_instance("durability", durability, Durability)
        if process is None:
            # A default name is another one each time, so that no horizon would fit.
            raise ValueError(
                "durability needs the name of this process, which is the same after a "
                "restart: give process='...'"
            )
    if _joined.get(name) is not None:
        raise _joined_already(name)
    outside = None
    if network is not None and network.has_links:
        outside = other_machines(name, config, network)
    links = SocketNetwork(name, role, config, outside)
    bus = Bus(
        name,
        process=process,
        machine=machine,
        config=config,
        network=links,
        journal=journal,
        durability=durability,
    )
    bus._others = _joined
    if _joined.setdefault(name, bus) is not bus:
        bus.close()
        raise _joined_already(name)
    # Registered after the journal's function, and so called before it (OPEN-21).
    call_at_exit(bus.close)
    try:
        bus._node.join()
    except OSError as error:
        bus.close()
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise OSError(
            error.errno,
            f"cannot open bus {name!r}: {error.strerror}; let this process open more"
            " files (ulimit -n), or close some",
        ) from error
    except BaseException:
        bus.close()
        raise
    return bus


def _joined_already(name: str) -> BusyError:
    return BusyError(
        f"bus {name!r}, which this process has joined; use the Bus that open_bus has "
        f"returned, or close it first"
    )


# A forked child has joined no bus (BUS-INIT-16).
_platform.after_fork_in_child(_joined.clear)
