"""The lock files pin what the package asks for, by hash, and pin it alike."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]


def pinned(name: str) -> dict[str, list[str]]:
    """The entries of a lock file: the first line of each, by distribution, and its hashes."""
    entries: dict[str, list[str]] = {}
    for entry in (ROOT / name).read_text().replace("\\\n", "").splitlines():
        first, *hashes = entry.split(" --hash=")
        entries.setdefault(canonicalize_name(Requirement(first).name), []).append(first.strip())
        assert hashes, f"{name}: {first} has no hash"
    return entries


@pytest.mark.parametrize(
    ("lock", "asked"),
    [
        (
            "requirements.lock",
            [*PROJECT["project"]["dependencies"], *(one for extra in EXTRAS.values() for one in extra)],
        ),
        ("requirements-server.lock", [*PROJECT["project"]["dependencies"], *EXTRAS["server"], *EXTRAS["top"]]),
        ("requirements-build.lock", PROJECT["build-system"]["requires"]),
        ("requirements-genai-bench.lock", ["genai-bench==0.0.5"]),
    ],
)
def test_a_lock_pins_versions_that_the_package_allows(lock: str, asked: list[str]) -> None:
    entries = pinned(lock)
    for requirement in map(Requirement, asked):
        for line in entries[canonicalize_name(requirement.name)]:
            (pin,) = Requirement(line).specifier
            assert requirement.specifier.contains(pin.version), f"{line}, but {requirement}; type `make lock`"


@pytest.mark.parametrize("lock", ["requirements-server.lock", "requirements-build.lock"])
def test_what_is_installed_are_the_versions_that_the_tests_ran_with(lock: str) -> None:
    everything = pinned("requirements.lock")
    assert {name: lines for name, lines in pinned(lock).items() if lines != everything[name]} == {}
