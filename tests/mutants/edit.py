"""An `Edit`: a change of one function, found by the syntax tree and not by its lines.

Comments, layout and quotes make no difference; neither does code elsewhere.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Edit", "MutantError", "definitions"]

# The fields of a compound statement that are not part of its header.
_BLOCKS: Final = ("body", "orelse", "finalbody", "handlers", "cases")
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class MutantError(Exception):
    """A mutant does not apply: an error of the catalogue, not a catch."""


@attrs.frozen
class _Match:
    """Consecutive statements of a block, or an expression in a field of a node."""

    owner: ast.AST
    field: str
    at: int | None
    count: int = 1

    def node(self) -> ast.AST:
        found = getattr(self.owner, self.field)
        node: ast.AST = found if self.at is None else found[self.at]
        return node

    def replace(self, new: list[ast.AST]) -> None:
        if self.at is None:
            [only] = new
            setattr(self.owner, self.field, only)
        else:
            getattr(self.owner, self.field)[self.at : self.at + self.count] = new


@attrs.frozen
class Edit:
    """A change in one function, method or class.

    address: its qualified name, such as ``Class.method``; empty for a whole module.
    old: statements or one expression, which it contains once. The header of a compound
      statement alone, such as ``if x:``, matches with any body.
    new: what replaces them; empty deletes them. If ``old`` is a header, the body stays:
      where ``new`` has ``...`` or a header alone, or in the place of the header.
    """

    address: str
    old: str
    new: str

    def apply(self, tree: ast.Module) -> None:
        """Change the tree.

        Raises:
            MutantError: it does not contain ``old`` exactly once, or nothing changes.
        """
        matches = list(self._matches(tree))
        if len(matches) != 1:
            msg = f"{self.address or 'the module'} has {len(matches)} of:\n{self.old}"
            raise MutantError(msg)
        [match] = matches
        old = match.node()
        new = self._replacement(old)
        if self.old == self.new:
            raise MutantError(f"{self.address} is not changed:\n{self.old}")
        for node in (each for one in new for each in ast.walk(one)):
            ast.copy_location(node, old)
        match.replace(new)

    def _matches(self, tree: ast.Module) -> Iterator[_Match]:
        old, is_header = _parse(self.old)
        wanted = [_dump(each, header=is_header) for each in old]
        kinds = [type(each) for each in old]
        expression = _expression(old)
        if expression is not None and _expression(_parse(self.new)[0]) is not None:
            for scope, _ in self._scopes(tree):
                yield from _expressions(scope, expression)
            return
        for scope, place in self._scopes(tree):
            if is_header and place and _dump(scope, header=True) == wanted[0]:
                yield place
            for owner in ast.walk(scope):
                for field in _BLOCKS:
                    block = getattr(owner, field, None)
                    if not isinstance(block, list):
                        continue
                    for at in range(len(block) - len(wanted) + 1):
                        part = block[at : at + len(wanted)]
                        # Few have the same types, and a text takes long to make.
                        if [type(each) for each in part] == kinds and (
                            [_dump(each, header=is_header) for each in part] == wanted
                        ):
                            yield _Match(owner, field, at, len(wanted))

    def _scopes(self, tree: ast.Module) -> Iterator[tuple[ast.AST, _Match | None]]:
        if not self.address:
            yield tree, None
        for name, place in definitions(tree):
            if name == self.address:
                yield place.node(), place

    def _replacement(self, old: ast.AST) -> list[ast.AST]:
        _, is_header = _parse(self.old)
        new, _ = _parse(self.new)
        if _expression(_parse(self.old)[0]) is not None and not isinstance(
            old, ast.stmt
        ):
            expression = _expression(new)
            assert expression is not None
            return [expression]
        if not is_header:
            return list(new)
        if not new:
            return list(getattr(old, "body"))  # noqa: B009 # an AST has any fields
        return _with_body(new, old)


def definitions(tree: ast.Module) -> Iterator[tuple[str, _Match]]:
    """Yield the functions and classes of a module: their qualified name and place."""

    def below(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Match]]:
        for field in _BLOCKS:
            block = getattr(node, field, None)
            for at, each in enumerate(block if isinstance(block, list) else ()):
                inner = prefix
                if isinstance(each, _DEFINITIONS):
                    yield prefix + each.name, _Match(node, field, at)
                    inner = f"{prefix}{each.name}."
                yield from below(each, inner)

    return below(tree, "")


def _parse(text: str) -> tuple[list[ast.stmt], bool]:
    """Parse statements; tell whether they are a header alone."""
    try:
        parsed = ast.parse(text).body
    except SyntaxError:
        try:
            parsed = ast.parse(f"{text} ...").body
        except SyntaxError as error:
            raise MutantError(f"{error}:\n{text}") from None
    is_header = len(parsed) == 1 and _is_kept(getattr(parsed[0], "body", [])[-1:])
    return parsed, is_header


def _is_kept(block: list[ast.stmt]) -> bool:
    """Tell whether a block is only ``...``, which stands for the body of a header."""
    return [ast.dump(each) for each in block] == [
        "Expr(value=Constant(value=Ellipsis))"
    ]


def _with_body(new: list[ast.stmt], old: ast.AST) -> list[ast.AST]:
    """Put the blocks of a statement where the new statements have ``...``."""
    for node in (each for one in new for each in ast.walk(one)):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for at, each in enumerate(body):
            if _is_kept([each]):
                body[at : at + 1] = getattr(old, "body")  # noqa: B009
                for field in (*_BLOCKS[1:], "decorator_list"):
                    if hasattr(node, field) and hasattr(old, field):
                        setattr(node, field, getattr(old, field))
                return list(new)
    raise MutantError(f"nothing keeps the body of:\n{ast.unparse(old)}")


def _expression(statements: list[ast.stmt]) -> ast.expr | None:
    match statements:
        case [ast.Expr(value=expression)]:
            return expression
    return None


def _expressions(scope: ast.AST, expression: ast.expr) -> Iterator[_Match]:
    kind, wanted = type(expression), ast.dump(expression)
    for owner in ast.walk(scope):
        for field, value in ast.iter_fields(owner):
            if isinstance(value, list):
                for at, each in enumerate(value):
                    if type(each) is kind and ast.dump(each) == wanted:
                        yield _Match(owner, field, at)
            elif type(value) is kind and ast.dump(value) == wanted:
                yield _Match(owner, field, None)


def _dump(node: ast.AST, *, header: bool) -> str:
    """Return the tree as text; of a compound statement only its header, if wanted."""
    if not header:
        return ast.dump(node)
    node = copy.copy(node)
    for field in (*_BLOCKS, "decorator_list"):
        if hasattr(node, field):
            setattr(node, field, [])
    return ast.dump(node)


def statement_changes(old: ast.AST, new: ast.AST) -> tuple[str, str]:
    """Return the statement or header that differs between two trees, of each."""
    for field in _BLOCKS:
        mine, other = getattr(old, field, []), getattr(new, field, [])
        if not isinstance(mine, list):
            continue
        for one, two in zip(mine, other, strict=False):
            if ast.dump(one) != ast.dump(two):
                return statement_changes(one, two)
    return _text(old), _text(new)


def _text(node: ast.AST) -> str:
    """Return a statement, or of a compound one its header."""
    if not isinstance(getattr(node, "body", None), list):
        return ast.unparse(node)
    node = copy.copy(node)
    for field in _BLOCKS:
        if getattr(node, field, None):
            setattr(
                node, field, [ast.Expr(ast.Constant(...))] if field == "body" else []
            )
    return ast.unparse(node).removesuffix("...").rstrip()
