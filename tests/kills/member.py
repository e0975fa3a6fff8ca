"""`Member`: one life of a process of the bus, as its starter sees it.

No thread reads its answers: the caller waits, with a limit, so that a process that
hangs is a fault with a name.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tests.kills.load import PUBLIC
from tests.kills.worker import is_client
from tests.processes import import_path
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Member", "MemberError"]

_LIMIT_S: Final = 60.0


class MemberError(AssertionError):
    """A process hangs, or reports that an order failed."""


class Member:
    """A process that executes orders; it joins on order.

    Args:
        module: its program; prefix: the words of its command before the interpreter,
            arguments: those at the end; run: its run directory.

    Attributes:
        life: its name and number, as ``a.3``. name: of the process.
        incarnation: its number on the bus, once it has joined.
        hosted: names of the tasks that it has.
    """

    def __init__(
        self,
        name: str,
        number: int,
        folder: Path,
        seed: int,
        *,
        module: str = "tests.kills.worker",
        prefix: Sequence[str] = (),
        arguments: Sequence[str | Path] = (),
        run: Path | None = None,
    ) -> None:
        self.name: Final = name
        self.life: Final = f"{name}.{number}"
        self.incarnation: int = 0
        self.client: Final = is_client(name)
        self.hosted: set[str] = (
            set() if self.client else {f"{each}/{name}" for each in PUBLIC}
        )
        self._process: Final = subprocess.Popen(
            [
                *prefix,
                sys.executable,
                "-m",
                module,
                self.life,
                folder / "notes",
                str(seed),
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={
                **os.environ,
                "PYTHONPATH": import_path(),
                "BUS_RUN_DIR": str(folder / "run" if run is None else run),
            },
        )
        self._rest = b""

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    # Orders.

    def tell(self, verb: str, *arguments: Any) -> None:
        """Send an order, and do not wait.

        Raises:
            MemberError: the process is dead.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([verb, *arguments]).encode() + b"\n")
        except BrokenPipeError:
            raise MemberError(f"{self.life} is dead, told to {verb}") from None

    def answer(self, limit_s: float = _LIMIT_S) -> Any:
        """Wait for the answer to the next order.

        Raises:
            MemberError: there is none in time, or it is an error.
        """
        kind, value = json.loads(self._line(monotonic() + limit_s))
        if kind != "ok":
            raise MemberError(f"{self.life}: {value}")
        return value

    @property
    def alive(self) -> bool:
        """True if the process has not ended."""
        return self._process.poll() is None

    def answered(self, wait_s: float) -> bool:
        """Whether an answer is here, or it has ended; waits some seconds for that."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], wait_s)[0])

    def do(self, verb: str, *arguments: Any) -> Any:
        """Send an order; return its result."""
        self.tell(verb, *arguments)
        try:
            return self.answer()
        except MemberError as error:
            raise MemberError(f"{error}, told to {verb} {arguments}") from None

    def _line(self, deadline: float) -> bytes:
        pipe = self._process.stdout
        assert pipe is not None
        while b"\n" not in self._rest:
            wait_s = max(0.0, deadline - monotonic())
            if not select.select([pipe], [], [], wait_s)[0]:
                raise MemberError(f"{self.life} does not answer")
            received = os.read(pipe.fileno(), 1 << 16)
            if not received:
                raise MemberError(f"{self.life} is dead")
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    # The end.

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def killed(self, number: int) -> None:
        """Wait until a signal has taken effect.

        Raises:
            AssertionError: the process was not struck.
        """
        if number == signal.SIGKILL:
            try:
                code = self._process.wait(_LIMIT_S)
            except subprocess.TimeoutExpired:
                raise MemberError(f"{self.life} was not struck") from None
            if code != -signal.SIGKILL:
                raise MemberError(f"{self.life} ended by itself: {code}")
            self._close()
            return
        until(lambda: self._state() == "T", f"{self.life} is stopped", limit_s=_LIMIT_S)

    def _state(self) -> str:
        text = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii")
        return text.rpartition(")")[2].split()[0]

    def leave(self) -> None:
        """Let the process shut down in order.

        Raises:
            MemberError: it leaves something behind, or fails.
        """
        left = self.do("leave")
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(_LIMIT_S)
        self._close()
        if left or code:
            raise MemberError(f"{self.life} left with {code}, and leaves {left}")

    def end(self) -> None:
        """End the process, in any state."""
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
