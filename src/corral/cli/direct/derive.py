"""Writes `options.py` from what typer knows of the commands of this room, `shapes.py` from rows: `make options`."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import typer

from corral.cli.app import app
from corral.model import row_traits
from corral.model.answers.devices import DeviceRow
from corral.model.answers.job_details import Explanation, JobDetail
from corral.model.answers.jobs import JobRow
from corral.model.answers.site import NodeRow, QueueRow, ServerInfo
from corral.wire import key_of, to_plain

NAMES = (
    "cancel", "devices", "hold", "logs", "nodes", "ps", "queues", "release", "requeue", "show", "status", "submit",
    "wait", "why",
)  # fmt: skip
"""The commands that are read without typer, where that is plain."""

ROWS = (DeviceRow, Explanation, JobDetail, JobRow, NodeRow, QueueRow, ServerInfo)
"""What these commands list; the rows below them come with them."""

PATH = Path(__file__).with_name("options.py")
SHAPES_PATH = Path(__file__).with_name("shapes.py")

_KINDS = {"str": "text", "int": "whole", "int range": "whole", "float": "number", "number_of_gpus": "whole"}

_HEAD = '''"""The options of the commands that are read without typer. By `make options` from theirs: change those.

An option is the name of its value and its kind, of a number with the least and the most that it may be.
"""

'''

_SHAPES_HEAD = '''"""Rows of answers that are read without their classes. By `make options` from these: change those.

Of each class its traits, the fields that have a default, and those that are rows: of which class, and how many.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

'''


def source() -> str:
    """The module of options as it has to be, but for its layout."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group)
    commands = {name: group.get_command(context, name) for name in NAMES}
    tables = {
        "OPTIONS: dict[str, dict[str, tuple[str | int | None, ...]]]": {n: _options(c) for n, c in commands.items()},
        "ARGUMENTS": {name: _argument(command) for name, command in commands.items()},
        "DEFAULTS: dict[str, dict[str, str | int | bool | None]]": {n: _defaults(c) for n, c in commands.items()},
        "COMMAND_FOLLOWS": sorted(name for name, command in commands.items() if _command_follows(command)),
    }
    return _HEAD + "\n\n".join(f"{name} = {table!r}" for name, table in tables.items()) + "\n"


def shapes_source() -> str:
    """The module of shapes as it has to be, but for its layout."""
    shapes = {cls.__name__: _shape(cls) for cls in sorted(_with_those_below(ROWS), key=lambda cls: cls.__name__)}
    return (
        f"{_SHAPES_HEAD}SHAPES: dict[str, tuple[str | None, dict[str, Any], dict[str, tuple[str, str]]]] = {shapes!r}\n"
    )


def _with_those_below(rows: tuple[type, ...]) -> set[type]:
    found: set[type] = set()
    left = list(rows)
    while left:
        if (cls := left.pop()) not in found:
            found.add(cls)
            left += [of for _, of, _ in _rows_in(cls)]
    return found


def _shape(cls: Any) -> tuple[str | None, dict[str, Any], dict[str, tuple[str, str]]]:
    of = next((base.__name__ for base in cls.__mro__ if base.__module__ == row_traits.__name__), None)
    renamed = [one.name for one in dataclasses.fields(cls) if key_of(one.name) != one.name]
    if renamed:
        raise ValueError(f"{cls.__name__}: {renamed} have other names outside; read them with their class")
    return of, dict(_defaults_of(cls)), {name: (below.__name__, many) for name, below, many in _rows_in(cls)}


def _defaults_of(cls: Any) -> Iterator[tuple[str, Any]]:
    for one in dataclasses.fields(cls):
        if one.default is not dataclasses.MISSING:
            yield one.name, to_plain(one.default)
        elif one.default_factory is not dataclasses.MISSING:
            yield one.name, to_plain(one.default_factory(), compact=True)


def _rows_in(cls: Any) -> Iterator[tuple[str, type, str]]:
    """The fields that are rows: their names and classes, and whether they are one, a list or a mapping of them."""
    for name, hint in get_type_hints(cls).items():
        (kind, *_) = [one for one in get_args(hint) if one is not type(None)] if _is_optional(hint) else [hint]
        origin, inner = get_origin(kind), get_args(kind)
        many = {tuple: "list", Mapping: "mapping"}.get(origin, "one")
        row = {"list": inner[:1], "mapping": inner[1:], "one": (kind,)}[many]
        if dataclasses.is_dataclass(row[0]):
            assert isinstance(row[0], type)
            yield name, row[0], many


def _is_optional(hint: Any) -> bool:
    return type(None) in get_args(hint)


def _options(command: Any) -> dict[str, tuple[Any, ...]]:
    return {
        spelled: (param.name, *_kind(param))
        for param in _params(command, "option")
        for spelled in (*param.opts, *param.secondary_opts)
    }


def _kind(param: Any) -> tuple[Any, ...]:
    plain = param.nargs == 1 and param.envvar is None and not param.secondary_opts and param.callback is None
    if not plain:
        raise ValueError(f"{param.opts}: only typer can read this; leave its command out of NAMES")
    if param.is_flag:
        return ("flag",)
    kind = _KINDS[param.type.name]
    if param.multiple:
        return ({"text": "texts"}[kind],)
    return (kind, param.type.min, param.type.max) if param.type.name == "int range" else (kind,)


def _argument(command: Any) -> tuple[str, str]:
    arguments = _params(command, "argument")
    if not arguments:
        return "", "none"
    (argument,) = arguments
    return argument.name, "one" if argument.nargs == 1 else "some" if argument.required else "any"


def _defaults(command: Any) -> dict[str, Any]:
    values = {param.name: param.default for param in _params(command, "option")}
    return values | ({"after_dashes": False} if _command_follows(command) else {})


def _command_follows(command: Any) -> bool:
    return command.context_settings.get("allow_interspersed_args") is False


def _params(command: Any, kind: str) -> list[Any]:
    return [param for param in command.params if param.param_type_name == kind and param.name != "help"]


if __name__ == "__main__":
    PATH.write_text(source())
    SHAPES_PATH.write_text(shapes_source())
