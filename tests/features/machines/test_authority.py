"""The authority of a bus: what it certifies, and how it is replaced."""

from __future__ import annotations

import ssl
import stat
from typing import TYPE_CHECKING

import pytest

from bus.errors import AccessDeniedError
from bus.features.machines.announcement import encode_announcement, is_signed
from bus.features.machines.authority import AUTHORITY, Authority
from bus.features.machines.certificates import cross_sign, new_authority, read_pem
from bus.features.machines.machine_keys import GROUP_KEY, MACHINE, TRUSTED, MachineKeys
from specs.clauses import clause
from tests.features.machines.handshake import shown
from tests.kit.discovery import announcement
from tests.kit.systems import needs_users

if TYPE_CHECKING:
    from pathlib import Path

ANNOUNCEMENT = announcement("kitchen")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return an authority in a new folder."""
    return Authority.create(tmp_path / "authority")


def keys(authority: Authority, machine: str, *, days: int = 1) -> MachineKeys:
    """Issue the keys of a machine, in a folder of its own."""
    out = authority.folder.parent / f"{authority.name} {machine}"
    return MachineKeys(authority.issue(machine, out, days=days))


def accepts(receiver: MachineKeys, sender: MachineKeys) -> bool:
    """Return True if a machine accepts the announcements of another one."""
    data = encode_announcement(ANNOUNCEMENT, sender.group_keys())
    return is_signed(data, receiver.group_keys())


@clause("BUS-SEC-5")
def test_machines_of_one_authority_accept_each_other_by_their_uris(
    authority: Authority,
) -> None:
    kitchen, cellar = keys(authority, "kitchen"), keys(authority, "cellar")

    assert shown(kitchen, cellar) == (["ism://kitchen/"], ["ism://cellar/"])
    assert kitchen.group_keys() == cellar.group_keys()


@pytest.mark.parametrize("foreign", ["server", "client"])
def test_a_machine_of_another_authority_is_rejected(
    authority: Authority, tmp_path: Path, foreign: str
) -> None:
    ours = keys(authority, "kitchen")
    other = keys(Authority.create(tmp_path / "other"), "kitchen")

    with pytest.raises(ssl.SSLError, match=r"verify failed|unknown ca"):
        shown(*((other, ours) if foreign == "server" else (ours, other)))


def test_an_authority_certifies_no_machine_beyond_its_own_keys(
    authority: Authority, tmp_path: Path
) -> None:
    """The key of a machine signs no other machine: it is no authority."""
    certificate = read_pem((keys(authority, "kitchen").folder / MACHINE).read_bytes())[
        0
    ]

    assert "ca=False" in str(certificate.extensions)


def test_its_keys_are_readable_by_their_owner_only(authority: Authority) -> None:
    folder = keys(authority, "kitchen").folder
    secret = [
        *(authority.folder / name for name in (AUTHORITY, GROUP_KEY)),
        *(folder / name for name in (MACHINE, GROUP_KEY)),
    ]

    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    assert stat.S_IMODE(authority.folder.stat().st_mode) == 0o700
    assert not list(authority.folder.glob(".*"))


# Rotation.


@clause("BUS-SEC-5")
def test_folders_may_be_replaced_in_any_order_after_a_rotation(
    authority: Authority,
) -> None:
    earlier = [keys(authority, name) for name in ("kitchen", "cellar")]
    authority.rotate()
    later = [keys(authority, name) for name in ("kitchen", "cellar")]

    for kitchen in (earlier[0], later[0]):
        for cellar in (earlier[1], later[1]):
            assert shown(kitchen, cellar) == (["ism://kitchen/"], ["ism://cellar/"])
            assert shown(cellar, kitchen) == (["ism://cellar/"], ["ism://kitchen/"])


@clause("BUS-SEC-6")
def test_announcements_are_accepted_while_the_group_key_is_replaced(
    authority: Authority,
) -> None:
    """Folders of neighbouring steps accept each other, and a retired key is refused."""
    before = keys(authority, "kitchen").group_keys()
    authority.rotate()
    during = keys(authority, "kitchen").group_keys()
    authority.retire()
    after = keys(authority, "kitchen").group_keys()

    assert (len(before), len(during), len(after)) == (1, 2, 1)
    for one, other in ((before, during), (during, after), (during, during)):
        assert is_signed(encode_announcement(ANNOUNCEMENT, one), other)
        assert is_signed(encode_announcement(ANNOUNCEMENT, other), one)
    assert not is_signed(encode_announcement(ANNOUNCEMENT, before), after)
    assert not is_signed(encode_announcement(ANNOUNCEMENT, after), before)


@clause("BUS-SEC-6")
def test_a_second_rotation_keeps_the_key_of_the_first(authority: Authority) -> None:
    authority.rotate()
    authority.retire()
    kept = keys(authority, "kitchen").group_keys()
    authority.rotate()

    assert keys(authority, "kitchen").group_keys()[1:] == kept


@clause("BUS-SEC-5")
def test_after_a_retirement_the_earlier_authority_is_not_trusted(
    authority: Authority,
) -> None:
    earlier = keys(authority, "kitchen")
    authority.rotate()
    keys(authority, "kitchen")
    authority.retire()
    later = keys(authority, "cellar")

    with pytest.raises(ssl.SSLError, match="verify failed"):
        shown(later, earlier)
    assert len(authority.trusted) == 1
    assert Authority(authority.folder).trusted == authority.trusted


def test_no_machine_is_locked_out_by_a_retirement(authority: Authority) -> None:
    keys(authority, "kitchen")
    keys(authority, "cellar")
    authority.rotate()
    keys(authority, "cellar")

    with pytest.raises(ValueError, match="kitchen would be locked out"):
        authority.retire()

    assert len(authority.trusted) == 2


def test_two_authorities_are_valid_at_most(authority: Authority) -> None:
    with pytest.raises(ValueError, match="no earlier authority"):
        authority.retire()
    authority.rotate()

    with pytest.raises(ValueError, match="two authorities are valid already"):
        authority.rotate()


@pytest.mark.deep
@clause("BUS-SEC-5", "BUS-SEC-6")
def test_a_rotation_that_is_cut_short_leaves_an_authority(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines accept each other after a crash between any two written files."""
    kitchen = keys(authority, "kitchen")
    for count in range(4):
        copy = authority.folder.parent / f"copy {count}"
        copy.mkdir()
        for path in authority.folder.iterdir():
            if path.is_file():
                (copy / path.name).write_bytes(path.read_bytes())
                (copy / path.name).chmod(path.stat().st_mode)
        (copy / "issued").mkdir()
        writes = iter(range(count))
        with monkeypatch.context() as patch:
            patch.setattr("bus.features.machines.authority.write_file", _cut(writes))
            with pytest.raises(OSError, match="no space"):
                Authority(copy).rotate()

        cellar = keys(Authority(copy), "cellar")

        assert shown(kitchen, cellar) == (["ism://kitchen/"], ["ism://cellar/"])
        assert shown(cellar, kitchen) == (["ism://cellar/"], ["ism://kitchen/"])
        assert accepts(kitchen, cellar)
        assert accepts(cellar, kitchen)

        authority_again = Authority(copy)
        authority_again.rotate()
        attic = keys(authority_again, "attic")

        assert shown(kitchen, attic) == (["ism://kitchen/"], ["ism://attic/"])
        assert accepts(kitchen, attic)
        assert len(attic.group_keys()) == len(authority_again.trusted) == 2
        with pytest.raises(ValueError, match="two authorities are valid already"):
            Authority(copy).rotate()


def _cut(writes: object) -> object:
    from bus.features.machines.machine_keys import write_file  # noqa: PLC0415 - the unpatched one

    def write(path: Path, data: bytes, *, secret: bool) -> None:
        if next(writes, None) is None:  # type: ignore[call-overload]
            raise OSError(28, "no space left on device", str(path))
        write_file(path, data, secret=secret)

    return write


# What it shows, and mistakes.


def test_the_latest_certificate_of_each_machine_is_listed(authority: Authority) -> None:
    keys(authority, "kitchen")
    keys(authority, "cellar", days=2)
    earlier = authority.name
    authority.rotate()
    keys(authority, "kitchen", days=3)

    rows = [
        (each.machine, (each.until - each.since).days, each.authority, each.current)
        for each in Authority(authority.folder).issued()
    ]

    assert rows == [("cellar", 2, earlier, False), ("kitchen", 3, authority.name, True)]


def test_an_authority_is_made_in_no_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "note").touch()

    with pytest.raises(FileExistsError, match="is not empty; name a new folder"):
        Authority.create(tmp_path)


def test_a_folder_without_an_authority_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="'bus keys init' makes one"):
        Authority(tmp_path)


@pytest.mark.parametrize(
    ("machine", "days", "words"),
    [
        ("a b", 1, "machine name must match"),
        ("../x", 1, "machine name must match"),
        ("kitchen", 0, "days must be from 1 to 3650, got 0"),
        ("kitchen", 3651, "got 3651"),
    ],
)
def test_a_wrong_request_makes_nothing(
    authority: Authority, tmp_path: Path, machine: str, days: int, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        authority.issue(machine, tmp_path / "out", days=days)

    assert not (tmp_path / "out").exists()
    assert authority.issued() == []


@pytest.mark.parametrize("name", [AUTHORITY, TRUSTED])
def test_a_damaged_file_is_named(authority: Authority, name: str) -> None:
    path = authority.folder / name
    path.write_bytes(path.read_bytes()[:200])

    with pytest.raises(ValueError, match=f"{name} is damaged"):
        Authority(authority.folder)


@needs_users
def test_an_open_key_is_not_used(authority: Authority) -> None:
    (authority.folder / AUTHORITY).chmod(0o640)

    with pytest.raises(AccessDeniedError, match="mode 0640; run chmod 600"):
        Authority(authority.folder)


def test_a_signature_for_another_authority_names_it_and_its_signer() -> None:
    earlier, later = new_authority(), new_authority()

    made = cross_sign(later.certificate, earlier)

    assert made.subject == later.certificate.subject
    assert made.issuer == earlier.certificate.subject
