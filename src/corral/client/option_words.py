"""Shows the options of a job to Python programmers: in messages and in `help`."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from corral.client.submitting.options import RequestOptions
from corral.core.model.errors import Refused

_FLAG = re.compile(r"--([a-z][a-z-]*)")

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def python_words() -> Iterator[None]:
    """A context in which refusals name options instead of flags: params, not --param."""
    try:
        yield
    except Refused as refused:
        told = "`".join(
            part if quoted % 2 else _FLAG.sub(_option, part) for quoted, part in enumerate(str(refused).split("`"))
        )
        raise type(refused)(told, field=refused.field) from None


def _option(flag: re.Match[str]) -> str:
    name = "params" if flag[1] == "param" else flag[1].replace("-", "_")
    return name if name in RequestOptions.__annotations__ else flag[0]


class _NotGiven:
    """The default of an option in a signature. The meaning of the option describes the real default."""

    def __repr__(self) -> str:
        return "..."


def with_options(method: F) -> F:
    """A decorator for methods with `**options` of `RequestOptions`: `help` and editors show each option."""
    signature = inspect.signature(method)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_NotGiven(), annotation=_shown(kind))
        for name, kind in RequestOptions.__annotations__.items()
    ]
    method.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    meanings = inspect.cleandoc(RequestOptions.__doc__ or "").partition("Keys:")[2]
    method.__doc__ = f"{inspect.cleandoc(method.__doc__ or '')}\n\nOptions:{meanings}"
    return method


def _shown(kind: Any) -> Any:
    """An annotation, without its quotes if it has any."""
    return getattr(kind, "__forward_arg__", kind)
