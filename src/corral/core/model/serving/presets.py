"""Named combinations of parameters, read from a file."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

PARALLEL, QUANT = "parallel", "quant"
_PREFIX = {PARALLEL: "__parallel__", QUANT: "__quant__"}
_NAME = "preset"
PARALLEL_PRESET = _PREFIX[PARALLEL] + _NAME
"""The parameter of a grid that names a preset of parallelism."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset: values for the fields of its group, `PARALLEL` or `QUANT`."""

    group: str
    name: str
    description: str
    fields: Mapping[str, Any]


@cache
def presets() -> tuple[Preset, ...]:
    """Return all presets."""
    data = tomllib.loads(files("corral.core.model.serving").joinpath("presets.toml").read_text())
    return tuple(
        Preset(group, name, fields.pop("description"), fields)
        for group, named in data.items()
        for name, fields in named.items()
    )


def preset_names(group: str) -> tuple[str, ...]:
    """Return the names of the presets of a group."""
    return tuple(preset.name for preset in presets() if preset.group == group)


def without_presets(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters with the fields of presets in place of their names; explicit parameters override these."""
    named = {name for name in parameters if name in _PRESET_KEYS}
    if not named:
        return parameters
    found: dict[str, Any] = {}
    for preset in presets():
        if parameters.get(_PREFIX[preset.group] + _NAME) == preset.name:
            found |= {_PREFIX[preset.group] + field: value for field, value in preset.fields.items()}
    return found | {name: value for name, value in parameters.items() if name not in named}


_PRESET_KEYS = frozenset(prefix + _NAME for prefix in _PREFIX.values())
