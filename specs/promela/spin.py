"""One run of SPIN: translate a case into a C program, compile it, and run it.

SPIN reports in prose, which `parse` interprets. A search that did not visit every state
proves nothing and is an error, never a verdict.
"""

from __future__ import annotations

import enum
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from pathlib import Path

    from specs.promela.model import Case

__all__ = ["Finding", "Spin", "SpinError", "ToolMissingError", "Verdict", "parse"]

_COMPILERS: Final = ("cc", "gcc", "clang")
_DEPTH_MAX: Final = 20_000
_MEMORY_MIB_MAX: Final = 2048
_LIMIT_S: Final = 300
_COMPILE: Final = ("-w", f"-DMEMLIM={_MEMORY_MIB_MAX}")

_STATES = re.compile(r"^\s*(\d+) states, stored", re.MULTILINE)
_DEPTH = re.compile(r"depth reached (\d+), errors: (\d+)")
_SECONDS = re.compile(r"elapsed time ([\d.]+) seconds")
_BROKEN = re.compile(r"^pan:\d+: (assertion violated|acceptance cycle)", re.MULTILINE)
_INCOMPLETE = re.compile(
    r"max search depth too small|Search not completed|out of memory|reached -DMEMLIM"
)


class SpinError(Exception):
    """SPIN, the compiler or the search failed, so that there is no verdict."""


class ToolMissingError(Exception):
    """SPIN or a C compiler is not installed."""


class Verdict(enum.Enum):
    """The result of a complete search for a property."""

    HOLDS = "holds"
    BROKEN = "broken"


@attrs.frozen
class Finding:
    """The result of one run.

    states: number of states stored until the end, or until the property broke.
    depth: length of the longest path.
    seconds: duration of the search, without the compiler.
    """

    verdict: Verdict
    states: int
    depth: int
    seconds: float


def parse(text: str) -> Finding:
    """Parse the output of a verifier.

    Raises:
        SpinError: the search was not complete and did not break the property.
    """
    states, depth, seconds = (
        pattern.search(text) for pattern in (_STATES, _DEPTH, _SECONDS)
    )
    if states is None or depth is None or seconds is None:
        raise SpinError(f"cannot read what the verifier says: {_last_line(text)}")
    broken = _BROKEN.search(text) is not None
    if broken != (int(depth[2]) > 0):
        raise SpinError(f"the verifier found another error: {_first_error(text)}")
    if not broken and _INCOMPLETE.search(text):
        raise SpinError("the search was not completed: it needs more depth or memory")
    return Finding(
        Verdict.BROKEN if broken else Verdict.HOLDS,
        int(states[1]),
        int(depth[1]),
        float(seconds[1]),
    )


class Spin:
    """The tools, and a folder in which each variant of a model is compiled once.

    Raises:
        ToolMissingError: SPIN or a C compiler is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._verifiers: dict[tuple[str, tuple[str, ...]], Path] = {}
        spin = shutil.which("spin")
        compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
        if spin is None or compiler is None:
            raise ToolMissingError(
                "spin and a C compiler are needed: apt-get install spin gcc"
            )
        self._spin: str = spin
        self._compiler: str = compiler

    def run(self, case: Case) -> Finding:
        """Search every state of a case.

        Raises:
            SpinError: the search could not be completed.
        """
        verifier = self._verifier(case)
        # All cycles in which a claim accepts (-a), fair or not. The properties decide
        # whether a run may end with a process waiting, so SPIN ignores that (-E).
        flags = ("-a", "-E", f"-m{_DEPTH_MAX}", "-N", case.prop)
        return parse(_output([str(verifier), *flags], verifier.parent))

    def _verifier(self, case: Case) -> Path:
        key = (case.model.name, case.defines)
        if key not in self._verifiers:
            place = self._folder / f"{case.model.name}-{len(self._verifiers)}"
            place.mkdir()
            (place / case.model.file).write_text(case.model.text(), encoding="utf-8")
            defines = [f"-D{each}" for each in case.defines]
            # By the compiler found: SPIN itself supports only gcc.
            preprocess = f"-P{self._compiler} -E -x c"
            source = [self._spin, preprocess, *defines, "-a", case.model.file]
            said = _output(source, place)
            if not (place / "pan.c").exists() or "Error:" in said:
                raise SpinError(f"cannot read {case.model.file}: {_first_error(said)}")
            # A fault is found soon: to optimize takes longer than to search.
            effort = "-O1" if case.holds else "-O0"
            command = [self._compiler, *_COMPILE, effort, "-o", "pan", "pan.c"]
            said = _output(command, place)
            if not (place / "pan").exists():
                raise SpinError(f"cannot compile {case.model.file}: {said.strip()}")
            self._verifiers[key] = place / "pan"
        return self._verifiers[key]


def _output(command: list[str], folder: Path) -> str:
    """Run a program and return its output; its exit code adds no information."""
    try:
        done = subprocess.run(  # noqa: S603  # programs we found or made ourselves
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SpinError(f"{command[0]} did not end within {_LIMIT_S} s") from None
    except OSError as error:
        raise SpinError(f"cannot run {command[0]}: {error}") from error
    return done.stdout


def _first_error(text: str) -> str:
    lines = text.splitlines()
    return next((line for line in lines if "rror" in line or "pan:" in line), "nothing")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing"])[-1]
