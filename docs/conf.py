"""The settings of the site, for Sphinx; ``python docs/build.py`` makes it.

The pages are Markdown as a repository shows it, so this file adds the rest: the table
of contents comes from ``docs/README.md``, the reference from the docstrings. A page
gets nothing from the network: the theme has no fonts or scripts of other hosts, and the
search reads an index beside the pages.

Why Sphinx, with MyST and Furo: it reads the pages in place, in several folders, checks
links to headings, and imports the modules for the reference. MkDocs with Material was
tried on the same pages: it needs a copy of the tree, leaves dead links to headings
silent, and its search loads a script from another host.
"""

from __future__ import annotations

import enum
import re
from importlib.metadata import version as installed
from typing import TYPE_CHECKING, Any, Final

from bus.api.arguments import UNSET

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "queuebroker"
author = "the authors of queuebroker"
version = release = installed("queuebroker")

root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "specs/*.md", "*/README.md"]
exclude_patterns = ["**/.*", "site"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
default_role = "py:obj"  # `Bus.call` in a docstring is a link, if it has a target

myst_heading_anchors = 4  # links to headings, as a repository makes them

autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    # The bases of the packages count, those of the language and of msgspec do not.
    "inherited-members": "BaseException, OSError, Enum, Struct, int, str, tuple",
}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"queuebroker {release} (Alpha)"
html_show_sourcelink = html_copy_source = False
html_show_copyright = False

# A broker, a bus or a callback gives these: no program calls their constructors.
_GIVEN: Final = {
    *("queuebroker.Channel", "queuebroker.MessageQueue", "queuebroker.TypedQueue"),
    *("queuebroker.aio.MessageQueue", "queuebroker.sockets.SocketMessageQueue"),
    *("queuebroker.testing.Run", "queuebroker.testing.Spawned"),
    *("queuebroker.testing.Model", "queuebroker.Observer"),
    *("bus.Bus", "bus.BusThread", "bus.Task", "bus.CommandHandle", "bus.Loan"),
    *("bus.Subscription", "bus.Watch", "bus.Incoming", "bus.Response"),
    *("bus.Undelivered", "bus.Presence"),
    *("bus.aio.Bus", "bus.aio.Task", "bus.aio.Listener", "bus.aio.Watcher"),
    *("bus.features.memory.Descriptor", "bus.features.memory.Piece"),
    *("bus.pattern.Device", "bus.pattern.Listener", "bus.pattern.Dialler"),
    *("bus.pattern.Group", "bus.BusConfig"),  # docs/reference/limits.md has the fields
}
_UNSET: Final = re.compile(r"~?[\w.]*\bUnset \| ")
_MODE: Final = re.compile(r"(\bmode: int = )(\d+)")
_INNER: Final = re.compile(r"Locks?: |Invariants?\b|I\d+\. ")
_ITEM: Final = re.compile(r"^[a-zA-Z_]\w*(?:, [a-zA-Z_]\w*)*: ")
# The next item, in the middle of a line.
_NEXT: Final = re.compile(r"\.[ ](?=[a-z_]\w*(?:, [a-z_]\w*)*: )")
_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_LISTED: Final = re.compile(r"^\* \[([^\]]+)\]\(([^)#]+)\.md\):", re.MULTILINE)


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Give the first page a table of contents: the sections of ``docs/README.md``."""
    if page == "specs/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n/specs/*\n```\n"
    if page != root_doc:
        return
    source[0] += "\n```{toctree}\n:hidden:\n/docs/README\n```\n"
    index = (app.confdir / "README.md").read_text(encoding="utf-8")
    titles_and_texts = _HEADING.split(index)[1:]
    titles, texts = titles_and_texts[::2], titles_and_texts[1::2]
    for title, text in zip(titles, texts, strict=True):
        entries = "\n".join(
            f"{name.replace('`', '')} </docs/{link}>".replace("/docs/../", "/")
            for name, link in _LISTED.findall(text)
            if link != f"../{root_doc}"
        )
        source[0] += f"\n```{{toctree}}\n:caption: {title}\n:hidden:\n{entries}\n```\n"


def mark_arguments(
    _app: Sphinx, what: str, _name: str, _value: Any, _options: Any, lines: list[str]
) -> None:
    """Put paragraphs of ``name: meaning`` under the heading that napoleon looks for.

    Leave out the paragraphs about locks and invariants, which are for maintainers.
    """
    if what == "data":  # the docstring is that of its type; the page has the text
        lines.clear()
    if what in {"attribute", "property"}:
        lines.insert(0, "")  # else napoleon takes text before a colon for a type
        return
    heading = "Attributes:" if what in {"class", "exception"} else "Args:"
    made: list[str] = []
    listed = False
    for paragraph in "\n".join(lines).split("\n\n"):
        if _INNER.match(paragraph):
            continue
        if not _ITEM.match(paragraph):
            listed = False
            made += [*paragraph.splitlines(), ""]
            continue
        made += [] if listed else [heading]
        listed = True
        items = _NEXT.sub(".\n", paragraph).splitlines()
        # Sphinx would read the first of two names as the type of the second.
        items = [_ITEM.sub(lambda m: m[0].replace(", ", ","), line) for line in items]
        made += [f"    {line}" for line in items]
        made += [""]
    lines[:] = made


def correct_signature(
    _app: Sphinx,
    what: str,
    name: str,
    value: Any,
    _options: Any,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Return the signature as a reader needs it; none if no program makes the object.

    The default "as configured" is no expression, so Sphinx could not read it.
    """
    is_enum = isinstance(value, type) and issubclass(value, enum.Enum)
    if what == "exception" or is_enum or name in _GIVEN:
        return "", None
    if signature is not None:
        signature = _UNSET.sub("", signature).replace(f"= {UNSET!r}", "= ...")
        signature = re.sub(r"= <function \w+>", "= ...", signature)
        signature = _MODE.sub(lambda match: f"{match[1]}{int(match[2]):#o}", signature)
    return signature, returned


def choose_members(
    _app: Sphinx, _what: str, name: str, value: Any, _skip: bool, _options: Any
) -> bool | None:
    """Show each member of an enum, and no method that needs its caller's lock."""
    if isinstance(value, enum.Enum):
        return False
    return True if name.endswith("_locked") else None


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", add_contents)
    # Before napoleon reads the sections.
    app.connect("autodoc-process-docstring", mark_arguments, priority=400)
    app.connect("autodoc-process-signature", correct_signature)
    app.connect("autodoc-skip-member", choose_members)
