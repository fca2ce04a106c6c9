"""How the options of a job are shown to who writes Python: in messages and in `help`."""

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
    """What is refused within is told with the names of options in place of the flags: params, not --param."""
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
    """Stands in a signature for the default of an option, which the option's meaning tells."""

    def __repr__(self) -> str:
        return "..."


def with_options(method: F) -> F:
    """A decorator: `help` and editors show a method that takes `RequestOptions` as `**options` with each of them."""
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
    """An annotation in quotes, without them."""
    return getattr(kind, "__forward_arg__", kind)
