"""The run directory: its permissions, and the lock of the master."""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from bus import AccessDeniedError, AccessList, BusConfig, Grant, open_bus
from bus.process.run_directory import RunDirectory, run_base
from queuebroker import _files, _net
from specs.clauses import clause
from tests.kit.systems import needs_fork, needs_root, needs_unix_sockets, needs_users
from tests.processes import run

if TYPE_CHECKING:
    from pathlib import Path

OURS = AccessList()


@pytest.fixture
def base(own_run_directory: Path) -> Path:
    """Return a path of a run directory that does not exist yet."""
    return own_run_directory


@clause("BUS-SEC-3")
def test_it_is_made_for_its_user_alone(base: Path) -> None:
    made = RunDirectory("bus1", OURS)

    assert made.path == base / "bus1"
    for each in (base, made.path):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700


@needs_users
@clause("BUS-SEC-3")
@pytest.mark.parametrize("mode", [0o777, 0o701, 0o770, 0o704, 0o720])
@pytest.mark.parametrize("which", ["base", "of the bus"])
def test_one_that_others_can_enter_or_write_to_is_refused(
    base: Path, mode: int, which: str
) -> None:
    (base / "bus1").mkdir(parents=True)
    for each in (base, base / "bus1"):
        each.chmod(0o700)
    wrong = base if which == "base" else base / "bus1"
    wrong.chmod(mode)

    with pytest.raises(AccessDeniedError, match=f"{wrong} is open to others") as caught:
        RunDirectory("bus1", OURS)

    assert f"mode {mode:04o}" in str(caught.value)


@clause("BUS-SEC-3")
@pytest.mark.parametrize("which", ["base", "above it", "of the bus"])
def test_one_that_is_a_file_is_refused(base: Path, which: str) -> None:
    wrong = base / "bus1" if which == "of the bus" else base
    wrong.parent.mkdir(mode=0o700, exist_ok=True)
    wrong.write_text("")
    given = base / "below" if which == "above it" else base

    with pytest.raises(AccessDeniedError, match=f"{given}.* is not a directory"):
        RunDirectory("bus1", OURS, str(given))


@needs_users
@clause("BUS-SEC-3")
def test_a_group_may_read_where_the_access_list_has_one(base: Path) -> None:
    made = RunDirectory("bus1", AccessList(gids=[os.getegid()]))

    assert stat.S_IMODE(made.path.stat().st_mode) == 0o2710
    with pytest.raises(AccessDeniedError, match=r"is open to group .*: mode 2710"):
        RunDirectory("bus1", OURS)


@clause("BUS-SEC-3")
@needs_root
def test_one_of_somebody_else_is_refused_unless_he_is_listed(base: Path) -> None:
    RunDirectory("bus1", OURS)
    os.chown(base / "bus1", 4321, -1)

    with pytest.raises(AccessDeniedError, match="belongs to uid 4321"):
        RunDirectory("bus1", OURS)
    RunDirectory("bus1", AccessList(uids=[4321]))


@clause("BUS-SEC-3")
@pytest.mark.parametrize("what", ["file", "link"])
def test_a_path_that_is_no_directory_is_rejected(base: Path, what: str) -> None:
    base.mkdir(mode=0o700)
    if what == "file":
        (base / "bus1").touch()
    else:
        (base / "bus1").symlink_to("/tmp")  # an existing directory

    with pytest.raises((AccessDeniedError, FileExistsError), match="bus1"):
        RunDirectory("bus1", OURS)


@needs_unix_sockets
@clause("BUS-ENT-16")
def test_a_path_that_is_too_long_for_sockets_is_refused_at_once(base: Path) -> None:
    long = base / ("x" * 90)

    with pytest.raises(ValueError, match=r"paths of 1\d\d bytes, the system takes 10"):
        RunDirectory("bus1", OURS, str(long))

    assert not base.exists()


@clause("BUS-INIT-5")
def test_one_that_cannot_be_made_is_named_with_reason_and_setting(
    base: Path,
) -> None:
    """In one line; it used to be a bare `FileNotFoundError`."""
    missing = base / "gone" / "run"

    with pytest.raises(FileNotFoundError) as caught:
        open_bus(config=BusConfig(run_directory=str(missing)))

    assert str(caught.value) == (
        f"[Errno 2] cannot make the run directory {missing} of bus 'bus1': No such "
        f"file or directory; set BUS_RUN_DIR, or BusConfig(run_directory=...), to a "
        f"writable folder"
    )


@clause("BUS-INIT-5")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("f", AccessDeniedError),
        pytest.param("x" * 99, ValueError, marks=needs_unix_sockets),
    ],
)
def test_each_error_names_the_setting(
    base: Path, name: str, kind: type[Exception]
) -> None:
    base.mkdir(mode=0o700)
    (base / "f").touch()

    with pytest.raises(kind, match=r"; set BUS_RUN_DIR, or BusConfig.* to a "):
        open_bus(config=BusConfig(run_directory=str(base / name)))


@clause("BUS-ENT-16")
@pytest.mark.parametrize("given", [True, False])
def test_a_path_that_is_no_utf_8_is_refused_at_once(
    base: Path, monkeypatch: pytest.MonkeyPatch, *, given: bool
) -> None:
    """Wherever the path comes from; the error text is encodable everywhere."""
    wrong = str(base / os.fsdecode(b"\xff"))
    monkeypatch.setenv("BUS_RUN_DIR", wrong)

    with pytest.raises(ValueError, match="must have a path in UTF-8") as caught:
        RunDirectory("bus1", OURS, wrong if given else None)

    assert f"{base}/\\udcff/bus1" in str(caught.value)
    assert str(caught.value).encode()
    assert not base.exists()


def test_the_run_directory_can_be_set_in_three_ways(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the configuration, else the environment, else the system's default place."""
    assert run_base("/configured") == run_base("/configured/")
    assert run_base() == base
    monkeypatch.delenv("BUS_RUN_DIR")
    base.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
    assert run_base() == base / "queuebroker"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base / "nothing"))
    assert str(_files.user_id()) in str(run_base())


@pytest.mark.parametrize("wrong", ["", 5, b"/run", "a\0b"])
def test_a_wrong_place_is_named(wrong: object) -> None:
    with pytest.raises(ValueError, match="run_directory must be the path"):
        BusConfig(run_directory=wrong)  # type: ignore[arg-type]


# The lock of the master.


@clause("BUS-INIT-1", "OPEN-1")
def test_one_has_the_lock_until_it_lets_go() -> None:
    one, two = RunDirectory("bus1", OURS), RunDirectory("bus1", OURS)
    assert one.claim()
    assert not two.claim()

    one.release()

    assert two.claim()
    two.release()


@clause("OPEN-1")
def test_a_lock_holder_that_claims_the_lock_again_keeps_it() -> None:
    """A single release frees it; no descriptor is left."""
    one, two = RunDirectory("bus1", OURS), RunDirectory("bus1", OURS)
    before = open_descriptors()
    assert one.claim()

    assert one.claim()

    assert open_descriptors() == before + 1
    assert not two.claim()
    one.release()
    assert two.claim()
    two.release()
    assert open_descriptors() == before


def open_descriptors() -> int:
    """Return how many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


@clause("OPEN-1", "BUS-ENT-14")
def test_buses_have_locks_of_their_own() -> None:
    one, two = RunDirectory("bus1", OURS), RunDirectory("bus2", OURS)

    assert one.claim()
    assert two.claim()

    one.release()
    two.release()


@needs_fork
@clause("OPEN-1", "BUS-INIT-16")
def test_a_child_of_a_fork_does_not_hold_it() -> None:
    code = """
        import os, sys
        from bus import AccessList
        from bus.process.run_directory import RunDirectory
        one = RunDirectory("bus1", AccessList())
        assert one.claim()
        reader, writer = os.pipe()
        ready, begun = os.pipe()
        if not os.fork():
            os.close(writer)
            os.write(begun, b"!")
            os.read(reader, 1)  # lives until the test has looked
            os._exit(0)
        os.read(ready, 1)
        one.release()
        print(RunDirectory("bus1", AccessList()).claim())
        os.close(writer)
    """
    exit_code, answer, complaints = run(code)

    assert (exit_code, answer.strip()) == (0, "True"), complaints


@needs_unix_sockets
@clause("BUS-ENT-16", "BUS-ENT-17")
def test_only_the_sockets_of_killed_processes_are_swept() -> None:
    made = RunDirectory("bus1", OURS)
    dead, living = made.path / "Slave1", made.path / "Slave2"
    with socket.socket(socket.AF_UNIX) as gone, socket.socket(socket.AF_UNIX) as there:
        gone.bind(str(dead))
        there.bind(str(living))
        there.listen()
        gone.close()
        (made.path / "Slave3").write_text("a file")
        (made.path / "notes").write_text("not ours")

        made.sweep()

        assert sorted(each.name for each in made.path.iterdir()) == [
            "Slave2",
            "Slave3",
            "notes",
        ]
        assert _net.has_listener(living)


# Guests.


@clause("BUS-SEC-3")
@needs_root
def test_a_group_that_may_join_can_enter_and_has_a_place_for_its_sockets(
    base: Path,
) -> None:
    """With any umask; the group can change no other entry, nor a guest's one."""
    umask = os.umask(0o077)
    try:
        made = RunDirectory("bus1", AccessList(gids=[4321]))
        assert made.claim()
        made.sweep()
        made.release()
    finally:
        os.umask(umask)

    modes = {
        each.name: (stat.S_IMODE(each.stat().st_mode), each.stat().st_gid)
        for each in (base, made.path, made.path / "guests")
    }
    assert modes == {
        base.name: (0o2710, 4321),
        "bus1": (0o2710, 4321),
        "guests": (0o3770, 4321),
    }


@clause("BUS-SEC-3")
@needs_root
def test_a_group_of_a_grant_is_one_of_the_list(base: Path) -> None:
    made = RunDirectory("bus1", AccessList(grants=[Grant(gids=[4321])]))

    assert made.path.stat().st_gid == 4321
    with pytest.raises(AccessDeniedError, match=r"is open to group .*: mode 2710"):
        RunDirectory("bus1", OURS)


@clause("BUS-SEC-3")
@needs_root
def test_the_error_names_a_group_that_cannot_be_assigned(base: Path) -> None:
    base.mkdir(mode=0o711)
    mine = base / "mine"
    mine.mkdir(mode=0o700)
    os.chown(mine, 4321, 4321)

    code, answer, complaints = run(_MEMBER_OF_NOTHING, mine / "run")

    assert code == 0, complaints
    assert "run: cannot be given to group 7, 8" in answer
    assert list(mine.iterdir()) == []


_MEMBER_OF_NOTHING = """
    import os, sys
    from pathlib import Path
    from bus import AccessDeniedError, AccessList
    from bus.process.run_directory import RunDirectory
    os.setgroups([])
    os.setegid(4321)
    os.seteuid(4321)
    try:
        RunDirectory("bus1", AccessList(gids=[7, 8]), sys.argv[1])
    except AccessDeniedError as error:
        print(error)
"""


@clause("BUS-SEC-3", "BUS-ENT-17")
@needs_root
def test_sockets_that_guests_have_left_are_swept(base: Path) -> None:
    made = RunDirectory("bus1", AccessList(gids=[4321]))
    made.sweep()
    left = made.path / "guests" / "Slave1"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(left))

    made.sweep()

    assert base.exists()
    assert list((made.path / "guests").iterdir()) == []


# The access list.


@clause("BUS-SEC-1")
@pytest.mark.parametrize(
    ("uid", "gid", "admitted"),
    [
        (_files.user_id(), 999, True),
        (1001, 999, True),
        (1002, 50, True),
        (1002, 999, False),
        (None, None, False),
    ],
)
def test_the_access_list_admits_only_listed_users_and_groups(
    uid: int | None, gid: int | None, admitted: bool
) -> None:
    access = AccessList(uids=[1001], gids=[50])

    refusal = access.refusal(uid, gid)

    assert (refusal is None) is admitted
    if refusal and uid is not None:
        assert f"uid {uid}" in refusal


@clause("BUS-SEC-1")
@pytest.mark.parametrize("wrong", [["root"], [-1], [True], [1.0]])
def test_ids_are_numbers_of_the_system(wrong: list[object]) -> None:
    with pytest.raises(ValueError, match="gids must hold ids of the system"):
        AccessList(gids=wrong)  # type: ignore[arg-type]


@clause("BUS-SEC-1")
def test_the_rights_of_a_user_combine_all_matching_grants() -> None:
    access = AccessList(
        uids=[1001],
        grants=[
            Grant(uids=[1002], register="a", command=["b/*", "c"]),
            Grant(uids=[1003], gids=[50], register=["d"], subscribe=["**"]),
        ],
    )

    assert access.groups == {50}
    assert not access.trusts(1002)
    whole, nothing = access.rights(1001, 50), access.rights(1004, 51)
    assert whole is not None
    assert whole.whole
    assert nothing is None
    assert access.refusal(1002, 51) is None
    one, both = access.rights(1002, 51), access.rights(1002, 50)
    assert one is not None
    assert both is not None
    assert [one.may_register(each, "p") for each in ("a", "d")] == [True, False]
    assert [one.may_command(each) for each in ("b/x", "c", "d")] == [True, True, False]
    assert not one.may_subscribe("a")
    assert [both.may_register(each, "p") for each in ("a", "d")] == [True, True]
    assert both.may_subscribe("a")
    assert not both.whole


@clause("BUS-SEC-1")
@pytest.mark.parametrize("verb", ["register", "command", "subscribe"])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("a*", "must be '\\*'"),
        ("", "specification"),
        ("ism://far/a", "must hold names of this machine"),
    ],
)
def test_a_grant_holds_patterns_of_names(verb: str, wrong: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Grant(uids=[1], **{verb: [wrong]})  # type: ignore[arg-type]


@clause("BUS-SEC-1")
def test_only_grants_are_some() -> None:
    with pytest.raises(TypeError, match="grants must hold Grants, got 1000"):
        AccessList(grants=[1000])  # type: ignore[list-item]


@clause("BUS-SEC-1")
def test_only_an_access_list_is_one() -> None:
    with pytest.raises(TypeError, match="access must be an AccessList"):
        BusConfig(access=[1000])  # type: ignore[arg-type]
