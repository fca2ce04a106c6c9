"""A decorator for classes that people instantiate by hand: an unknown keyword is Refused, with a suggestion."""

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

from corral.core.model.errors import Refused

T = TypeVar("T")


def known_fields(hint: str, **instead: str) -> Callable[[type[T]], type[T]]:
    """A decorator of a dataclass. `instead` has replacements for some names. `hint` is added to every message."""

    def decorate(cls: type[T]) -> type[T]:
        made = cls.__init__
        known = frozenset(one.name for one in fields(cls) if one.init)  # type: ignore[arg-type]

        @wraps(made)
        def init(self: T, *args: Any, **given: Any) -> None:
            if not known.issuperset(given):
                raise _refusal(cls, next(name for name in given if name not in known), known)
            made(self, *args, **given)

        cls.__init__ = init  # type: ignore[assignment]
        return cls

    def _refusal(cls: type[Any], name: str, known: frozenset[str]) -> Refused:
        from difflib import get_close_matches

        close = instead.get(name) or next(iter(get_close_matches(name, sorted(known), n=1)), "")
        write = f"; write {close}" if close else ""
        return Refused(f"{name} is not a field of {cls.__name__}{write}; {hint}", field=name)

    return decorate
