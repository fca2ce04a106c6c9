"""Writes `corral/client/submitting/options.py`, the keywords of the client, from the declarations: `make declared`."""

from pathlib import Path
from textwrap import indent, wrap

from corral.core.model.field import Kind
from corral.declared.meanings import meaning_of
from corral.declared.option_fields import OptionField, options

PATH = Path(__file__).parents[1] / "client/submitting/options.py"

_TYPES = {
    Kind.FLAG: "bool",
    Kind.WHOLE: "int | None",
    Kind.NUMBER: "float | None",
    Kind.TEXT: "str | None",
    Kind.TEXTS: "str | Sequence[str] | None",
    Kind.TEXT_OR_NUMBER: "str | float | None",
    Kind.MEMORY: "str | None",
    Kind.PATH: "str | os.PathLike[str] | None",
}

_HEAD = '''\
"""The options of a job by name and type, for type checkers, `help` and messages. By `make declared` from the model."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from corral.client.submitting.arguments import JobId
    from corral.client.submitting.sweep_values import Values


class RequestOptions(TypedDict, total=False):
    """The options of a job besides its command. Each is a flag of `corral run` or `submit` of the same name.

    Keys:
'''


def source() -> str:
    """The source of the module, before formatting."""
    meanings = "".join(map(_meaning, options().values()))
    types = "".join(f"    {name}: {_type(option)}\n" for name, option in options().items())
    return f'{_HEAD}{meanings}    """\n\n{types}'


def _meaning(option: OptionField) -> str:
    lines = wrap(f"{option.name}: {meaning_of(option).keyword}", 104, subsequent_indent="    ", break_on_hyphens=False)
    return indent("\n".join(lines), "        ") + "\n"


def _type(option: OptionField) -> str:
    kind = option.option.python or _TYPES[option.kind]
    return f'"{kind}"' if "JobId" in kind or "Values" in kind else kind


if __name__ == "__main__":
    PATH.write_text(source())
