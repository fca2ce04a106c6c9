"""A name means one thing: modules, public classes, rooms and the words of the glossary."""

import ast
import importlib
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import corral

ROOT = Path(corral.__file__).parent
ARCHITECTURE = (ROOT.parent.parent / "ARCHITECTURE.md").read_text()
GLOSSARY_NAMES = set(re.findall(r"^\| [^|]+ \| [^|]+ \| `([\w.]+)` \| [^|]+ \|$", ARCHITECTURE, re.MULTILINE))
"""The column "In the code" of the glossary, the one table with four columns."""

NAMED_AFTER_WHAT_THEY_SHOW = {"api", "cli", "client", "gpu"}
"""Modules of these rooms may have the name of what they show."""

NAMED_IN = {"model", "ports"}
"""What has a module here may have one of the same name in any room: how that room stores, runs or answers it."""

GROUPS = {"core", "host", "engines", "features"}
"""Folders of rooms."""

IN_EACH_FEATURE = {
    "answers", "bodies", "build", "client", "commands", "event_rows", "facts", "feature", "routes", "run_commands",
    "slice",
}  # fmt: skip
"""What every feature may have in its folder."""


OLD_ADDRESSES = {
    *("corral.daemon", "corral.runtimes.docker.runner", "corral.tuner.deployments.port_holder"),
    *(f"corral.tuner.{name}" for name in ("arq", "benchmark", "gpu_estimate", "stand_in_server")),
}
"""Names that others have written down: they forward to where the module is now."""


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        if module not in OLD_ADDRESSES:
            yield module, path


def room_of(module: str) -> str:
    """The room of a module; "" for the package itself."""
    rooms = module.split(".")[1:]
    return rooms[1] if len(rooms) > 1 and rooms[0] in GROUPS else rooms[0] if rooms else ""


def test_every_room_has_its_layer() -> None:
    contracts = tomllib.loads((ROOT.parent.parent / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["name"].startswith("Imports run downward"))
    named = {name for layer in layers for name in re.split(r" [|:] ", layer)}
    rooms = {re.sub(rf"^(corral\.(?:(?:{'|'.join(GROUPS)})\.)?\w+).*", r"\1", module) for module, _ in modules()}
    groups = {f"corral.{group}" for group in GROUPS}
    assert sorted(rooms - named - groups - {"corral"}) == []


def test_no_two_modules_have_one_name_but_where_the_room_tells_them_apart() -> None:
    named = defaultdict(list)
    for module, path in modules():
        of_feature = module.startswith("corral.features.") and path.stem in IN_EACH_FEATURE
        if path.name not in ("__init__.py", "__main__.py") and "migrations" not in path.parts and not of_feature:
            named[path.stem].append(module)
    unclear = []
    for found in named.values():
        inner = [module for module in found if room_of(module) not in NAMED_AFTER_WHAT_THEY_SHOW]
        rooms = [room_of(module) for module in found]
        one_thing = len(inner) <= 1 or not NAMED_IN.isdisjoint(rooms)
        if len(set(rooms)) < len(rooms) or not one_thing:
            unclear.append(found)
    assert not unclear


def test_no_two_public_classes_have_one_name() -> None:
    named = defaultdict(list)
    for module, path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                named[node.name].append(module)
    twice = [found for found in named.values() if len(found) > 1]
    assert not twice


@pytest.mark.parametrize("package", [name for name, path in modules() if path.name == "__init__.py"])
def test_each_package_says_what_is_in_it_and_where_to_start(package: str) -> None:
    path = ROOT.parent / Path(*package.split(".")) / "__init__.py"
    told = ast.get_docstring(ast.parse(path.read_text())) or ""
    lines = [line for line in told.splitlines() if line.strip()]
    assert len(lines) >= 2 or "migrations" in package
    assert len(lines) <= 12


def test_every_folder_of_modules_is_a_package() -> None:
    bare = {path.parent for path in ROOT.rglob("*.py") if not (path.parent / "__init__.py").exists()}
    assert not bare


@pytest.mark.parametrize("name", sorted(GLOSSARY_NAMES))
def test_the_glossary_names_what_is_there(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(f"corral.{module}"), attribute)


def test_there_is_a_glossary() -> None:
    assert len(GLOSSARY_NAMES) > 20
