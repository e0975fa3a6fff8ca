"""The mutants that cosmic-ray makes of pure code: operators, constants, conditions.

Of each place that an operator can change, one change is drawn; of these a sample. Only
code of functions is changed, and no annotation, assertion or text of an error.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from tests.mutants.collected import NOTE
from tests.mutants.edit import statement_changes
from tests.mutants.library import LIBRARY, source

try:
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import MutationVisitor
    from cosmic_ray.operators.operator import Operator
    from cosmic_ray.plugins import get_operator, operator_names
except ImportError as error:
    message = f"{error}: install the extra 'mutants' (pip install -e '.[mutants]')"
    raise SystemExit(message) from None

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FOLDERS", "Change", "Folder", "marked", "sample"]

SEED: Final = 1
# Those of mutmut and PIT: a bound, a negation, the opposite of an operator. The others
# of cosmic-ray change nothing at most places (`-` by `^`), or break the syntax.
_OPERATORS: Final = re.compile(
    "core/(ReplaceComparisonOperator_(Lt_LtE|Lt_GtE|LtE_Lt|LtE_Gt|Gt_GtE|Gt_LtE|GtE_Gt"
    "|GtE_Lt|Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is)"
    "|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul|Mod_Mul"
    "|LShift_RShift|RShift_LShift|BitAnd_BitOr|BitOr_BitAnd|BitXor_BitAnd)"
    "|ReplaceUnaryOperator_Delete_.*|AddNot|ReplaceTrueWithFalse|ReplaceFalseWithTrue"
    "|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceBreakWithContinue"
    "|ReplaceContinueWithBreak|ExceptionReplacer|NumberReplacer|ZeroIterationForLoop)"
)
_LEFT_OUT: Final = frozenset(
    {"annassign", "tfpdef", "assert_stmt", "raise_stmt", "decorator", "fstring"}
)


@attrs.frozen
class Folder:
    """A part of the library of which mutants are made.

    code: its files or folders. tests: those of the tests that may catch a mutant.
    count: the size of the sample.
    """

    code: tuple[str, ...]
    tests: tuple[str, ...]
    count: int

    def files(self) -> list[str]:
        """Return the files of the code, relative to the folder of the packages."""
        found = set[Path]()
        for path in (LIBRARY / each for each in self.code):
            found |= {path} if path.is_file() else set(path.rglob("*.py"))
        return sorted(str(file.relative_to(LIBRARY)) for file in found)


_BUS_TESTS: Final = (
    *("tests/kernel", "tests/simulate", "tests/process", "tests/bus"),
    *("tests/features/machines", "tests/features/subscriptions"),
    *("tests/features/durable", "tests/features/moving"),
    "tests/features/memory/test_long_fast_path.py",
)
FOLDERS: Final = {
    "queuebroker/channel": Folder(
        ("queuebroker/channel",), ("tests/queuebroker", "tests/spec"), 60
    ),
    "bus/kernel/streams": Folder(
        ("bus/kernel/streams",),
        ("tests/kernel", "tests/simulate", "tests/features/durable"),
        60,
    ),
    "bus/kernel/wire": Folder(
        ("bus/kernel/wire", "bus/features/subscriptions/frames.py"),
        ("tests/kernel",),
        60,
    ),
    "bus/kernel/peer": Folder(("bus/kernel/peer",), _BUS_TESTS, 60),
    "bus/kernel/links": Folder(
        (
            *("bus/kernel/dispatch.py", "bus/kernel/fast_path.py"),
            *("bus/kernel/name_registry.py", "bus/kernel/process_loss.py"),
            *("bus/kernel/relays.py", "bus/kernel/remote_manager.py"),
            *("bus/kernel/task_announcer.py", "bus/kernel/topology.py"),
            *("bus/kernel/links", "bus/kernel/messages", "bus/kernel/searches"),
            "bus/features/subscriptions/presence.py",
            "bus/features/subscriptions/remote_presence.py",
            "bus/features/subscriptions/remote_subscriptions.py",
            "bus/features/machines/machine_dialler.py",
        ),
        _BUS_TESTS,
        60,
    ),
    "bus/kernel/tasks": Folder(("bus/kernel/tasks",), _BUS_TESTS, 60),
    "bus/journal": Folder(
        (
            *("bus/journal/bus_traffic.py", "bus/journal/flow.py"),
            *("bus/journal/format.py", "bus/journal/header.py"),
            *("bus/journal/rules.py", "bus/journal/traffic.py"),
        ),
        ("tests/journal",),
        60,
    ),
    "bus/model/payload": Folder(
        (
            "bus/model/payload.py",
            "bus/model/arrays.py",
        ),
        (
            *("tests/bus/test_array_decoding.py", "tests/bus/test_array_messages.py"),
            *("tests/bus/test_arrays.py", "tests/bus/test_payload.py"),
            *("tests/bus/test_payload_copies.py", "tests/bus/test_payload_decoding.py"),
            *("tests/bus/test_messages.py", "tests/features/otel/test_carried.py"),
        ),
        60,
    ),
    "bus/features/memory": Folder(
        (
            *("bus/features/memory/pool.py", "bus/features/memory/queues.py"),
            *("bus/features/memory/chains.py", "bus/features/memory/region.py"),
            *("bus/features/memory/blocks.py", "bus/features/memory/slabs.py"),
            *("bus/features/memory/audit.py", "bus/features/memory/recipients.py"),
        ),
        ("tests/features/memory",),
        60,
    ),
    "bus/pattern": Folder(
        (
            *("bus/pattern/drop_ledger.py", "bus/pattern/fair_queue.py"),
            *("bus/pattern/framing.py", "bus/pattern/inbound_messages.py"),
            *("bus/pattern/protocol.py", "bus/pattern/send_queue.py"),
            *("bus/pattern/socket_state.py", "bus/pattern/socket_url.py"),
            "bus/pattern/wire.py",
        ),
        ("tests/pattern",),
        60,
    ),
}


class _Deletion(Operator):  # type: ignore[misc]
    """Replaces a call, an assignment to an attribute or item, or a jump by ``pass``."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if node.type == "simple_stmt" and _is_deletable(node.children[0]):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        prefix = node.get_first_leaf().prefix
        node.children[0] = get_ast(f"{prefix}pass")
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


def _is_deletable(node: Any) -> bool:
    if node.type == "expr_stmt":
        target = node.children[0]
        return target.type in {"atom_expr", "power"} or "=" in str(
            getattr(node.children[1], "value", "")
        ).removeprefix("=")
    return node.type in {"atom_expr", "power", "raise_stmt", "del_stmt"} or (
        node.get_code().strip() in {"return", "continue", "break"}
    )


@attrs.frozen
class Change:
    """A change that an operator makes at one place.

    function: the qualified name of the outermost function around it.
    occurrence: which of the places of the operator in the file. index: in the function.
    """

    file: str
    function: str
    line: int
    operator: str
    occurrence: int
    index: int

    @property
    def place(self) -> str:
        """The function, as `marked` names it."""
        return f"{self.file}:{self.function}"

    def tree(self) -> ast.Module | None:
        """Return the changed module; None if the result is not Python or the same."""
        operator = _operators()[self.operator]
        text = MutationVisitor.mutate_code(source(self.file), operator, self.occurrence)
        try:
            tree = ast.parse(text)
            compile(tree, self.file, "exec")
        except SyntaxError:
            return None
        same = ast.dump(tree) == ast.dump(ast.parse(source(self.file)))
        return None if same else tree

    def __str__(self) -> str:
        tree = self.tree()
        assert tree is not None
        old, new = statement_changes(ast.parse(source(self.file)), tree)
        lines = [f"- {line}" for line in old.splitlines()]
        lines += [f"+ {line}" for line in new.splitlines()]
        return "\n".join([f"{self.file}:{self.line} {self.function}", *lines])


@functools.cache
def marked(file: str) -> ast.Module:
    """Return a module of which each function passes its place to `NOTE` first."""
    tree = ast.parse(source(file))

    def mark(body: list[ast.stmt], prefix: str) -> None:
        for each in body:
            if isinstance(each, ast.ClassDef):
                mark(each.body, f"{prefix}{each.name}.")
            elif isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
                [call] = ast.parse(f"{NOTE}({file + ':' + prefix + each.name!r})").body
                for node in ast.walk(call):
                    ast.copy_location(node, each.body[0])
                each.body.insert(0, call)

    mark(tree.body, "")
    return tree


@functools.cache
def _operators() -> dict[str, Any]:
    found = {
        name: get_operator(name)()
        for name in operator_names()
        if _OPERATORS.fullmatch(name)
    }
    return {**found, "deletion": _Deletion()}


def sample(folder: Folder) -> list[Change]:
    """Return the changes of a folder, one for each place, in a random order."""
    places: dict[tuple[str, tuple[int, int]], list[Change]] = {}
    for file in folder.files():
        for start, change in _changes(file):
            places.setdefault((file, start), []).append(change)
    return sorted((min(each, key=_rank) for each in places.values()), key=_rank)


def _rank(change: Change) -> str:
    """Return a random text that stays the same if other functions are edited."""
    text = f"{SEED} {change.file} {change.function} {change.operator} {change.index}"
    return hashlib.sha256(text.encode()).hexdigest()


def _changes(file: str) -> Iterator[tuple[tuple[int, int], Change]]:
    counts = dict.fromkeys(_operators(), 0)
    within = Counter[tuple[str, str]]()
    # Most of the operators change one type of node only.
    some: dict[str, dict[str, Any]] = {"operator": {}, "comparison": {}, "": {}}
    for name, operator in _operators().items():
        if "Binary" in name:
            some["operator"][name] = operator
        else:
            some["comparison" if "Comparison" in name else ""][name] = operator
    for node in ast_nodes(get_ast(source(file))):
        for name, operator in some.get(node.type, some[""]).items():
            for start, _ in operator.mutation_positions(node):
                occurrence = counts[name]
                counts[name] += 1
                if function := _function(node, name):
                    index = within[function, name]
                    within[function, name] += 1
                    yield (
                        start,
                        Change(file, function, start[0], name, occurrence, index),
                    )


def _function(node: Any, operator: str) -> str:
    """Return the outermost function around a node; empty if it is to be left alone."""
    names, inner = list[str](), node
    while (node := node.parent) is not None:
        if node.type in _LEFT_OUT and operator != "deletion":
            return ""
        if node.type == "argument" and node.children[0].get_code().strip() == "strict":
            return ""  # of zip: it only finds faults
        if node.type == "funcdef":
            names = [node.name.value]
            at = node.children.index(inner) if inner in node.children else -1
            if at >= 0 and at < len(node.children) - 1:
                return ""  # parameters and annotations
        elif node.type == "classdef" and names:
            names.insert(0, node.name.value)
        inner = node
    name = ".".join(names)
    return "" if name.rpartition(".")[2] in {"__repr__", "__str__"} else name
