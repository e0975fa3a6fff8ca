"""The whole run on two machines of this host, whose link is cut and healed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from bus.cli import main
from bus.demo import outage
from bus.demo.machines import Machines, impatient
from bus.demo.messages import ENCODERS, sent
from bus.demo.outage import CABLE, Outage
from bus.demo.worker_group import FAR, NEAR, parts_on_two_machines
from bus.errors import DemoError
from bus.journal.reader import open_journals
from bus.model.config import BusConfig
from bus.pipeline import session
from bus.testing import memory_bus
from tests.kit.serving import serve
from tests.kit.systems import needs_unix_sockets
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus, Incoming


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the folder of temporary files: short, as paths of sockets are limited."""
    folder = Path(tempfile.mkdtemp(prefix="two"))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    shutil.rmtree(folder)


# The plan.


@pytest.mark.parametrize("workers", range(2, 8))
def test_each_machine_has_half_of_the_workers_and_a_master(workers: int) -> None:
    parts = parts_on_two_machines(workers)

    count = Counter(part.machine for part in parts)
    assert set(count) == {NEAR, FAR}
    assert 0 <= count[FAR] - count[NEAR] <= 1
    # The demo's own process is the other master.
    assert [part.machine for part in parts if part.is_master] == [FAR]
    assert not any(part.leaves or part.dies for part in parts)


def test_the_networks_of_the_machines_differ_in_all_that_they_must(
    temporary: Path,
) -> None:
    with Machines() as machines:
        networks = [machines.network(name) for name in (NEAR, FAR)]
        [folder] = temporary.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        for what in ("listen", "advertise", "keys"):
            assert len({getattr(each, what) for each in networks}) == 2
        addresses = {each.listen for each in networks}
        assert addresses.isdisjoint(each.advertise for each in networks)
        assert len({each.discovery_port for each in networks}) == 1
        assert all(each.gateway and each.keys for each in networks)
        assert machines.environment(NEAR) == {}
        assert machines.environment(FAR) == {"BUS_RUN_DIR": str(folder)}

    assert list(temporary.iterdir()) == []  # with the keys


# The outage, on a bus without links.


class Plug:
    """A cable that registers and deregisters the workers behind it."""

    def __init__(self, bus: Bus, *, works: bool = True) -> None:
        self._bus = bus
        self._works = works
        self._tasks = [bus.register("worker/1"), bus.register("worker/2")]
        self.is_cut = False

    def cut(self) -> None:
        self.is_cut = True
        if self._works:
            for task in self._tasks:
                task.deregister(final=True)

    def heal(self) -> None:
        if self.is_cut:
            self.is_cut = False
            for name in ("worker/1", "worker/2"):
                self._bus.register(name)


def _outage(bus: Bus, plug: Plug, stopped: list[str]) -> Outage:
    return Outage(
        bus,
        plug,  # type: ignore[arg-type] # the two methods that are called
        "worker/*",
        2,
        before_s=0.0,
        give_up=lambda: stopped.append("given up"),
    )


def test_an_outage_goes_by_what_the_bus_reports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outage, "AFTER_S", 0.0)
    received: list[Incoming] = []
    with memory_bus(config=BusConfig(encoders=ENCODERS)) as bus:
        one = _outage(bus, Plug(bus), [])
        console = bus.register("console", thread=bus.here())
        console.subscribe(CABLE, received.append)
        one.start()
        serve(bus, lambda: one.has_ended and len(received) == 4, "it is over")
        one.stop()

    steps = [sent(each.payload) for each in received]
    assert [each.event for each in steps] == ["cut", "lost", "healed", "restored"]
    assert one.failure == ""
    assert one.times is not None
    assert one.times.cut >= one.times.lost
    assert [each.seconds for each in steps[1:]] == [
        one.times.lost,
        one.times.cut,
        one.times.restored,
    ]


def test_an_outage_that_the_bus_does_not_notice_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outage, "STUCK_S", 0.2)
    stopped: list[str] = []
    with memory_bus(config=BusConfig(encoders=ENCODERS)) as bus:
        plug = Plug(bus, works=False)
        monkeypatch.setattr(plug, "heal", lambda: setattr(plug, "is_cut", False))
        one = _outage(bus, plug, stopped)
        one.start()
        until(lambda: one.has_ended and bool(stopped), "it has given up")
        one.stop()

    assert one.failure == (
        "2 workers are at worker/*, expected 0: the bus has reported no change for"
        " 0.2 s"
    )
    assert one.times is None
    assert not plug.is_cut


def test_an_outage_can_be_stopped_before_and_after_its_start() -> None:
    with memory_bus(config=BusConfig(encoders=ENCODERS)) as bus:
        plug = Plug(bus)
        _outage(bus, plug, []).stop()
        stopped: list[str] = []
        one = Outage(
            bus,
            plug,  # type: ignore[arg-type] # as above
            "worker/*",
            3,  # one of them never comes
            before_s=0.0,
            give_up=lambda: stopped.append("given up"),
        )
        one.start()
        one.stop()

        assert one.has_ended
        assert (one.failure, one.times, stopped) == ("", None, [])


def test_a_silent_link_is_lost_soon() -> None:
    config = impatient(BusConfig(ack_delay_s=0.0))

    assert config.ack_delay_s == 0.0
    assert config.keep_alive_s < config.lease_s <= 3.0


# All of it.


@pytest.mark.deep
def test_all_is_done_and_kept_though_the_link_is_cut_once(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "missing", lambda: "no Java found: install it")
    folder, out = tmp_path / "files", tmp_path / "out"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number:02}").write_bytes(b"%d" % number * (number * 997))

    ran = CliRunner().invoke(
        main, ["demo", str(folder), "--machines", "2", "--out", str(out)]
    )

    assert ran.exit_code == 0, ran.output
    lines = ran.output.splitlines()
    assert lines[1] == (
        "5 processes on bus demo, on two machines that find each other and link by TLS:"
        f" {NEAR} (this process, worker/1, worker/2) and {FAR} (worker/3, worker/4)"
    )
    assert lines[2].startswith(
        f"watch both in a browser: bus web --bus demo --network {temporary}"
    )
    steps = (f"the link between {NEAR} and {FAR} is cut", "after ", "after ")
    reported = [line for line in lines if line.startswith(steps)]
    assert [line.partition(" s")[2] for line in reported[1:]] == [
        f" of silence, {NEAR} reports each worker in {FAR} lost",
        ", the link is whole again",
    ]
    [cost] = [line for line in lines if line.startswith("the link was cut for ")]
    # Both workers over there had at most two commands each. One may just have had none,
    # since its last answer had arrived.
    words = cost.split()
    assert 0 <= int(words[words.index("cost") + 1]) <= 4
    assert not any(line.startswith("worker/1 ") for line in lines)
    assert " is equal (files, bytes" in ran.output or "passes is equal" in ran.output
    result = json.loads((out / "verdicts.json").read_text())
    assert result["verdict"] == "PASS"
    assert all(
        each["verdict"] in {"PASS", "nothing to check"} for each in result["verdicts"]
    )
    journals = [each.path.parent.name for each in open_journals(out / "journal")]
    assert Counter(journals) == {NEAR: 3, FAR: 2}
    assert list(temporary.iterdir()) == []
    assert os.listdir(Path(os.environ["BUS_RUN_DIR"], "demo")) == ["lock"]


@needs_unix_sockets
@pytest.mark.parametrize("package", ["cryptography", "ifaddr"])
def test_a_missing_package_is_one_line_with_the_remedy(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for name in [
        each for each in sys.modules if each.startswith("bus.features.machines.")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "file").touch()
    out = tmp_path / "out"

    ran = CliRunner().invoke(
        main, ["demo", str(tmp_path), "--machines", "2", "--out", str(out)]
    )

    assert ran.exit_code == 4, ran.output
    assert ran.stderr == (
        f"bus: cannot use two machines: {package} is not installed;"
        ' run pip install ".[net]" in a clone of queuebroker\n'
    )
    assert not out.exists()
    assert list(temporary.iterdir()) == []


def test_a_temporary_folder_that_cannot_be_used_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = tmp_path / "nowhere"
    monkeypatch.setattr("tempfile.tempdir", str(nowhere))

    with pytest.raises(DemoError, match=f"cannot use two machines: .*{nowhere}"):
        Machines().__enter__()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--machines", "3"], "3 is not in the range 1<=x<=2"),
        (["--processes", "2"], "--machines 2 needs --processes 3 or more"),
        (["--plant", "lost"], "--plant needs --machines 1"),
    ],
)
def test_options_that_exclude_two_machines_are_wrong_usage(
    tmp_path: Path,
    arguments: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    ran = CliRunner().invoke(main, ["demo", "--machines", "2", *arguments])

    assert ran.exit_code == 2
    assert words in ran.output
    assert list(tmp_path.iterdir()) == []
