"""What can be a program: `check_program` before any run, `ran_nothing` after each.

Calling some functions only makes an object, of which nothing has run yet: a coroutine,
a generator. As a program such a function would hold under every schedule.
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
    """Calling the program has run nothing of it, or would run nothing of it."""

    def __init__(self) -> None:
        super().__init__(f"program {NOT_PLAIN}")


def check_program(program: Callable[[Run], object]) -> None:
    """Find before any run what would be told as the fault of a schedule, or never.

    Raises:
        NotPlainError: it is not `is_plain`.
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
    """Whether nothing shows that calling it would only make an object.

    A lambda, or a decorator that calls such a function, shows it when it has returned:
    see `ran_nothing`.
    """
    function = _function_of(program)
    return not (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def ran_nothing(returned: Any) -> bool:
    """Whether what a program returned is all that its call has made.

    A coroutine is closed, or the interpreter would warn that nobody awaited it.
    """
    # Its type is asked, because an instance may answer with code of its own.
    kind = type(returned)
    if issubclass(kind, Coroutine):
        returned.close()
        return True
    return issubclass(kind, (Generator, AsyncGenerator))


def _function_of(program: Any) -> Any:
    """What is called in the end, by a `partial`, a bound method, an instance.

    Not ``__wrapped__``, as `inspect.unwrap` would: a decorator may well make a plain
    function of a coroutine function, by driving it to its end.
    """
    while True:
        if isinstance(program, functools.partial):
            program = program.func
        elif inspect.ismethod(program):
            program = program.__func__
        elif inspect.isroutine(program) or isinstance(program, type):
            return program
        else:
            # A call looks into the class. That of a class written in C ends it.
            call = type(program).__call__
            if not inspect.isfunction(call):
                return program
            program = call
