"""On small trees, each house rule finds all its violations, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import house
from tests.imports import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping


def _fake(root: Path, files: Mapping[str, str]) -> Tree:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in path.relative_to(root).parents:
            if folder != Path():
                (root / folder / "__init__.py").touch()
    packages = sorted({name.partition("/")[0] for name in files})
    return Tree.read(*(root / package for package in packages))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("from pack import low", None),
        ("from pack.low import Thing", None),
        ("import json", None),
        ("from pack.middle import other", None),
        ("from pack import high", "middle imports high"),
        ("from .high import Thing", "middle imports high"),
        ("import pack.high", "middle imports high"),
        ("def f():\n    import pack.high", "middle imports high"),
        ("from pack import Thing", "imports the door pack"),
        ("import pack", "imports the door pack"),
        ("from pack import gone", "imports the door pack"),
    ],
)
def test_an_import_against_the_order_is_found(
    tmp_path: Path, text: str, complaint: str | None
) -> None:
    tree = _fake(
        tmp_path,
        {"pack/low.py": "", "pack/middle.py": text, "pack/high.py": "import pack.low"},
    )

    found = house.out_of_order(tree, "pack", ["low", "middle", "high"])

    if complaint is None:
        assert found == []
    else:
        (only,) = found
        assert only.startswith("pack/middle.py:")
        assert complaint in only


def test_imports_for_type_checkers_count_too(tmp_path: Path) -> None:
    text = "if TYPE_CHECKING:\n    import pack.high\nelse:\n    import pack.low\n"
    tree = _fake(
        tmp_path, {"pack/low.py": text, "pack/high.py": "", "pack/__init__.py": ""}
    )

    (only,) = house.out_of_order(tree, "pack", ["low", "high"])
    assert "low imports high" in only
    assert [one.target for one in tree.modules["pack.low"].imports()] == ["pack.low"]


def test_a_module_without_a_place_in_the_order_is_reported(tmp_path: Path) -> None:
    tree = _fake(tmp_path, {"pack/new/inner.py": ""})

    found = house.out_of_order(tree, "pack", ["low"])

    assert all("'new' has no place in the order of pack" in one for one in found)
    assert len(found) == 2  # the sub-package and the module in it


def test_relative_imports_are_followed_from_modules_and_packages(
    tmp_path: Path,
) -> None:
    tree = _fake(
        tmp_path,
        {
            "pack/part/__init__.py": "from ..high import a",
            "pack/part/inner.py": "from ..high import b\nfrom . import c",
            "pack/high.py": "",
        },
    )

    found = house.out_of_order(tree, "pack", ["part", "high"])

    assert len(found) == 2
    assert all("part imports high" in one for one in found)


_PARTS = {"base": "low: values", "top": "low: rounds", "extra": "more/", "door": "door"}


def _with_parts(root: Path, text: str) -> Tree:
    """Return modules of two layers and a feature; ``text`` is one of the top layer."""
    files = {
        "pack/low/values.py": "",
        "pack/low/rounds.py": text,
        "pack/more/made.py": "class Made: ...",
        "pack/more/other.py": "from pack.more.made import Made",
        "pack/door.py": "from pack.more.other import Made as Thing\nclass Own: ...",
    }
    tree = _fake(root, files)
    return Tree({name: one for name, one in tree.modules.items() if not one.is_package})


@pytest.mark.parametrize(
    ("text", "climb"),
    [
        ("from pack.low import values", None),
        ("import json, other.more", None),
        ("import pack.more.made", "extra: low/rounds -> more/made"),
        ("from ..more.made import Made", "extra: low/rounds -> more/made"),
        ("def f():\n    import pack.more.made", "extra: low/rounds -> more/made"),
        ("from pack.more.other import Made", "extra: low/rounds -> more/made"),
        ("from pack.more.other import gone", "extra: low/rounds -> more/other"),
        ("from pack.door import Thing", "extra: low/rounds -> more/made"),
        ("from pack.door import Own", "door: low/rounds -> door"),
        (
            "if TYPE_CHECKING:\n    from pack.door import Thing",
            "extra: low/rounds -> more/made (types)",
        ),
        (
            "if TYPE_CHECKING:\n    import pack.more.made\nimport pack.more.made",
            "extra: low/rounds -> more/made",
        ),
    ],
)
def test_an_import_of_a_higher_part_is_found_unless_listed(
    tmp_path: Path, text: str, climb: str | None
) -> None:
    tree = _with_parts(tmp_path, text)

    found = house.above_their_part(tree, "pack", _PARTS, ["base", "top"], [])

    if climb is None:
        assert found == []
    else:
        (only,) = found
        assert only.startswith("pack/low/rounds.py:")
        assert f"({climb})" in only
        assert not house.above_their_part(
            tree, "pack", _PARTS, ["base", "top"], [climb]
        )


def test_a_layer_imports_no_later_layer(tmp_path: Path) -> None:
    tree = _with_parts(tmp_path, "from pack.low import values")

    (only,) = house.above_their_part(tree, "pack", _PARTS, ["top", "base"], [])

    assert "(base: low/rounds -> low/values)" in only


def test_only_the_highest_layer_imports_the_table(tmp_path: Path) -> None:
    tree = _with_parts(tmp_path, "import pack.more.made")
    layers = ["base", "top"]

    for order, found in ((layers, 0), (layers[::-1], 1)):
        climbs = house.above_their_part(tree, "pack", _PARTS, order, [], "extra")
        assert len(climbs) == found


@pytest.mark.parametrize(
    "line",
    [
        "extra: low/rounds -> more/made",  # now for type checkers only
        "extra: low/values -> more/made",
        "door: low/rounds -> door",
    ],
)
def test_a_listed_import_that_is_gone_is_reported(tmp_path: Path, line: str) -> None:
    text = "if TYPE_CHECKING:\n    import pack.more.made"
    listed = ["extra: low/rounds -> more/made (types)", line]

    (only,) = house.above_their_part(
        _with_parts(tmp_path, text), "pack", _PARTS, ["base", "top"], listed
    )

    assert repr(line) in only
    assert only.endswith("remove this line")


def test_a_module_without_a_part_and_a_word_without_a_module_are_reported(
    tmp_path: Path,
) -> None:
    tree = _with_parts(tmp_path, "")
    parts = {**_PARTS, "base": "values low: gone"}

    missing, *stale = house.above_their_part(tree, "pack", parts, ["base"], [])

    assert missing.startswith("pack/low/values.py:1: is in no part: add it to PARTS")
    first, second = stale
    assert "'values' of base names no module: remove this word" in first
    assert "'low/gone' of base names no module: remove this word" in second


@pytest.mark.parametrize("text", ["from pack.a import X", "from pack.b import X"])
def test_a_name_that_modules_have_from_one_another_ends_the_search(
    tmp_path: Path, text: str
) -> None:
    files = {"pack/a.py": text, "pack/b.py": "from pack.a import X"}
    tree = _fake(tmp_path, files)
    (one,) = tree.modules["pack.b"].imports()

    assert tree.way_to(one)[0] == "pack.a"


@pytest.mark.parametrize(
    "text",
    [
        "import two",
        "import two.deep.er",
        "from two import deep",
        "from two.deep import x",
        "def f():\n    import two.deep",
    ],
)
def test_a_stranger_is_found(tmp_path: Path, text: str) -> None:
    tree = _fake(tmp_path, {"one/a.py": text, "two/deep/er.py": "", "three/b.py": ""})

    assert house.forbidden_imports(tree, ["one"], ["three"]) == []
    (only,) = house.forbidden_imports(tree, ["one"], ["two"])
    assert only.startswith("one/a.py:")


def test_an_import_by_way_of_other_modules_is_found_with_its_path(
    tmp_path: Path,
) -> None:
    tree = _fake(
        tmp_path,
        {
            "one/a.py": "from one.between import x",
            "one/between.py": "import two.inner",
            "two/__init__.py": "from two.secret import y",
            "two/inner.py": "",
            "two/secret.py": "",
        },
    )

    (way,) = house.reached(tree, "one.a", "two.secret")
    assert way.endswith("two.secret <- two <- two.inner <- one.between <- one.a")
    assert house.reached(tree, "two.secret", "one.a") == []


@pytest.mark.parametrize(
    "text",
    [
        "import threading",
        "from threading import Lock",
        "import threading as t",
        "import threading.local",
        "def f():\n    from threading import local",
    ],
)
def test_going_past_the_door_is_found(tmp_path: Path, text: str) -> None:
    tree = _fake(
        tmp_path,
        {"one/a.py": text, "one/door.py": text, "one/testing/b.py": text},
    )
    doors = {"one.door": ("threading",), "one.window": ("time",)}

    (only,) = house.outside_the_door(tree, ["one"], doors, ["one.testing"])

    assert only.startswith("one/a.py:")
    assert only.endswith("only one.door may")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("def f():\n    return _sync.Lock()", None),
        ("def f(lock: _sync.Lock) -> None: ...", None),
        ("class A:\n    x: _sync.Lock\n", None),
        ("make = lambda: _sync.Lock()", None),
        ("from queuebroker._sync import Lock", "takes Lock from"),
        ("from ._sync import Lock", "takes Lock from"),
        ("def f():\n    from ._sync import Lock", "takes Lock from"),
        ("from queuebroker import _sync as s", "leave it its name"),
        ("lock = _sync.Lock()", "while being imported"),
        ("class A:\n    lock = field(factory=_sync.Lock)", "while being imported"),
        ("class A(_sync.Thread): ...", "while being imported"),
        ("def f(clock=_sync.monotonic): ...", "while being imported"),
        ("def f(*, clock=_sync.monotonic): ...", "while being imported"),
        ("@_sync.decorate\ndef f(): ...", "while being imported"),
        ("if True:\n    lock = _sync.Lock()", "while being imported"),
    ],
)
def test_holding_on_to_sync_is_found(
    tmp_path: Path, text: str, complaint: str | None
) -> None:
    tree = _fake(
        tmp_path,
        {
            "queuebroker/_sync.py": "Lock = object\n",
            "queuebroker/a.py": text,
            "queuebroker/testing/b.py": text,
        },
    )

    found = house.torn_from_sync(tree, ["queuebroker"], ["queuebroker.testing"])

    if complaint is None:
        assert found == []
    else:
        (only,) = found
        assert only.startswith("queuebroker/a.py:")
        assert complaint in only


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("re.compile('x')", None),
        ("run(x, shell=False)", None),
        ("model.eval()", None),
        ("def f():\n    return eval('1')", "calls eval()"),
        ("exec('1')", "calls exec()"),
        ("os.system('ls')", "calls os.system()"),
        ("_net.Popen('ls', shell=True)", "starts a shell"),
        ("_net.Popen('ls', shell=wanted)", "starts a shell"),
    ],
)
def test_running_a_string_is_found(
    tmp_path: Path, text: str, complaint: str | None
) -> None:
    tree = _fake(tmp_path, {"one/a.py": text})

    found = house.dangerous_calls(tree, ["one"])

    if complaint is None:
        assert found == []
    else:
        (only,) = found
        assert only.endswith(complaint)
