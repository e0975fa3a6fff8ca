"""`open_bus`: join a bus, once in a process, which leaves all of them at its end."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from bus.address import check_bus_name
from bus.api.arguments import check_instance
from bus.api.bus import Bus
from bus.at_exit import call_at_exit
from bus.config import BusConfig
from bus.errors import BusyError
from bus.links.socket_network import SocketNetwork
from bus.role import Role

if TYPE_CHECKING:
    from bus.journal.writer import Journal

__all__ = ["open_bus"]

# The buses that this process has joined, by name: what an address on another one means.
_joined: Final[dict[str, Bus]] = {}


def open_bus(
    name: str = "bus1",
    *,
    role: Role = Role.AUTO,
    process: str | None = None,
    machine: str | None = None,
    config: BusConfig | None = None,
    journal: Journal | None = None,
) -> Bus:
    """Join a bus, which is there as soon as somebody joins it.

    role: whether this process may route for its machine (BUS-INIT-1). By default the
      first does, and when it has gone, another one.
    process, machine: the names of this process and its machine. By default the process
      gets a name that no other has, and the machine the name of its host. Processes
      with the same machine name are on one machine.
    journal: where it is recorded what becomes of each message in this process; open
      until the bus is closed. Recording costs some microseconds a message, and commands
      to other processes travel one by one.

    Returns when this process is among the others, or alone; a `Role.SLAVE` without a
    master goes on looking for it.

    Raises:
        ValueError: a name is not legal (BUS-NAME-6), the path of the run directory is
          too long or no UTF-8 (BUS-ENT-16), or the journal is closed.
        BusyError: this process has joined that bus already; another one has its name;
          or it is to be master, and there is one.
        AccessDeniedError: it may not join (BUS-INIT-5).
        VersionMismatchError: the master speaks no version of the protocol that this
          process does.
        MachineNameConflictError: another machine has that name (BUS-DISC-8).
        OSError: the run directory cannot be made, or no descriptor is left.
    """
    check_bus_name(name)
    check_instance("role", role, Role)
    if config is not None:
        check_instance("config", config, BusConfig)
    if _joined.get(name) is not None:
        raise _joined_already(name)
    network = SocketNetwork(name, role, BusConfig() if config is None else config)
    bus = Bus(
        name,
        process=process,
        machine=machine,
        config=config,
        network=network,
        journal=journal,
    )
    bus._others = _joined
    if _joined.setdefault(name, bus) is not bus:
        raise _joined_already(name)
    # Registered after the journal's function, and so called before it (OPEN-21).
    call_at_exit(bus.close)
    try:
        bus._join()
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


# A child after a fork has joined none (BUS-INIT-16).
os.register_at_fork(after_in_child=_joined.clear)
