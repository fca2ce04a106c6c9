"""Flags that several commands take, as the fields of one frozen class."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

F = TypeVar("F", bound="DataclassInstance")


def taking(flags: type[F]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: the command takes the flags of class `flags` and gets them as one value, its argument `flags`."""
    hints = get_type_hints(flags, include_extras=True)
    added = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(flags)
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for name, p in inspect.signature(command).parameters.items() if name != "flags"]

        @functools.wraps(command)
        def taken(**given: Any) -> None:
            command(flags=flags(**{p.name: given.pop(p.name) for p in added}), **given)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        taken.__signature__ = inspect.Signature([*parameters, *added])  # type: ignore[attr-defined]
        taken.__annotations__ = {p.name: p.annotation for p in [*parameters, *added]}
        return taken

    return decorate
