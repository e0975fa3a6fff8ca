"""The prose of a file, and the clauses in it that lack a subject.

Prose is all that a person reads: text of Markdown outside code, comments, docstrings,
and string literals of several words, such as error messages and log lines.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["prose_of", "subjectless"]

# Where a clause may begin: at the start, after a full stop or the like, after a word
# that introduces a clause or an object.
_BEFORE: Final = (
    r"(?:^\W*|[.:;(!?]\s+"
    r"|\b(?:of|by|for|to|from|with|than|as|that|if|so|and|or|but|since|whether)\s+)"
)
_PRONOUN: Final = re.compile(
    _BEFORE
    + r"(who|whoever|whom|whatever|all that|that which"
    + r"|what (?:is|was|are|were|has|had|does|did|may|must|can|will"
    + r"|comes?|came|goes|went|waits?|lies|stands|follows|happens|happened))\b",
    re.IGNORECASE | re.MULTILINE,
)
_CODE_OF_MARKDOWN: Final = re.compile(
    r"^```.*?^```|`[^`\n]+`|^    [^\n]*$", re.MULTILINE | re.DOTALL
)
_CODE_OF_DOCSTRINGS: Final = re.compile(r"``[^`]+``|`[^`\n]+`")


def subjectless(text: str) -> int:
    """Count clauses that begin with *who*, *what* or the like in place of a noun."""
    return len(_PRONOUN.findall(text))


def prose_of(path: Path) -> Iterator[str]:
    """Give the pieces of prose of a file; none of a file of another kind."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from _CODE_OF_MARKDOWN.sub("", text).split("\n\n")
    elif path.suffix == ".pml":
        yield from (
            each.strip("/* \n") for each in re.findall(r"/\*.*?\*/", text, re.DOTALL)
        )
    elif path.suffix == ".py":
        yield from _comments(text)
        yield from _literals(ast.parse(text))


def _comments(text: str) -> Iterator[str]:
    """Give the comments; lines that follow one another are one piece."""
    piece, last = "", 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.string.lstrip("# ")
        if piece and token.start[0] == last + 1:
            piece += " " + line
        else:
            if piece:
                yield piece
            piece = line
        last = token.start[0]
    if piece:
        yield piece


def _literals(tree: ast.AST) -> Iterator[str]:
    """Give docstrings, and other strings that are sentences rather than data."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = _CODE_OF_DOCSTRINGS.sub("", node.value)
            if text.count(" ") >= 2:
                yield " ".join(text.split("\n"))
