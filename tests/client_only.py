"""An environment as `pip install .` makes it for a client: without what only the package's extras bring."""

from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_HOOK = """
import importlib.util
import sys

REFUSED = {refused!r}
find_spec = importlib.util.find_spec


class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)


def find_spec_of_what_is_there(name, package=None):
    return None if name.partition(".")[0] in REFUSED else find_spec(name, package)


sys.meta_path.insert(0, Refusing())
importlib.util.find_spec = find_spec_of_what_is_there
"""


def requirements(name: str, extra: str = "") -> set[str]:
    """The distributions that one asks for on this machine, with or without an extra."""
    asked = [Requirement(line) for line in requires(name) or []]
    return {canonicalize_name(one.name) for one in asked if one.marker is None or one.marker.evaluate({"extra": extra})}


def client_distributions() -> set[str]:
    """What `pip install .` installs, all the way down."""
    found: set[str] = {"corral"}
    open_ends = {"corral"}
    while open_ends:
        open_ends = set().union(*(requirements(name) for name in open_ends)) - found
        found |= open_ends
    return found


def modules_of(distributions: set[str]) -> set[str]:
    """The names by which these are imported."""
    return {
        module
        for module, owners in packages_distributions().items()
        if {canonicalize_name(owner) for owner in owners} <= distributions
    }


def client_only_environ(directory: Path) -> dict[str, str]:
    """Variables under which a Python of this environment imports what a client's installation has, and nothing more."""
    refused = set(packages_distributions()) - modules_of(client_distributions())
    (directory / "sitecustomize.py").write_text(_HOOK.format(refused=refused))
    return {"PYTHONPATH": str(directory)}
