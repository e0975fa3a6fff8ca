"""`ProgramFile`: a program in a file of its own, as students write them.

The file is executed anew for every run, as part of the run: its global variables and
the objects of its top level are new each time. Its imports are executed once; modules
in the same folder are treated as `explore` treats ``modules``.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from queuebroker.testing.bytecode import Bytecode
from queuebroker.testing.program import NOT_PLAIN, is_plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

    from queuebroker.testing.run import Run

__all__ = ["ProgramFile", "ProgramFileError"]

# Not the file's own name, which may be the name of a library module.
_MODULE: Final = "__explored__"


class ProgramFileError(Exception):
    """The file has no such program; the text gives the reason, in one line."""


class ProgramFile:
    """A function of a file, called as the program of a run.

    modules: the modules that the file has imported from its own folder.
    with_code: these and the file itself, if they have functions.
    """

    def __init__(self, path: Path, name: str) -> None:
        """Execute the file once, to find the function and the modules.

        Raises:
            ProgramFileError: the file cannot be read or executed; it has no such
                function; a call of the function runs none of its code; or the function
                takes other arguments than none or a ``run``.
        """
        self._name = name
        self._loader = _CompilesOnce(_MODULE, str(path))
        known = set(sys.modules)
        try:
            module = self._executed()
        except OSError as error:
            msg = f"cannot read {path}: {error.strerror or error}"
            raise ProgramFileError(msg) from None
        except (Exception, SystemExit) as error:  # of a user's own code
            msg = f"cannot execute {path}: {type(error).__name__}: {error}"
            raise ProgramFileError(" ".join(msg.split())) from error
        self._takes_run = _takes_run(getattr(module, name, None), f"{path}:{name}")
        self.modules: list[ModuleType] = [
            other
            for key, other in list(sys.modules.items())
            if key not in known
            and key != _MODULE
            and _lies_in(other, path.parent)
            # A module may have replaced itself in `sys.modules` by any object.
            and isinstance(other, ModuleType)
        ]
        self.with_code: list[ModuleType] = [
            each for each in (module, *self.modules) if _has_code(each)
        ]

    def __call__(self, run: Run) -> object:
        """Execute the file, and call the function."""
        program = getattr(self._executed(), self._name)
        return program(run) if self._takes_run else program()

    @classmethod
    @contextmanager
    def opened(cls, path: Path, name: str) -> Iterator[ProgramFile]:
        """Open a file in which imports from its own folder work, as in a script."""
        folder = str(path.resolve().parent)
        known = set(sys.modules)
        sys.path.insert(0, folder)
        try:
            program = cls(path, name)
            yield program
        finally:
            sys.path.remove(folder)
            for key in set(sys.modules) - known:
                if key == _MODULE or _lies_in(sys.modules[key], Path(folder)):
                    del sys.modules[key]

    def _executed(self) -> ModuleType:
        spec = ModuleSpec(_MODULE, self._loader, origin=self._loader.path)
        spec.has_location = True
        module = importlib.util.module_from_spec(spec)
        sys.modules[_MODULE] = module  # dataclasses, for one, look it up there
        self._loader.exec_module(module)
        return module


class _CompilesOnce(SourceFileLoader):
    """A loader with one code object for all runs, which leaves no compiled file."""

    _code: CodeType | None = None

    def get_code(self, fullname: str) -> CodeType | None:
        if self._code is None:
            path = self.get_filename(fullname)
            self._code = self.source_to_code(self.get_data(path), path)
        return self._code


def _takes_run(program: Any, where: str) -> bool:
    """Return True if a function takes the run as its argument.

    Raises:
        ProgramFileError: it is no plain function, or takes other arguments than none or
            the run.
    """
    if not callable(program):
        missing = "does not exist: define it, or name another function: FILE:function"
        what = "is no function" if program is not None else missing
        raise ProgramFileError(f"{where} {what}")
    if not is_plain(program):
        raise ProgramFileError(f"{where} {NOT_PLAIN}")
    signature = inspect.signature(program)
    for arguments in ((), ("run",)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return bool(arguments)
    raise ProgramFileError(f"{where} takes other arguments than none or a run")


def _has_code(module: ModuleType) -> bool:
    try:
        Bytecode([module])
    except TypeError:
        return False
    return True


def _lies_in(module: ModuleType, folder: Path) -> bool:
    path = getattr(module, "__file__", None)
    return path is not None and folder.resolve() in Path(path).resolve().parents
