"""`Site`: machines in network namespaces, each with one master under load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.features.machines.authority import Authority
from tests.kills.member import Member
from tests.network.ethernet import Ethernet

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

__all__ = ["Site"]

_TASKS: Final = ("fast", "slow", "ghost")


class Site:
    """A context manager; the machines run within its block.

    Args:
        folder: holds notes, keys and run directories. Its path is short, since the
            length of a socket path is limited.
        count: the number of machines.
        seed: the source of all faults and of all load.
        discovery: how the machines find each other, ``lan`` or ``wan``; "" if each
            machine has the addresses of all earlier ones.
        version: the version of IP.

    Attributes:
        ethernet: the network.
        members: the masters.
        dead: the lives that were killed.
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        seed: int,
        *,
        discovery: str = "lan",
        version: int = 4,
    ) -> None:
        self._folder: Final = folder
        self._seed: Final = seed
        self.count: Final = count
        self.machines: Final = [f"m{number}" for number in range(count)]
        self.ethernet: Final = Ethernet(self.machines, "10.78", seed)
        self.members: Final[list[Member]] = []
        self.dead: Final[set[str]] = set()
        self._lives: Final = [0] * count
        (folder / "notes").mkdir(parents=True)
        authority = Authority.create(folder / "authority")
        for number, name in enumerate(self.machines):
            authority.issue(name, folder / f"{name}.keys", days=1)
            own, *_ = addresses = [
                self.ethernet.address(each, version) for each in range(number, -1, -1)
            ]
            earlier = addresses[1:]
            lines = [
                f'listen = "{own}"',
                f'keys = "{name}.keys"',
                f'discovery = "{discovery}"' if discovery else f"peers = {earlier}",
            ]
            (folder / f"{name}.toml").write_text("\n".join(lines) + "\n", "utf-8")

    def __enter__(self) -> Self:
        self.ethernet.__enter__()
        try:
            self.members.extend(self._launch(each) for each in range(self.count))
            for each in self.members:
                each.tell("join")
            for each in self.members:
                each.incarnation = each.answer()
            self._start_load(self.members)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.members:
            each.end()
        self.ethernet.__exit__()

    def _launch(self, number: int) -> Member:
        name = self.machines[number]
        self._lives[number] += 1
        return Member(
            name,
            self._lives[number],
            self._folder,
            self._seed,
            module="tests.network.worker",
            prefix=["ip", "netns", "exec", self.ethernet.names[number]],
            arguments=[self._folder / f"{name}.toml"],
            run=self._folder / f"run-{name}",
        )

    def _start_load(self, members: list[Member]) -> None:
        """Let some members subscribe to all other machines, and send to all tasks."""
        for each in members:
            each.do("subscribe", self.others(each))
            each.do("go", self.tasks())

    def others(self, member: Member) -> list[str]:
        """Return the machines other than that of a member."""
        return [each for each in self.machines if each != member.name]

    def tasks(self) -> list[str]:
        """Return the addressees of all messages."""
        return [
            f"ism://{name}/{task}/{name}" for name in self.machines for task in _TASKS
        ]

    # Process faults.

    def kill(self, number: int) -> None:
        """Kill a master."""
        member = self.members[number]
        self.dead.add(member.life)
        member.end()

    def start(self, number: int) -> None:
        """Start the next life of a killed master."""
        self.members[number] = member = self._launch(number)
        member.incarnation = member.do("join")
        self._start_load([member])
