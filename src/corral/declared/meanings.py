"""Finds the meanings of fields: the docstrings below them, which only the source of their class contains."""

import ast
import inspect
from collections.abc import Mapping
from textwrap import dedent
from typing import Any, NamedTuple

from corral.declared.option_fields import OptionField

_KEYWORD = "In Python: "


class OptionText(NamedTuple):
    """The help of an option, and its meaning as a keyword."""

    help: str
    keyword: str


def meaning_of(option: OptionField) -> OptionText:
    """The meaning of an option. Raises KeyError for an option without a docstring."""
    (cls,) = (one for one in option.cls.__mro__ if option.field in vars(one).get("__annotations__", {}))
    help, _, keyword = _docstrings(cls)[option.field].partition("\n\n")
    if not keyword.startswith(_KEYWORD):
        return OptionText(_one_line(help), _one_line(help))
    keyword = _one_line(keyword.removeprefix(_KEYWORD))
    return OptionText(_one_line(help), keyword[:1].upper() + keyword[1:])


def _docstrings(cls: type[Any]) -> Mapping[str, str]:
    body = ast.parse(dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            found[field.target.id] = inspect.cleandoc(ast.literal_eval(below.value))
    return found


def _one_line(text: str) -> str:
    return text.replace("\n", " ").strip()
