"""The pytest11 entry point: the option ``--conformance``, and nothing else.

It is loaded with every pytest of whoever has the package installed, so it must stay
this small and do nothing where the option is not given. The suite that the option is
for lies in ``specs/conformance``; without a path on the command line it is what runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__all__ = ["pytest_addoption", "pytest_load_initial_conftests"]

# Both packages are of one distribution, so one lies beside the other. Asking the
# import system instead could find somebody else's ``specs``.
_SUITE = Path(__file__).parents[2] / "specs" / "conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which an implementation is handed to the suite."""
    parser.getgroup("queuebroker").addoption(
        "--conformance",
        metavar="FILE:factory",
        default=None,
        help="test this implementation of the channel contract; also module:factory",
    )


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """With the option and without a path, the suite is what to run."""
    known = early_config.known_args_namespace
    if known.conformance is not None and not known.file_or_dir:
        args.append(str(_SUITE))
