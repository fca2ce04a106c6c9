"""The keys of groups in the settings, derived from the fields that they set."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Any

from corral.config.groups import Key, NodeReader, one, several
from corral.config.readers import (
    above_zero,
    duration,
    gpus,
    integer,
    memory,
    number,
    one_of,
    text,
    version,
    yes_or_no,
)
from corral.declared.fields import Declared, declarations, without_unit

_UNITS_S = {"_hours": 3600.0, "_minutes": 60.0}


@dataclass(frozen=True, slots=True)
class Reads:
    """An annotation: `read` reads the field, because its type alone does not say how."""

    read: NodeReader


OF_THE_FILE = object()
"""An annotation: the field is about the file itself, and has no key."""

LIVE = object()
"""An annotation: a reload changes the setting. The others take effect at the next start of the server."""


def keys_of(cls: type[Any], **instead: NodeReader) -> dict[str, Key]:
    """The keys that set the fields of a class; a key in a section is "SECTION.KEY".

    `instead` has readers for fields whose type alone does not say how to read them.
    """
    found = {}
    for name, declared in declarations(cls).items():
        if OF_THE_FILE in declared.beside:
            continue
        said = declared.said
        for key in filter(None, (said.key or without_unit(name), said.also)):
            found[key] = Key(name, instead.get(name) or _reader(name, key, declared))
    return found


def words_of(keys: Mapping[str, Key]) -> dict[str, str]:
    """The first key of each field."""
    return {key.sets: word for word, key in reversed([*keys.items()])}


def _reader(name: str, key: str, declared: Declared) -> NodeReader:
    for beside in declared.beside:
        if isinstance(beside, Reads):
            return beside.read
    if declared.kind == tuple[str, ...]:
        return several(text)
    if declared.kind == tuple[int, int]:
        return one(version)
    if declared.kind in (int, float):
        return _number_reader(name, key, declared)
    if declared.kind in (str, bool):
        return one(text if declared.kind is str else yes_or_no)
    assert issubclass(declared.kind, StrEnum), f"{name}: annotate it with what reads it"
    return one(one_of(declared.kind))


def _number_reader(name: str, key: str, declared: Declared) -> NodeReader:
    said = declared.said
    least, most = -inf if said.least is None else said.least, inf if said.most is None else said.most
    if "_milli" in name:
        return one(gpus)
    if said.above is not None:
        return one(above_zero)
    if name.endswith("_mib"):
        return one(memory(int(least), int(most)))
    if declared.kind is int:
        return one(integer(int(least), int(most)))
    for unit, unit_s in _UNITS_S.items():
        if key.endswith(unit) and name.endswith("_s"):
            return one(number(least / unit_s, most / unit_s, factor=unit_s))
    return one(duration(least, most) if name.endswith("_s") and not key.endswith("_seconds") else number(least, most))
