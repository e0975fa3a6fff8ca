"""``bus doctor``: checks of the machine for the requirements and options of a bus.

Each check reports a state, a fact and a remedy. No bus needs to run.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Final

import click

from bus.cli.finding import FAIL, OK, WARN, Finding, end_with
from bus.cli.live import live_options
from bus.cli.run_directory import access_to, remedy, run_directory, served_buses
from bus.errors import BusError
from bus.features.machines.doctor_verb import diagnose
from bus.model.address import fresh_name
from bus.requirements import requirements
from bus.support import CAPABILITIES, here
from queuebroker import _files, _net
from queuebroker._files import resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.cli.target import Target

__all__ = ["doctor"]

_EXTRAS: Final = ("pipeline", "net", "mcap", "web", "metrics", "otel")

# A process has one descriptor for each process that it is linked with, and a few more.
_DESCRIPTORS_MIN: Final = 64
_DESCRIPTORS_GOOD: Final = 1024


@click.command(epilog="Example: bus doctor")
@live_options(10.0)
def doctor(target: Target) -> None:
    """Check that a bus can run on this machine, and list missing optional items.

    With --network FILE, show instead why this machine and others do not find each
    other: the command listens for announcements. It tries each step to a link with each
    machine that it finds, and with each address in FILE. No bus needs to run. If the
    bus runs on this machine, the last lines warn of each public name that several
    machines have.

    Exits with 1 if an item is missing that every bus needs, or if a machine cannot be
    linked.
    """
    if target.network is None:
        checks = (check(target) for check in _CHECKS)
        findings = [*_system(), *checks, *_packages()]
    else:
        findings = diagnose(target, target.network)
    end_with(findings, as_json=target.as_json)


# Requirements of every bus.


def _system() -> list[Finding]:
    """Return one finding per capability that this system lacks; see `bus.support`."""
    facilities = here()
    return [
        Finding("system", OK, f"{each.name}: {instead}")
        for each in CAPABILITIES
        if (instead := each.on(facilities)) != "yes"
    ]


def _directory(target: Target) -> Finding:
    """Check that the run directory can be used; create it if it is missing."""
    what = "run directory"
    try:
        directory = run_directory(target)
    except (BusError, ValueError, OSError) as error:
        return Finding(what, FAIL, str(error), remedy(target, error))
    if not _files.HAS_USERS:
        fact = f"{directory.path} can be used; its access list is not checked"
        return Finding(what, OK, fact)
    if groups := access_to(target).groups:
        return Finding(what, OK, f"{directory.path} is open to group {min(groups)}")
    return Finding(what, OK, f"{directory.path} is open to its owner only")


def _sockets(target: Target) -> Finding:
    """Check that a socket can be created in the run directory, and dialled."""
    what = "sockets"
    try:
        directory = run_directory(target)
    except (BusError, ValueError, OSError):
        return Finding(what, FAIL, "not tried: there is no run directory")
    place = directory.own / fresh_name("doctor")
    try:
        with _net.listen_ipc(place, mode=0o600, backlog=1):
            dialled = _net.has_listener(place)
            place.unlink()
    except OSError as error:
        do = "set BUS_RUN_DIR to a folder on a local file system"
        return Finding(what, FAIL, f"cannot create a socket: {error}", do)
    if not dialled:
        return Finding(what, FAIL, "a socket was created, but cannot be dialled")
    return Finding(what, OK, "a socket was created and dialled")


def _descriptors(_: Target) -> Finding:
    what = "descriptors"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fact = f"{soft} for each process"
    unlimited = soft == resource.RLIM_INFINITY
    if unlimited or soft >= _DESCRIPTORS_GOOD:
        return Finding(what, OK, "no limit" if unlimited else fact)
    most = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    do = f"raise it with ulimit -n, at most to {most}"
    return Finding(what, WARN if soft >= _DESCRIPTORS_MIN else FAIL, fact, do)


# Optional items.


def _served(target: Target) -> Finding:
    """Report whether the bus has a process; both states are `OK`."""
    what = f"bus {target.bus}"
    try:
        served = run_directory(target).is_served()
    except (BusError, ValueError, OSError):
        return Finding(what, WARN, "not searched: there is no run directory")
    if served:
        return Finding(what, OK, "has at least one process")
    running = ", ".join(served_buses())
    fact = f"has no process; buses that run: {running}" if running else "has no process"
    return Finding(what, OK, fact)


def _shared_memory(_: Target) -> Finding:
    what = "shared memory"
    try:
        descriptor = os.memfd_create("doctor", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, mmap.PAGESIZE)
            with mmap.mmap(descriptor, mmap.PAGESIZE) as memory:
                memory[0] = 1
        finally:
            os.close(descriptor)
    except OSError as error:
        do = "none needed: long messages are sent over sockets, which is slower"
        return Finding(what, WARN, f"memfd cannot be used: {error}", do)
    return Finding(what, OK, "memfd can be created and mapped")


def _java(_: Target) -> Finding:
    from bus.pipeline.session import JAVA_MAJOR_MIN, missing  # noqa: PLC0415

    what = "Java and Spark"
    if do := missing(drawing=False):
        return Finding(what, WARN, "bus pipeline cannot run", do)
    if do := missing():
        fact = "bus pipeline can check, but cannot draw a report"
        return Finding(what, WARN, fact, do)
    return Finding(what, OK, f"installed, Java {JAVA_MAJOR_MIN} or newer")


def _packages() -> list[Finding]:
    """Return one finding per required package: the versions found and needed."""
    findings = []
    for each in requirements(*_EXTRAS):
        state = OK if each.fits else WARN if each.extra else FAIL
        what = f"package {each.name}"
        fact = str(each).removeprefix(f"{each.name} ")
        findings.append(Finding(what, state, fact, "" if each.fits else each.remedy))
    return findings


# A check of a part that this system lacks is left out: see `_system`.
_CHECKS: Final[tuple[Callable[[Target], Finding], ...]] = (
    *(_directory, *((_sockets, _served) if _net.HAS_UNIX else ())),
    *((_descriptors,) if resource is not None else ()),
    *((_shared_memory,) if _files.HAS_SEALED_MEMORY else ()),
    _java,
)
