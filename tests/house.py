"""The house rules on imports, as functions over a `Tree`; each lists the violations.

``test_imports.py`` passes the order and the names; this module defines the rules. Each
result is one line with the place, the violation, and the remedy.
"""

from __future__ import annotations

import ast
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tests.imports import Module, Tree

__all__ = [
    "above_their_part",
    "dangerous_calls",
    "forbidden_imports",
    "out_of_order",
    "outside_the_door",
    "reached",
    "torn_from_sync",
]

_SYNC = "queuebroker._sync"
# How the name of a module ends that defines a verb of the command line.
_VERB = (".verb", "_verb")

_DANGEROUS_NAMES = frozenset({"eval", "exec"})
_DANGEROUS_METHODS = frozenset({("os", "system"), ("os", "popen")})
# Each dangerous call has one of these words. Few modules have one, and the walk over
# the expressions of all modules takes seconds.
_DANGEROUS_WORDS = (*_DANGEROUS_NAMES, "system", "popen", "shell")


def out_of_order(
    tree: Tree,
    package: str,
    order: Sequence[str],
    judged: Collection[tuple[str, str]] = (),
) -> list[str]:
    """List imports of higher modules within ``package``, and unlisted modules.

    ``order`` names the modules and sub-packages directly in the package, lowest first.
    Imports for type checkers count; those within one entry are free. The package itself
    is its door: it may import all of them, and none of them may import it.

    A verb in the folder of its feature stands with ``cli``, if that has a place.
    judged: pairs of entries, importer first, whose imports another rule judges.
    """
    ranks = {name: rank for rank, name in enumerate(order)}
    found = []
    for module in tree.below(package):
        entry = _entry(module.name, package, order)
        if entry is None:
            continue
        if entry not in ranks:
            found.append(
                f"{module.at(1)}: {entry!r} has no place in the order of {package}: "
                "add it to ORDER in tests/module_order.py, below what it imports"
            )
            continue
        found += _upward_imports(tree, module, package, ranks, judged)
    return found


def above_their_part(
    tree: Tree,
    package: str,
    parts: Mapping[str, str],
    layers: Sequence[str],
    listed: Collection[str],
    table: str = "",
) -> list[str]:
    """List imports from a layer to a higher part, and lines of ``listed`` without one.

    parts: the modules of each part, as ``PARTS`` names them; layers: the lower parts,
    lowest first. A module of a layer imports only its own part and lower layers.
    listed: the exceptions, each "PART: IMPORTER -> MODULE". MODULE defines the imported
    name, whichever module re-exports it. Imports for type checkers count; "(types)"
    follows a pair that has no others.
    table: the part with the table of the higher parts, which the highest layer imports.
    """
    part_of = _part_of(parts)
    words = {
        module.name: _word_for(module.path.removeprefix(f"{package}/"), part_of)
        for module in tree.below(package)
    }
    homes = {name: part_of[word] for name, word in words.items() if word}
    climbs = dict[str, str]()
    for module in tree.below(package):
        climbs |= _climbs(tree, module, homes, layers, table)
    return [
        *(
            f"{tree.modules[name].at(1)}: is in no part: add it to PARTS in "
            "tests/module_order.py, beside the modules that it is to stand with"
            for name, word in words.items()
            if not word
        ),
        *(
            f"PARTS in tests/module_order.py: {word!r} of {part} names no module: "
            "remove this word"
            for word, part in part_of.items()
            if word not in words.values()
        ),
        *(
            f"{place}: a lower part imports a higher one ({climb}): define in the "
            "lower part what it needs, and let the higher one supply that"
            for climb, place in climbs.items()
            if climb not in listed
        ),
        *(
            f"{climb!r} is no import any more: remove this line"
            for climb in listed
            if climb not in climbs
        ),
    ]


def forbidden_imports(
    tree: Tree, importers: Collection[str], targets: Collection[str]
) -> list[str]:
    """List imports of ``targets``, or parts of them, anywhere in ``importers``."""
    return [
        f"{module.at(one.line)}: imports {target}, which {module.name} must not"
        for module in tree.below(*importers)
        for one in module.imports()
        for target in targets
        if one.hits(target) and not module.name.startswith(f"{target}.")
    ]


def reached(tree: Tree, start: str, target: str) -> list[str]:
    """Return the chain of imports by which ``start`` loads ``target``, if it does."""
    asked = tree.reached_from(module.name for module in tree.below(start))
    if target not in asked:
        return []
    way = [target]
    while by := asked[way[-1]]:
        way.append(by)
    return [f"{start} reaches {target}: " + " <- ".join(way)]


def outside_the_door(
    tree: Tree,
    packages: Collection[str],
    doors: Mapping[str, Collection[str]],
    exempt: Collection[str] = (),
) -> list[str]:
    """List imports of modules that only their door may import.

    ``doors`` gives, for each door, a module or a package, the modules that it alone may
    import.
    """
    free = {module.name for module in tree.below(*exempt)}
    return [
        f"{module.at(one.line)}: imports {one.target}: only {door} may"
        for module in tree.below(*packages)
        if module.name not in free
        for one in module.imports()
        for door, guarded in doors.items()
        if not _is_in(module.name, door) and any(one.hits(name) for name in guarded)
    ]


def torn_from_sync(
    tree: Tree, packages: Collection[str], exempt: Collection[str] = ()
) -> list[str]:
    """List uses of `_sync` that the explorer could not replace.

    These are a name imported from it, and any use of it while a module is imported.
    """
    free = {_SYNC, *(module.name for module in tree.below(*exempt))}
    found = []
    for module in tree.below(*packages):
        if module.name in free:
            continue
        found += [
            f"{module.at(one.line)}: takes {one.name} from {_SYNC}: "
            "say _sync.X where it is used"
            for one in module.imports()
            if one.target == _SYNC and one.name
        ]
        found += [
            f"{module.at(one.line)}: calls _sync {one.alias}: leave it its name"
            for one in module.imports()
            if one.alias and tree.target_of(one) == _SYNC
        ]
        found += [
            f"{module.at(node.lineno)}: uses _sync.{node.attr} while being imported: "
            "use it at call time"
            for node in _import_time_nodes(module.body)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "_sync"
        ]
    return found


def dangerous_calls(tree: Tree, packages: Collection[str]) -> list[str]:
    """List calls that run a string: as Python, or as a command of the shell."""
    return [
        f"{module.at(node.lineno)}: {danger}"
        for module in tree.below(*packages)
        if any(word in module.text for word in _DANGEROUS_WORDS)
        for node in ast.walk(module.body)
        if isinstance(node, ast.Call)
        for danger in _dangers_of(node)
    ]


def _upward_imports(
    tree: Tree,
    module: Module,
    package: str,
    ranks: Mapping[str, int],
    judged: Collection[tuple[str, str]],
) -> Iterator[str]:
    """Yield the imports of a listed module that break the order."""
    entry = str(_entry(module.name, package, ranks))
    for one in module.imports(typing=True):
        target = tree.target_of(one)
        if target == package:
            yield (
                f"{module.at(one.line)}: imports the door {package} itself: "
                "import from the module that defines the name"
            )
        elif target.startswith(f"{package}."):
            other = str(_entry(target, package, ranks))
            if other == entry or (entry, other) in judged:
                continue
            if ranks.get(other, len(ranks)) > ranks[entry]:
                yield (
                    f"{module.at(one.line)}: {entry} imports {other}, which stands "
                    f"after it in the order of {package}"
                )


def _part_of(parts: Mapping[str, str]) -> dict[str, str]:
    """Return the part of each module and of each whole folder of a table of parts."""
    found = dict[str, str]()
    for part, words in parts.items():
        folder = ""
        for word in words.split():
            if word.endswith(":"):
                folder = f"{word[:-1]}/"
            else:
                found[folder + word] = part
    return found


def _word_for(path: str, part_of: Mapping[str, str]) -> str | None:
    """Return the word of a table of parts that names a module, or a folder of it."""
    folders = (each.as_posix() + "/" for each in PurePosixPath(path).parents)
    return next((word for word in (path, *folders) if word in part_of), None)


def _climbs(
    tree: Tree,
    module: Module,
    homes: Mapping[str, str],
    layers: Sequence[str],
    table: str,
) -> dict[str, str]:
    """Return the imports of a layer's module that reach higher parts, with places."""
    own = homes.get(module.name)
    if own not in layers:
        return {}
    free = [*layers[: layers.index(own) + 1], *([table] if own == layers[-1] else [])]
    runtime = set(module.imports())
    found = dict[str, str]()
    for one in sorted(module.imports(typing=True), key=lambda one: one not in runtime):
        way = [name for name in tree.way_to(one) if homes.get(name, own) not in free]
        if not way:
            continue
        paths = (
            each.path.partition("/")[2] for each in (module, tree.modules[way[-1]])
        )
        climb = f"{homes[way[-1]]}: {' -> '.join(paths)}"
        if one not in runtime and climb not in found:
            climb += " (types)"
        found.setdefault(climb, module.at(one.line))
    return found


def _is_in(name: str, door: str) -> bool:
    return name == door or name.startswith(f"{door}.")


def _entry(name: str, package: str, order: Collection[str]) -> str | None:
    """Return the entry of the order that a module belongs to, None for the door."""
    rest = name.removeprefix(package).lstrip(".")
    if "." in rest and "cli" in order and rest.endswith(_VERB):
        return "cli"
    return rest.partition(".")[0] or None


def _dangers_of(call: ast.Call) -> Iterator[str]:
    match call.func:
        case ast.Name(id=name) if name in _DANGEROUS_NAMES:
            yield f"calls {name}()"
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if (
            owner,
            name,
        ) in _DANGEROUS_METHODS:
            yield f"calls {owner}.{name}()"
    for keyword in call.keywords:
        if keyword.arg != "shell":
            continue
        if not (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
            yield "starts a shell"


def _import_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the nodes that are evaluated when the module is imported.

    Bodies of functions are not; their decorators and defaults are. Annotations are not
    either, since every module has ``from __future__ import annotations``.
    """
    yield node
    for child in _evaluated_children(node):
        yield from _import_time_nodes(child)


def _evaluated_children(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from node.decorator_list
            yield from _defaults(node.args)
        case ast.Lambda():
            yield from _defaults(node.args)
        case ast.AnnAssign():
            yield node.target
            if node.value is not None:
                yield node.value
        case _:
            yield from ast.iter_child_nodes(node)


def _defaults(arguments: ast.arguments) -> Iterator[ast.expr]:
    yield from arguments.defaults
    yield from (default for default in arguments.kw_defaults if default is not None)
