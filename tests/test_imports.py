"""Holds the tree to the order of its modules, and waiting to its two doors.

The tables below are the rules; `tests.house` says what they mean, and its own tests
show on small trees that each of them can be broken.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests import house
from tests.imports import Tree
from tests.module_order import LAYERS, ORDER, PARTS, SIGNATURES, TABLE

# Modules that name one another, all of them for type checkers only. No others may.
# Their public classes return one another, so that no order of them exists.
CIRCLES = (
    # A broker returns its manager, and the manager its brokers; a queue broker is made
    # of a broker, and `Broker.get_broker` returns either.
    {"broker", "broker_manager", "current", "queue_broker"},
    # `MessageQueue.of` returns a `TypedQueue`, which returns its `MessageQueue`.
    {"message_queue", "typed_queue"},
)

# Packages that never import one another.
STRANGERS = (
    (["queuebroker"], ["bus", "specs", "tests", "benchmarks", "examples"]),
    (["bus", "specs"], ["tests", "benchmarks", "examples"]),
    (["specs.models"], ["queuebroker", "bus"]),
    (["bus.pipeline"], ["bus.journal.checker"]),
)

# For each module or package that may wait, the modules that it alone may import.
DOORS = {
    "queuebroker._sync": ("threading", "time", "_thread", "queue", "concurrent"),
    "queuebroker._net": (
        "socket",
        "ssl",
        "select",
        "selectors",
        "random",
        "subprocess",
    ),
}
BEHIND_THE_DOORS = ("queuebroker", "bus")
# The explorer has to work where those it watches do not; `_platform` removes calls.
BEFORE_THE_DOORS = ("queuebroker.testing", "queuebroker._platform")

PRODUCTION = ("queuebroker", "bus", "specs")
DANGEROUS_MODULES = (
    "pickle",
    "cPickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "yaml",
)

# What `import queuebroker` must not load: slow, or able to wait behind our back.
HEAVY = frozenset(
    {
        "asyncio",
        "concurrent",
        "hypothesis",
        "multiprocessing",
        "pytest",
        "selectors",
        "socket",
        "ssl",
        "subprocess",
        "unittest",
        "urllib",
    }
)
# What `from bus import open_bus` must not load: few programs use the journal, keys,
# the discovery of machines or the pools of `bus.features.memory`.
RARE = frozenset({"hashlib", "json", "random", "shutil", "subprocess", "tempfile"})
# The modules of this project among those that it loads: 198 today.
OWN_MODULES_MAX = 198
# The modules of features that a bus does not load without an arena, a network and a
# journal, and while no process inspects it.
UNUSED = (
    "bus.features.durable.format",
    "bus.features.durable.horizons",
    "bus.features.durable.storage",
    "bus.features.durable.store",
    "bus.features.machines.announcer",
    "bus.features.machines.authority",
    "bus.features.machines.certificates",
    "bus.features.machines.discovery",
    "bus.features.machines.gateway",
    "bus.features.machines.machine_",
    "bus.features.machines.name_conflicts",
    "bus.features.memory.",
    "bus.features.metrics",
    "bus.features.otel",
    "bus.features.moving.hand_over",
    "bus.features.watching.frame_monitor",
    "bus.features.watching.inspection",
    "bus.journal",
)
# Each bus that joins its network has one, for other processes.
INSPECTOR = "bus.features.watching.inspector"
SCIENTIFIC = frozenset({"numpy", "pandas", "pyarrow", "pyspark", "matplotlib", "rich"})


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree.read(*(_folder(package) for package in PRODUCTION))


@pytest.mark.parametrize("package", ORDER)
def test_modules_import_only_modules_above_them(tree: Tree, package: str) -> None:
    judged = {(layer, "features") for layer in LAYERS} if package == "bus" else ()
    assert house.out_of_order(tree, package, ORDER[package], judged) == []


def test_the_layers_of_the_bus_import_no_feature(tree: Tree) -> None:
    assert house.above_their_part(tree, "bus", PARTS, LAYERS, SIGNATURES, TABLE) == []


@pytest.mark.deep
def test_no_other_modules_name_one_another(tree: Tree) -> None:
    found = [{name.rpartition(".")[2] for name in each} for each in tree.circles()]

    assert [each for each in found if each not in CIRCLES] == []
    assert [each for each in CIRCLES if each not in found] == []


@pytest.mark.parametrize(("importers", "targets"), STRANGERS)
def test_strangers_do_not_import_one_another(
    tree: Tree, importers: list[str], targets: list[str]
) -> None:
    assert house.forbidden_imports(tree, importers, targets) == []


def test_the_pipeline_does_not_reach_the_small_checker_by_any_way(tree: Tree) -> None:
    assert house.reached(tree, "bus.pipeline", "bus.journal.checker") == []


def test_only_the_doors_import_blocking_modules(tree: Tree) -> None:
    found = house.outside_the_door(tree, BEHIND_THE_DOORS, DOORS, BEFORE_THE_DOORS)
    assert found == []


def test_one_module_reads_the_name_of_the_system(tree: Tree) -> None:
    readers = [
        module.name
        for module in tree.below("queuebroker", "bus")
        if "sys.platform" in module.text or "os.name" in module.text
    ]
    assert readers == ["queuebroker._platform"]


def test_no_module_keeps_an_attribute_of_sync(tree: Tree) -> None:
    found = house.torn_from_sync(tree, BEHIND_THE_DOORS, BEFORE_THE_DOORS)
    assert found == []


def test_nothing_runs_a_string_or_unpacks_foreign_objects(tree: Tree) -> None:
    assert house.dangerous_calls(tree, PRODUCTION) == []
    assert house.forbidden_imports(tree, PRODUCTION, DANGEROUS_MODULES) == []


def test_importing_queuebroker_loads_attrs_and_nothing_else_of_others() -> None:
    loaded = _loaded_by("import queuebroker")
    foreign = loaded - sys.stdlib_module_names - {"queuebroker", "attr", "attrs"}
    assert foreign == set()
    assert loaded & HEAVY == set()


def test_a_verb_that_needs_no_keys_loads_no_cryptography() -> None:
    loaded = _loaded_by("import bus.features.machines.verb", whole=True)
    assert not any(each.startswith("cryptography") for each in loaded)


def test_opening_a_bus_loads_what_every_bus_uses() -> None:
    loaded = _loaded_by("from bus import open_bus", whole=True)
    ours = {each for each in loaded if each.startswith(("bus.", "queuebroker."))}

    assert loaded & RARE == set()
    assert len(ours) <= OWN_MODULES_MAX


def test_a_bus_loads_no_feature_that_it_does_not_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BUS_RUN_DIR", str(tmp_path))
    imported = _loaded_by("from bus import open_bus", whole=True)
    code = "import bus; bus.open_bus(config=bus.BusConfig(shared_memory=False)).close()"
    opened = _loaded_by(code, whole=True)

    assert [each for each in opened if each.startswith(UNUSED)] == []
    assert INSPECTOR not in imported
    assert INSPECTOR in opened


def test_a_bus_loads_shared_memory_when_it_opens_and_no_pool(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BUS_RUN_DIR", str(tmp_path))
    opened = _loaded_by("import bus; bus.open_bus().close()", whole=True)

    # A later import, at the first long message, would be made under a lock.
    assert "bus.features.memory.link_memory" in opened
    assert "bus.features.memory.pool" not in opened


@pytest.mark.parametrize(
    "code",
    [
        "import bus.journal.writer, bus.journal.reader, bus.journal.checker",
        "from bus.cli import main; main(['--help'], standalone_mode=False)",
    ],
    ids=["journal", "bus --help"],
)
def test_light_modules_load_no_scientific_package(code: str) -> None:
    assert _loaded_by(code) & SCIENTIFIC == set()


def _loaded_by(code: str, *, whole: bool = False) -> set[str]:
    """Name the top-level modules that ``code`` loads into a fresh interpreter.

    whole: also the modules of packages, by their whole names.
    """
    script = textwrap.dedent(
        f"""
        import json, sys
        before = set(sys.modules)
        {code}
        loaded = set(sys.modules) - before
        if not {whole}:
            loaded = {{name.partition(".")[0] for name in loaded}}
        print(json.dumps(sorted(loaded)))
        """
    )
    # The fresh process finds the same packages as this one.
    path = os.pathsep.join([str(_folder("queuebroker").parent), *sys.path])
    # A stand-in for another system loads the modules from which it removes calls.
    environment = {**os.environ, "PYTHONPATH": path, "QUEUEBROKER_PORTABLE": ""}
    answer = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        env=environment,
    )
    return set(json.loads(answer.stdout.splitlines()[-1]))


def test_the_modules_that_a_fresh_interpreter_loads_are_listed() -> None:
    loaded = _loaded_by("import json.tool, _sitebuiltins, colorsys")
    assert "colorsys" in loaded
    assert "queuebroker" not in loaded
