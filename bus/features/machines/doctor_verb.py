"""``bus doctor --network``: why this machine and others do not find each other.

It checks this machine first: keys, address, announcements. Then it tries each step to a
link, with each machine that it has found and each address in the file of the network.
If the bus runs on this machine, it finally compares the names of the linked machines.
"""

from __future__ import annotations

import os
from contextlib import closing
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from bus.api.membership import open_bus
from bus.cli.finding import FAIL, OK, WARN, Finding
from bus.cli.queries import ask_master, ask_masters
from bus.cli.run_directory import access_to, is_served, remedy
from bus.cli.text import ignored_line
from bus.errors import BusError
from bus.features.machines.announcer import AnnouncementGroup
from bus.features.machines.discovery import Rejection
from bus.features.machines.machine_keys import MachineKeys
from bus.features.machines.network import DiscoveryScope
from bus.features.machines.probe import (
    AnnouncementSurvey,
    Fault,
    PeerProbe,
    Step,
    Trial,
    certificate_fault,
)
from bus.kernel.wire import Identity
from bus.kernel.wire import Role as WireRole
from bus.model.address import ANY_MACHINE, fresh_name, is_system, name_anywhere
from bus.model.config import BusConfig
from bus.model.registration import Role
from bus.process.peer_trust import PeerTrust, machine_in
from bus.process.socket_network import machine_id
from queuebroker import _files, _net, _sync
from queuebroker.sockets.address import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bus.cli.target import Target
    from bus.features.machines.machine_table import Machine
    from bus.features.machines.network import Network

__all__ = ["compare_names", "diagnose", "shared_names"]

_WHAT: Final = "names"
_SILENT: Final = (
    "check whether that process is stopped or overloaded, then run this command again"
)
_NAMES_MAX: Final = 20  # findings; the others are counted


def compare_names(target: Target, network: Network, machine: str) -> list[Finding]:
    """Join the bus of this machine, and warn of names that other machines have, too.

    network, machine: with which to join; the bus must run on this machine.
    """
    try:
        with open_bus(
            target.bus,
            role=Role.SLAVE,
            process=fresh_name("doctor"),
            machine=machine,
            config=BusConfig(access=access_to(target)),
            network=network,
        ) as bus:
            [own] = ask_master(target, bus).told
            afar = ask_masters(target, bus, own)
    except (BusError, ValueError, OSError) as error:
        do = "see 'bus tree --network' for the names of each machine"
        return [Finding(_WHAT, WARN, f"not compared: {error}", do)]
    # The master of each machine has all names of that machine.
    users = {machine: _names(own)}
    missing: dict[str, BusError] = {}
    for other, answers in afar.items():
        for told in answers.told:
            users[other] = _names(told)
        missing |= answers.missing
    return shared_names(users, missing)


def _names(told: Mapping[str, Any]) -> list[str]:
    return [name for name in told.get("users", ()) if not is_system(name)]


def shared_names(
    users: Mapping[str, Iterable[str]], missing: Mapping[str, BusError]
) -> list[Finding]:
    """Return a warning for each name that several machines have (BUS-NAME-8).

    Return no finding if there is one machine only, and none is missing.

    users: the public names of each machine.
    missing: the masters that could not be queried, each with the reason; each gets a
      warning.
    """
    holders: dict[str, list[str]] = {}
    for machine in sorted(users):
        for name in set(users[machine]):
            holders.setdefault(name, []).append(machine)
    shared = sorted(name for name in holders if len(holders[name]) > 1)
    findings = [
        Finding(
            f"name {name}",
            WARN,
            f"machines {', '.join(holders[name])} have it: {name_anywhere(name)} is the"
            f" one of the sender's machine, else of {holders[name][0]}",
            f"rename one if senders use {ANY_MACHINE!r} for its machine",
        )
        for name in shared[:_NAMES_MAX]
    ]
    if (more := len(shared) - _NAMES_MAX) > 0:
        fact = f"{more} further names are on several machines"
        findings.append(Finding(_WHAT, WARN, fact))
    for process, error in missing.items():
        fact = f"not compared with {process.partition('/')[0]}: cannot query {process}"
        findings.append(Finding(_WHAT, WARN, f"{fact}: {error}", _SILENT))
    # The names of a missing machine may be shared: then there is no `OK`.
    if len(users) > 1 and not shared and not missing:
        fact = f"no public name is on two of {len(users)} machines"
        findings.append(Finding(_WHAT, OK, fact))
    return findings


# How long the survey listens, in intervals between announcements.
_INTERVALS: Final = 2
# Time limit of each step of a trial, in seconds. The kernel takes 3 s to report that no
# host has an address of the own subnet.
_STEP_S: Final = 4.0

# The remedy for each fault of a trial.
_ADVICE: Final[Mapping[Fault, str]] = MappingProxyType(
    {
        Fault.PORT_CLOSED: "open the bus there with `listen` on this port, or correct"
        " the port in `peers`",
        Fault.NO_HOST: "correct the address in `peers`, or start that host; check the"
        " route with 'ip route get'",
        Fault.DROPPED: "open this TCP port in the firewalls of both machines; check"
        " that the host runs",
        Fault.NAME: "give an address that this machine can resolve and dial",
        Fault.NO_BUS: "another service listens there: correct the port in `peers`",
        Fault.UNTRUSTED: "issue the keys of both machines from one authority with 'bus"
        " keys issue', and copy the folders issued last",
        Fault.EXPIRED: "issue the keys again with 'bus keys issue', and copy the"
        " folder; check the clocks",
        Fault.NOT_YET_VALID: "set the clocks of both machines: the certificate begins"
        " in the future",
        Fault.TLS: "give both machines keys made with 'bus keys issue'",
        Fault.MACHINE_NAME: "give each machine the folder of keys that bears its name",
        Fault.CONFLICT: "give one of the two machines another name, and keys for it; a"
        " cloned one also its own /etc/machine-id",
        Fault.VERSION: "install one version of queuebroker on both machines",
        Fault.OTHER_BUS: "open the bus with the same name on both, or pass --bus",
        Fault.ACCESS: "see the log there: its rules do not admit this machine",
        Fault.CLOSED: "see the log there: it states the reason",
        Fault.SILENT: "check whether the process there is stopped or overloaded",
    }
)
# The remedy for ignored announcements, by reason. The other reasons need none.
_REJECTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        Rejection.MALFORMED.value: "another program may use this UDP port: set"
        " `discovery_port` on all machines",
        Rejection.OTHER_BUS.value: _ADVICE[Fault.OTHER_BUS],
        Rejection.VERSION.value: _ADVICE[Fault.VERSION],
        Rejection.UNAUTHENTICATED.value: _ADVICE[Fault.UNTRUSTED],
        Rejection.TOO_MANY.value: "find the program that floods this UDP port, or set"
        " `discovery_port` on all machines",
        Rejection.OTHER_HOST.value: "set `advertise` on the machine whose address a"
        " router translates",
    }
)


def diagnose(target: Target, network: Network) -> list[Finding]:
    """Return a finding for each step; see `doctor`."""
    keys, findings = _keys(target, network)
    if findings[-1].state == FAIL:
        return findings  # without valid keys, no link can be opened
    machine = target.machine or (_files.host_name() if keys is None else keys.machine)
    here = _bus_here(target)
    findings += [here, *_listening(target, network)]
    me = Identity(
        bus=target.bus,
        machine=machine,
        machine_id=machine_id(),
        process=fresh_name("doctor"),
        process_id=os.getpid(),
        incarnation=_sync.wall_ns(),
        role=WireRole.SLAVE,
    )
    group_keys = () if keys is None else keys.group_keys()
    found, ignored, results = _announcements(me, network, group_keys)
    findings += results
    probe = PeerProbe(
        me,
        PeerTrust(access_to(target), None if keys is None else keys.tls),
        _STEP_S if target.timeout_s is None else min(_STEP_S, target.timeout_s),
    )
    expected: dict[str, str | None] = dict.fromkeys(network.peer_addresses)
    expected |= found
    expected.pop(network.listen_address or "", None)  # this machine itself
    for trial in _trials(probe, expected):
        findings += _steps(trial, secured=keys is not None)
    if not expected:
        findings.append(_no_machine(ignored, results))
    if here.state == OK:
        findings += compare_names(target, network, machine)
    return findings


# This machine.


def _keys(target: Target, network: Network) -> tuple[MachineKeys | None, list[Finding]]:
    """Check the keys of this machine as another machine checks them."""
    what = "keys"
    if network.keys is None:
        fact = "none: only machines of this host can be linked"
        return None, [Finding(what, OK, fact)]
    try:
        keys = MachineKeys(network.keys)
    except (BusError, ValueError, OSError) as error:
        do = "make keys with 'bus keys issue', and copy their folder"
        return None, [Finding(what, FAIL, str(error), do)]
    try:
        shown = _net.shown_certificate(
            keys.tls.context(server=True), keys.tls.context(server=False)
        )
    except _net.TlsError as error:
        do = _ADVICE[certificate_fault(error)]
        fact = _net.tls_reason(error).replace("its certificate", "the own certificate")
        return keys, [Finding(what, FAIL, fact, do)]
    except OSError as error:
        do = _ADVICE[Fault.TLS]
        return keys, [Finding(what, FAIL, f"{error.filename}: {error.strerror}", do)]
    certified = machine_in(_net.uris(shown))
    for where, name in (("--machine", target.machine), ("their folder", keys.machine)):
        if name is not None and name != certified:
            fact = f"the certificate names machine {certified}, {where} names {name}"
            return keys, [Finding(what, FAIL, fact, _ADVICE[Fault.MACHINE_NAME])]
    fact = f"machine {certified} is certified, and its certificate is valid"
    return keys, [Finding(what, OK, fact)]


def _bus_here(target: Target) -> Finding:
    """Report whether the bus runs here, and whether this user may join it."""
    what = f"bus {target.bus}"
    if not _net.HAS_UNIX:
        return Finding(what, WARN, "not searched: this system has no UNIX sockets")
    try:
        if is_served(target):
            fact = "runs here: 'bus machines' lists the machines known to its master"
            return Finding(what, OK, fact)
    except (BusError, ValueError, OSError) as error:
        return Finding(what, FAIL, str(error), remedy(target, error))
    do = "open it with this network, so that other machines find it"
    return Finding(what, WARN, "does not run here", do)


def _listening(target: Target, network: Network) -> list[Finding]:
    """Check that a master can listen at the address of the network."""
    text = network.listen_address
    if text is None:
        fact = "this machine only dials: other machines send it no commands"
        return [Finding("listen", OK, fact)]
    what, place = f"listen {network.listen}", Address.parse(text)
    try:
        _net.listen_tcp(place.host, place.port, backlog=1).close()
    except OSError as error:
        if _net.is_in_use(error):
            return [_in_use(target, what)]
        do = "set `listen` to an address of this machine: 'ip address' lists them"
        return [Finding(what, FAIL, f"cannot listen: {error.strerror}", do)]
    return [Finding(what, OK, "the address is free")]


def _in_use(target: Target, what: str) -> Finding:
    if not _net.HAS_UNIX:  # `_bus_here` has not found out
        do = "if the bus does not run here, set `listen` to another port"
        return Finding(what, WARN, "a process listens there", do)
    try:
        if is_served(target):
            return Finding(what, OK, "a process listens there: the bus runs here")
    except (BusError, ValueError, OSError):
        pass  # `_bus_here` reports the error
    do = "set `listen` to another port, or end that process"
    return Finding(what, FAIL, "another process listens there", do)


# Announcements.


def _announcements(
    me: Identity, network: Network, keys: Sequence[bytes]
) -> tuple[dict[str, str], dict[str, int], list[Finding]]:
    """Listen for announcements.

    Returns the machines found, by address; and the number of ignored announcements, by
    reason.
    """
    what, config, scope = "announcements", BusConfig(), network.discovery
    if scope is DiscoveryScope.OFF or network.listen_address is None:
        return {}, {}, [Finding(what, OK, "discovery is off: addresses are static")]
    host = Address.parse(network.listen_address).host
    port = network.discovery_port
    seconds = _INTERVALS * config.announce_s
    survey = AnnouncementSurvey(me, network.scheme, keys, config.announce_s)
    try:
        group = AnnouncementGroup.of(host, port, scope, config)
    except OSError as error:
        do = "correct `listen` or `discovery` of the network"
        return {}, {}, [Finding(what, FAIL, error.strerror or str(error), do)]
    except ModuleNotFoundError as error:
        return {}, {}, [Finding(what, FAIL, str(error), "install that package")]
    try:
        with closing(group.open()) as datagrams:
            datagrams.check_route()
            survey.listen(datagrams, _sync.monotonic() + seconds)
    except OSError as error:
        fact = f"no route for broadcasts or multicasts: {error.strerror}"
        do = "check that the interface is up: 'ip address' and 'ip route'"
        return {}, {}, [Finding(what, FAIL, fact, do)]
    found = {each.address: each.name for each in survey.machines()}
    where = f"UDP port {port}, {seconds:g} s"
    ignored = survey.rejected()
    findings = [Finding(what, OK, f"{where}: {', '.join(found.values())}")]
    if not found:
        do = f"open UDP port {port} in the firewalls; check `discovery` there"
        fact = f"{where}: no other machine of the bus"
        findings = [Finding(what, WARN, fact, "" if ignored else do)]
    for each in survey.conflicts:
        findings.append(_conflict(each, me))
    for reason, count in sorted(ignored.items()):
        if reason == Rejection.CONFLICT.value:
            continue  # reported above
        if do := _REJECTIONS.get(reason, ""):
            findings.append(Finding(what, WARN, f"{count} ignored: {reason}", do))
    return found, ignored, findings


def _conflict(other: Machine, me: Identity) -> Finding:
    """Return the failure that another machine has the name of one."""
    fact = f"another machine is named {other.name}: the one at {other.address}"
    do = _ADVICE[Fault.CONFLICT]
    if (other.name, other.id) == (me.machine, me.machine_id):
        # The present master has a lower instance, unless the clock was set back.
        fact = f"the bus of this host at {other.address} began later than now"
        do = "if the clock was set back, open the bus again; else end the other program"
    return Finding("announcements", FAIL, fact, do)


def _no_machine(ignored: Mapping[str, int], results: Sequence[Finding]) -> Finding:
    """Return the failure that there is no machine to try.

    ignored: the number of ignored announcements, by reason.
    results: the findings about announcements; each has the remedy for its reason.
    """
    fact = "no machine was found, and `peers` of the network has no address"
    give = "give one machine the address of the other in `peers`"
    do = f"set `discovery`, or {give}"
    if ignored:
        fact = f"{fact}; {ignored_line(ignored)}"
        remedies = [each.do for each in results if each.do]
        do = "; or ".join([*remedies, give])
    return Finding("other machines", FAIL, fact, do)


# Other machines.


def _trials(probe: PeerProbe, expected: Mapping[str, str | None]) -> list[Trial]:
    """Try all addresses at once: an unreachable one takes its whole timeout."""
    trials: dict[str, Trial] = {}

    def attempt(address: str) -> None:
        trials[address] = probe.trial(address, expected[address])

    helpers = [
        _sync.Thread(target=attempt, args=(each,), daemon=True) for each in expected
    ]
    for each in helpers:
        each.start()
    for each in helpers:
        each.join()
    return [trials[each] for each in expected]


def _steps(trial: Trial, *, secured: bool) -> list[Finding]:
    """Return a finding for each step that was tried."""
    passed = {
        Step.TCP: "connected",
        Step.TLS: "both sides accept the certificate of the other"
        if secured
        else "none: there are no keys",
        Step.BUS: trial.fact,
    }
    place = trial.address.partition("://")[2]
    findings = []
    for step in Step:
        failed = step is trial.step and trial.fault is not None
        what = f"{step.value} {place}"
        if failed:
            assert trial.fault is not None
            findings.append(Finding(what, FAIL, trial.fact, _ADVICE[trial.fault]))
            break
        findings.append(Finding(what, OK, passed[step]))
    return findings
