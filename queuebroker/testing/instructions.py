"""`points_of`: the instructions of a function that other threads could notice.

Between two threads, an order matters only for instructions that touch data that both
can reach. The tables list all other instructions. An instruction in no table counts as
touching anything: with new instructions a search becomes slower, never less complete.
"""

from __future__ import annotations

import dis
import sys
from functools import cached_property, partial, partialmethod
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Instruction", "NamedCode", "looks_of", "nested", "points_of"]

# Reason not to be a switch point -> the instructions, of CPython 3.11 to 3.15. An
# instruction that drops a value may finalize it. A finalizer in Python is a function of
# its own, with switch points if it is named.
_LOCAL: Final[Mapping[str, str]] = {
    "marks a place, and does nothing": (
        "CACHE NOP RESUME PRECALL KW_NAMES EXTENDED_ARG JUMP_FORWARD JUMP_BACKWARD"
        " JUMP_BACKWARD_NO_INTERRUPT END_FOR END_SEND NOT_TAKEN"
    ),
    "moves references between the variables and the stack of its own frame": (
        "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_FAST_LOAD_FAST STORE_FAST"
        " STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST DELETE_FAST COPY SWAP POP_TOP"
        " PUSH_NULL LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW POP_ITER"
    ),
    "loads what never changes": (
        "LOAD_CONST LOAD_ASSERTION_ERROR LOAD_BUILD_CLASS LOAD_SMALL_INT"
        " LOAD_COMMON_CONSTANT"
    ),
    "makes an object that no other task knows yet, from values on its stack": (
        "MAKE_CELL COPY_FREE_VARS LOAD_CLOSURE MAKE_FUNCTION SET_FUNCTION_ATTRIBUTE"
        " BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_CONST_KEY_MAP BUILD_STRING"
        " BUILD_SLICE LIST_TO_TUPLE"
    ),
    "adds to what a comprehension of its own makes": "LIST_APPEND SET_ADD MAP_ADD",
    "compares references": (
        "IS_OP POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE"
        " POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_NONE"
        " POP_JUMP_BACKWARD_IF_NOT_NONE"
    ),
    "handles an exception of its own thread": (
        "PUSH_EXC_INFO POP_EXCEPT CHECK_EXC_MATCH RERAISE"
    ),
    "ends its frame, or makes a generator of it": (
        "RETURN_VALUE RETURN_CONST RETURN_GENERATOR"
    ),
}
_LOCAL_NAMES: Final = frozenset(" ".join(_LOCAL.values()).split())

# These test the truth of a value. Before 3.13 that may read the contents of the value.
# After the instructions in `_ANSWERS` the value is a bool or a comparison's result.
_ASKS: Final = frozenset(
    {
        "UNARY_NOT",
        "POP_JUMP_IF_TRUE",
        "POP_JUMP_IF_FALSE",
        "POP_JUMP_FORWARD_IF_TRUE",
        "POP_JUMP_FORWARD_IF_FALSE",
        "POP_JUMP_BACKWARD_IF_TRUE",
        "POP_JUMP_BACKWARD_IF_FALSE",
        "JUMP_IF_FALSE_OR_POP",
        "JUMP_IF_TRUE_OR_POP",
    }
)
_ANSWERS: Final = frozenset(
    {
        "CHECK_EXC_MATCH",
        "COMPARE_OP",
        "CONTAINS_OP",
        "IS_OP",
        "TO_BOOL",
        "UNARY_NOT",
    }
)
_ASKS_BOOLS_ONLY: Final = sys.version_info >= (3, 13)

# Instructions that touch the one variable named by their argument -> its kind.
_VARIABLES: Final[Mapping[str, str]] = {
    "ATTR": "attribute",
    "METHOD": "attribute",
    "GLOBAL": "global",
    "NAME": "global",
    "DEREF": "cell",
}

# After these the interpreter checks for interrupts: after a call of a function that is
# not written in Python, and after a jump that is taken. It also checks at the beginning
# of each function, and nowhere else.
_CALLS: Final = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
_JUMPS_BACK: Final = frozenset(
    {
        "JUMP_BACKWARD",
        "POP_JUMP_BACKWARD_IF_TRUE",
        "POP_JUMP_BACKWARD_IF_FALSE",
        "POP_JUMP_BACKWARD_IF_NONE",
        "POP_JUMP_BACKWARD_IF_NOT_NONE",
    }
)

# Tracing reports the prefix instead of the instruction, monitoring reports both.
_PREFIX_IS_SEEN: Final = sys.version_info < (3, 12)


@attrs.frozen
class Instruction:
    """An instruction that other threads could notice, or that could notice them.

    text: the instruction as `dis` writes it.
    variable: the one variable that it touches; "" if it may touch anything.
    writes: True if it may change that variable.
    """

    text: str
    variable: str
    writes: bool


def points_of(code: CodeType) -> dict[int, Instruction]:
    """Return the instructions that other threads could notice, by their offsets."""
    points = {}
    before = ""  # the instruction that always precedes this one
    prefixed_at: int | None = None
    for each in dis.get_instructions(code):
        name = each.opname
        if each.is_jump_target:
            before = ""
        if name == "EXTENDED_ARG":
            prefixed_at = each.offset if prefixed_at is None else prefixed_at
            continue
        asks_a_bool = name in _ASKS and (_ASKS_BOOLS_ONLY or before in _ANSWERS)
        if name not in _LOCAL_NAMES and not asks_a_bool:
            points[_seen_at(each.offset, prefixed_at)] = _described(
                name, each.argval, each.argrepr
            )
        before, prefixed_at = name, None
    return points


def looks_of(code: CodeType) -> dict[int, int]:
    """Return the checks for interrupts: an instruction's offset -> the next one's."""
    looks = {}
    called_at = prefixed_at = None
    for each in dis.get_instructions(code):
        if called_at is not None:
            looks[called_at] = each.offset
        called_at = None
        if each.opname == "EXTENDED_ARG":
            prefixed_at = each.offset if prefixed_at is None else prefixed_at
            continue
        seen_at = _seen_at(each.offset, prefixed_at)
        if each.opname in _CALLS:
            called_at = seen_at
        elif each.opname in _JUMPS_BACK:
            looks[seen_at] = each.argval
        prefixed_at = None
    return looks


def nested(codes: Iterable[CodeType]) -> list[CodeType]:
    """Return the code objects and all those nested in them: lambdas, comprehensions."""
    found: list[CodeType] = []
    todo = list(codes)
    while todo:
        code = todo.pop()
        found.append(code)
        todo += [each for each in code.co_consts if isinstance(each, type(code))]
    return found


def _seen_at(offset: int, prefixed_at: int | None) -> int:
    return prefixed_at if _PREFIX_IS_SEEN and prefixed_at is not None else offset


def _described(name: str, value: object, told: str) -> Instruction:
    access, _, what = name.partition("_")
    kind = _VARIABLES.get(what)
    if kind is not None and access in {"LOAD", "STORE", "DELETE"}:
        return Instruction(f"{name} {value}", f"{kind} {value}", access != "LOAD")
    return Instruction(f"{name} {told}".rstrip(), "", writes=True)


class NamedCode:
    """The code that a test names to get switch points inside of lines.

    names: the names of the named objects, as written in source.
    codes: all code objects of these functions, classes and modules. The keys are their
      identities, because the hash of a code object is computed anew from its whole
      contents every time.
    points: for each, the instructions that are switch points, by their offsets.
    looks: for each, the instructions after which the interpreter checks for interrupts.
    """

    def __init__(self, named: Iterable[object]) -> None:
        """Find the code.

        Raises:
            TypeError: an object is of another kind, or has no code in Python.
        """
        self.names: list[str] = []
        codes: list[CodeType] = []
        for each in named:
            found = list(_codes_of(each))
            if not found:
                msg = (
                    "bytecode takes functions, classes and modules with code in"
                    f" Python, got {each!r}"
                )
                raise TypeError(msg)
            codes += found
            self.names.append(_name_of(each))
        self.codes: dict[int, CodeType] = {id(code): code for code in nested(codes)}
        self.points: dict[int, dict[int, Instruction]] = {
            key: points_of(code) for key, code in self.codes.items()
        }
        self.looks: dict[int, dict[int, int]] = {
            key: looks_of(code) for key, code in self.codes.items()
        }


def _codes_of(named: object) -> Iterator[CodeType]:
    """Yield the code of a function, of all methods of a class, or of a whole module."""
    if isinstance(named, ModuleType):
        for value in list(vars(named).values()):
            if getattr(value, "__module__", None) == named.__name__:
                yield from _codes_of(value)
    elif isinstance(named, type):
        within = f"{named.__qualname__}."
        for value in list(vars(named).values()):
            if not isinstance(value, type):
                yield from _codes_of_function(value)
            elif value.__qualname__.startswith(within):
                yield from _codes_of(value)
    else:
        yield from _codes_of_function(named)


def _codes_of_function(named: object) -> Iterator[CodeType]:
    if isinstance(named, FunctionType):
        yield named.__code__
    for inner in _within(named):
        if inner is not None:
            yield from _codes_of_function(inner)


def _within(named: Any) -> Iterator[object]:
    """Yield the functions inside a wrapper, which may be named in their place."""
    if isinstance(named, property):
        yield from (named.fget, named.fset, named.fdel)
    elif isinstance(named, (staticmethod, classmethod, MethodType)):
        yield named.__func__
    elif isinstance(named, (partial, partialmethod, cached_property)):
        yield named.func
    else:
        yield getattr(named, "__dict__", {}).get("__wrapped__")


def _name_of(named: object) -> str:
    if isinstance(named, ModuleType):
        return named.__name__
    return str(getattr(named, "__qualname__", named)).rpartition("<locals>.")[2]
