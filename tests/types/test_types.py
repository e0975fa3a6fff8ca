"""The public types, as two type checkers see them in the samples beside this file.

The samples are checked alone, against the package as it is found here: in the tree or
installed, where only ``py.typed`` makes its types count.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Callable

    Check = Callable[[Path], subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.deep

_HERE = Path(__file__).parent
_LIMIT_S = 110


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give one folder for all checks, for the sake of the cache in it."""
    return tmp_path_factory.mktemp("types")


@pytest.fixture(params=["mypy", "basedpyright"])
def check(request: pytest.FixtureRequest, folder: Path) -> Check:
    """Check one file strictly with each of the two checkers."""
    if request.param == "mypy":
        return lambda sample: _mypy(folder, sample)
    return lambda sample: _basedpyright(folder, sample)


@clause("QB-PY-6")
def test_public_objects_have_the_expected_types(check: Check) -> None:
    """Everything public has type hints, and they are these."""
    _must_be_clean(check(_HERE / "public.py"))


@clause("QB-RDV-14")
def test_connect_gives_no_none_where_the_name_is_required(check: Check) -> None:
    """The static type of ``connect(..., required=True)`` has no None in it."""
    _must_be_clean(check(_HERE / "connect.py"))


@clause("QB-PY-6")
def test_awaited_results_have_the_expected_types(check: Check) -> None:
    """The faces for coroutines have the types of the plain ones."""
    _must_be_clean(check(_HERE / "coroutines.py"))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("assert_type(queue.receive(), bytes)", "assert_type(queue.receive(), str)"),
        ("queue.send('x')  # type: ignore[arg-type] # text", "queue.send('x')"),
        ("queue.send(b'x')", "queue.send(b'x')  # type: ignore[arg-type] # needless"),
    ],
    ids=["another type", "refused argument", "needless ignore"],
)
def test_the_checkers_find_a_wrong_line(
    check: Check, tmp_path: Path, right: str, wrong: str
) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(_SAMPLE.format(line=right))
    _must_be_clean(check(sample))

    sample.write_text(_SAMPLE.format(line=wrong))
    answer = check(sample)

    assert answer.returncode == 1, answer.stdout
    assert answer.stdout.count("error:") == 1, answer.stdout


_SAMPLE = """
from typing import assert_type
from queuebroker import MessageQueue

def use(queue: MessageQueue) -> None:
    assert_type(queue.port, int)
    {line}
"""


def _must_be_clean(answer: subprocess.CompletedProcess[str]) -> None:
    assert answer.returncode == 0, answer.stdout


def _mypy(folder: Path, sample: Path) -> subprocess.CompletedProcess[str]:
    config = folder / "mypy.ini"
    config.write_text("[mypy]\nstrict = true\nwarn_unreachable = true\n")
    command = [
        sys.executable,
        *("-m", "mypy", "--config-file", str(config)),
        *("--cache-dir", str(folder / "cache"), str(sample)),
    ]
    return _run(command, folder, MYPYPATH=_where_not_installed())


def _basedpyright(folder: Path, sample: Path) -> subprocess.CompletedProcess[str]:
    config = folder / "pyrightconfig.json"
    config.write_text(
        json.dumps(
            {
                "include": [str(sample)],
                "typeCheckingMode": "strict",
                "enableTypeIgnoreComments": True,
                "reportUnnecessaryTypeIgnoreComment": "error",
                # The samples declare locals for their types alone.
                "reportUnusedExpression": "none",
                "reportUnusedParameter": "none",
                "extraPaths": [path for path in [_where_not_installed()] if path],
            }
        )
    )
    binary = Path(sys.executable).with_name("basedpyright")
    command = [str(binary), "--pythonpath", sys.executable, "-p", str(config)]
    return _run(command, folder)


def _where_not_installed() -> str:
    """Name the folder to look for the package in, "" if it is in site-packages."""
    spec = importlib.util.find_spec("queuebroker")
    assert spec is not None
    assert spec.origin is not None
    parent = Path(spec.origin).parents[1]
    return "" if parent.name == "site-packages" else str(parent)


def _run(
    command: list[str], folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LIMIT_S,
        env={**os.environ, **environment},
    )
