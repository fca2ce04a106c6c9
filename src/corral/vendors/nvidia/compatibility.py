"""Functions over NVIDIA's tables of drivers, runtimes and devices. The TOML file beside it has data and sources."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from corral.core.model.devices.model_and_profile_match import model_matches
from corral.core.model.version import Version, version_of, version_tuple


@dataclass(frozen=True, slots=True)
class Architecture:
    """A generation of devices; toolkits from `cuda_from` up to, but not including, `cuda_until` support it."""

    name: str
    compute: tuple[Version, ...]
    cuda_from: Version
    cuda_until: Version | None


@dataclass(frozen=True, slots=True)
class _Tables:
    drivers: Mapping[Version, tuple[int, ...]]
    families: Mapping[int, tuple[int, ...]]
    architectures: tuple[Architecture, ...]
    models: Mapping[str, Version]


def driver_text(driver: tuple[int, ...]) -> str:
    """A driver version as NVIDIA writes it, with minor and patch in two digits: "550.54.14"."""
    return ".".join(str(number) if place == 0 else f"{number:02d}" for place, number in enumerate(driver))


def cuda_of_driver(driver: str) -> Version | None:
    """The newest CUDA version that a driver supports, by the table; None for a driver older than the table."""
    numbers = version_tuple(driver)
    if numbers is None:
        return None
    return max((cuda for cuda, least in _tables().drivers.items() if least <= numbers), default=None)


def driver_of_cuda(cuda: Version) -> tuple[int, ...] | None:
    """The driver that was released with a CUDA version; None if the table does not have the version."""
    return _tables().drivers.get(cuda)


def least_family_driver(major: int) -> tuple[int, ...] | None:
    """The oldest driver that runs all minor versions of a major version; None if NVIDIA does not guarantee it."""
    return _tables().families.get(major)


def architecture_of(compute: Version) -> Architecture | None:
    """The generation with this compute capability; None if the table does not have it."""
    return next((a for a in _tables().architectures if compute in a.compute), None)


def compute_of_model(name: str) -> Version | None:
    """The compute capability of a device by its name, from the matching entry of the table with the most words."""
    matching = [words for words in _tables().models if model_matches((words,), name)]
    return _tables().models[max(matching, key=lambda words: (len(words.split()), words))] if matching else None


@cache
def _tables() -> _Tables:
    text = files("corral.vendors.nvidia").joinpath("compatibility.toml").read_text()
    table = tomllib.loads(text)
    return _Tables(
        drivers={_version(cuda): version_tuple(driver) or () for cuda, driver in table["drivers"].items()},
        families={int(major): version_tuple(driver) or () for major, driver in table["families"].items()},
        architectures=tuple(
            Architecture(
                entry["name"],
                tuple(_version(compute) for compute in entry["compute"]),
                _version(entry["cuda_from"]),
                version_of(entry.get("cuda_until", "")),
            )
            for entry in table["architecture"]
        ),
        models={name: _version(compute) for name, compute in table["models"].items()},
    )


def _version(text: str) -> Version:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
