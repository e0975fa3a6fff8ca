"""Messages between two machines: what is measured, where, and that nothing stays."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import machines, namespaces, rivals, testbed
from benchmarks.figure import OURS
from benchmarks.suites import Effort
from benchmarks.testbed import Arrivals, Near, percentiles_s

_FOUND, _MISSING = rivals.load(["nats", "zenoh", "pyzmq_tcp"])
_EFFORT = Effort(rounds=5, round_s=0.1, scale=0.1)


def _use(monkeypatch: pytest.MonkeyPatch, refused: str = "") -> list[str]:
    """Replace the commands by a list of them; the one with ``refused`` fails."""
    commands: list[str] = []

    def run(command: list[str]) -> str:
        text = " ".join(command)
        if refused and refused in text:
            raise OSError(f"{text}: not permitted")
        commands.append(text)
        return "999999999\n" if "pids" in text else ""

    monkeypatch.setattr(namespaces, "_run", run)
    monkeypatch.setattr("benchmarks.namespaces.os.getpid", lambda: 7)
    return commands


# Namespaces.


def test_namespaces_end_with_their_block_and_kill_what_is_left_in_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands = _use(monkeypatch)
    killed: list[int] = []
    monkeypatch.setattr(
        "benchmarks.namespaces.os.kill", lambda process, _: killed.append(process)
    )

    with pytest.raises(ZeroDivisionError), namespaces.namespace_pair():
        raise ZeroDivisionError

    assert killed == [999999999] * 2
    assert commands[-4:] == [
        "ip netns pids qb-near-7",
        "ip netns delete qb-near-7",
        "ip netns pids qb-far-7",
        "ip netns delete qb-far-7",
    ]


def test_a_refused_namespace_leaves_none_and_names_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands = _use(monkeypatch, refused="add qb-far")
    monkeypatch.setattr("benchmarks.namespaces.os.kill", lambda *_: None)

    assert namespaces.refusal() == "ip netns add qb-far-7: not permitted"
    assert commands[-1] == "ip netns delete qb-near-7"
    assert not any("delete qb-far" in each for each in commands)


def test_without_the_program_the_reason_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")

    assert "'ip'" in namespaces.refusal()


# The suite.


def test_without_namespaces_nothing_is_measured_and_one_line_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machines, "refusal", lambda: "ip: not permitted")

    assert machines.suite(_EFFORT) == (
        [],
        ["N1 left out, since it needs network namespaces: ip: not permitted"],
    )


def test_only_the_rate_and_the_median_with_tls_have_a_requirement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machines, "refusal", lambda: "")

    contests, _ = machines.suite(_EFFORT)

    owed = {each.case for each in contests if each.must == {"nats": 1.0}}
    assert owed == {"64 B TLS, two namespaces", "p50 TLS, two namespaces"}
    assert len(contests) == 8


def test_the_figures_of_a_round_trip_come_from_one_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs: list[str] = []

    def job(name: str, *_: object) -> list[float]:
        jobs.append(name)
        return [each if name == OURS else each * 2 for each in (1e-6, 2e-6, 3e-3)]

    monkeypatch.setattr(machines, "run_job", job)
    contests = machines._round_trip_contests(_EFFORT, "tls", ["nats"])

    figures = [each.figure_of(list(each.rounds(5))) for each in contests]

    assert [each.ours for each in figures] == pytest.approx([1.0, 2.0, 3.0])
    assert [each.ratios["nats"] for each in figures] == pytest.approx([0.5] * 3)
    assert len(jobs) == 12


@pytest.mark.parametrize(("link", "secure"), [("tls", True), ("plain", False)])
def test_without_tls_both_sides_are_on_the_loopback_interface(
    link: str, secure: bool
) -> None:
    made = machines._LINKS[link].testbed("somewhere")

    assert made.secure is secure
    assert (made.near == made.far == "127.0.0.1") is not secure


# Contestants.


@pytest.mark.parametrize("rival", _FOUND, ids=lambda rival: str(rival.NAME))
def test_a_contestant_is_found_by_its_name(rival: Any) -> None:
    found = machines._contestant(rival.NAME)

    assert found is rival
    assert all(map(callable, (found.service, found.near, found.far)))


def test_each_rival_is_found_or_reported() -> None:
    assert len(_FOUND) + len(_MISSING) == 3


def test_a_rival_without_its_server_is_left_out_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Rival:
        NAME = "nats"
        PROGRAM = "nats-server"

    monkeypatch.setattr("importlib.import_module", lambda _: Rival)
    monkeypatch.setenv("PATH", "")

    assert rivals.load(["nats"]) == (
        [],
        ["nats-server is not installed: nats left out"],
    )


def test_the_near_side_of_blocking_calls_makes_each_call_once() -> None:
    sent: list[bytes] = []
    asked: list[bytes] = []
    near = Near.of_calls(sent.append, asked.append, lambda: None)

    near.stream(b"x", 3)
    trips = near.trips(b"y", 2)

    assert (sent, asked) == ([b"x"] * 3, [b"y"] * 2)
    assert len(trips) == 2
    assert min(trips) > 0


def test_the_first_and_the_last_arrival_are_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arrivals = Arrivals(count=3)
    for _ in range(arrivals.expected):
        arrivals.take(b"")

    first, last = map(float, capsys.readouterr().out.split())

    assert first < last


def test_percentiles_are_in_seconds() -> None:
    assert percentiles_s(list(range(1, 100))) == pytest.approx([50e-9, 99e-9])


def test_the_keys_of_a_machine_are_in_a_folder_of_its_name() -> None:
    made = testbed.Testbed("10.0.0.1", "10.0.0.2", "here", secure=True)

    assert made.certificate("far") == "here/far.keys/machine.pem"
    assert made.authority("near") == "here/near.keys/trusted.pem"


@pytest.mark.parametrize(("job", "figures"), [("sink", 1), ("echo", 3)])
@pytest.mark.parametrize("link", machines._LINKS)
@pytest.mark.deep
def test_each_job_ends(link: str, job: str, figures: int) -> None:
    """Both processes agree on the end; each figure is a time."""
    if namespaces.refusal():
        pytest.skip("only root can make network namespaces")

    result = machines.run_job(OURS, job, 50, link)

    assert len(result) == figures
    assert min(result) > 0
