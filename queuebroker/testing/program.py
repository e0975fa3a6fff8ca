"""The checks of a program: `check_program` before any run, `ran_nothing` after each.

A call of some functions only creates an object and runs none of its code: a coroutine,
a generator. As a program such a function would pass under every schedule.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing.run import Run

__all__ = ["NOT_PLAIN", "NotPlainError", "check_program", "is_plain", "ran_nothing"]

NOT_PLAIN: Final = (
    "must be a plain function: calling a coroutine function or a generator runs nothing"
    " of it"
)


class NotPlainError(TypeError):
    """A call of the program ran, or would run, none of its code."""

    def __init__(self) -> None:
        super().__init__(f"program {NOT_PLAIN}")


def check_program(program: Callable[[Run], object]) -> None:
    """Check a program before any run.

    Otherwise these errors would be reported as failures of a schedule, or never.

    Raises:
        NotPlainError: the program is not `is_plain`.
        TypeError: it does not take the run.
    """
    if not is_plain(program):
        raise NotPlainError
    try:
        inspect.signature(program).bind(None)
    except TypeError as error:
        msg = f"program must take one argument, the Run: {error}"
        raise TypeError(msg) from None
    except ValueError:
        return  # written in C, without a signature


def is_plain(program: object) -> bool:
    """Return False if it is known that a call would only create an object.

    For a lambda or a decorator that calls such a function, only its return value shows
    this: see `ran_nothing`.
    """
    function = _function_of(program)
    return not (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def ran_nothing(returned: Any) -> bool:
    """Return True if a program only returned an object whose code has not run.

    A coroutine is closed; otherwise the interpreter would warn that it was never
    awaited.
    """
    # By its type: a test of the instance could run code of its own.
    kind = type(returned)
    if issubclass(kind, Coroutine):
        returned.close()
        return True
    return issubclass(kind, (Generator, AsyncGenerator))


def _function_of(program: Any) -> Any:
    """Return the function that a `partial`, a bound method or an instance calls.

    Do not follow ``__wrapped__``, as `inspect.unwrap` does: a decorator may turn a
    coroutine function into a plain function, by running the coroutine to its end.
    """
    while True:
        if isinstance(program, functools.partial):
            program = program.func
        elif inspect.ismethod(program):
            program = program.__func__
        elif inspect.isroutine(program) or isinstance(program, type):
            return program
        else:
            # A call uses the class's `__call__`; one written in C ends the search.
            call = type(program).__call__
            if not inspect.isfunction(call):
                return program
            program = call
