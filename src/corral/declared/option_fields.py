"""The options of a job by the names that users write: the fields with a `JobOption` annotation."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple, get_args, get_origin

from corral.core.model.field import Field, JobOption, Kind
from corral.core.model.files.upload import Upload
from corral.core.model.jobs.container import Container
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import ArraySpec, Submission
from corral.core.model.jobs.sweep import Sweep
from corral.declared.fields import Declared, declarations, without_unit

CLASSES = (Request, Container, ArraySpec, Sweep, Upload, Submission)
"""The classes whose fields are options."""

_OF_TYPES = {bool: Kind.FLAG, float: Kind.NUMBER, str: Kind.TEXT}


class OptionField(NamedTuple):
    """An option.

    Attributes:
        cls, field: the class and the name of its field.
        type: the type of the field, without None.
        said: the declaration of the field, with its limits.
    """

    name: str
    kind: Kind
    option: JobOption
    cls: type[Any]
    field: str
    type: Any
    said: Field

    @property
    def flag(self) -> str:
        """The name of the option in commands and scripts."""
        return "--" + (self.option.flag or self.name).replace("_", "-")


@cache
def options() -> Mapping[str, OptionField]:
    """All options by name."""
    found = (
        _option(cls, field, declared, option)
        for cls in CLASSES
        for field, declared in declarations(cls).items()
        for option in declared.beside
        if isinstance(option, JobOption)
    )
    return {one.name: one for one in found}


def plain_options(cls: type[Any]) -> tuple[OptionField, ...]:
    """The options that are fields of a class and whose kind alone says how to read their value."""
    return tuple(one for one in options().values() if one.cls is cls and not one.option.own)


def _option(cls: type[Any], field: str, declared: Declared, option: JobOption) -> OptionField:
    kind = option.kind or _kind(field, declared.kind)
    return OptionField(option.name or without_unit(field), kind, option, cls, field, declared.kind, declared.said)


def _kind(field: str, kind: Any) -> Kind:
    if field.endswith("_mib"):
        return Kind.MEMORY
    if field.endswith("_s"):
        return Kind.TEXT_OR_NUMBER
    if kind is int:
        return Kind.WHOLE
    if get_origin(kind) is tuple and issubclass(get_args(kind)[0], str):
        return Kind.TEXTS
    return Kind.TEXT if isinstance(kind, type) and issubclass(kind, StrEnum) else _OF_TYPES[kind]
