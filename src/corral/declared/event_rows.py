"""Lists the fields of a row that events contain, and the values of the other fields in a new row."""

from collections.abc import Mapping
from typing import Any

from corral.declared.fields import declarations, default_of


def told_fields(row: type[Any]) -> tuple[str, ...]:
    """The names of the fields that events contain."""
    return tuple(name for name, declared in declarations(row).items() if declared.said.told)


def untold_values(row: type[Any]) -> Mapping[str, Any]:
    """The fields that events leave out, with their defaults."""
    return {name: default_of(row, name) for name, declared in declarations(row).items() if not declared.said.told}
