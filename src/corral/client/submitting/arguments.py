"""Checks arguments of the Python client by type. Values with a plain meaning are accepted, all others are Refused.

Each check takes the value, its name for an error, and an example of a valid value.
"""

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import Parameter, signature
from math import isfinite, isnan
from numbers import Real
from typing import Any, Protocol, SupportsIndex, TypeVar

from corral.client.submitting.calling_process import checked_text
from corral.core.model.errors import NotFound, Refused, nearest

F = TypeVar("F", bound=Callable[..., Any])


class HasId(Protocol):
    """An object with the id of a job: a `JobHandle`, a `JobRow`."""

    @property
    def id(self) -> str: ...


JobId = str | SupportsIndex | HasId
"""A job: its id as text or as a whole number, or an object that has its id."""

Word = str | float | os.PathLike[str]
"""A word of a command."""

_EXAMPLE_ID = "17 or '17_0'"


def wrong(value: Any, field: str, wanted: str, example: str) -> Refused:
    """The error for a value of a wrong kind: what it is, what it must be, and an example."""
    return Refused(
        f"{field}: {value!r:.60} is {_kind(value)}, and must be {wanted}; write one such as {example}", field=field
    )


def text(value: Any, field: str, example: str = "'a'") -> str:
    """Text that JSON and programs can carry."""
    if not isinstance(value, str):
        raise wrong(value, field, "text", example)
    return checked_text(value, field)


def whole(value: Any, field: str, example: str = "1") -> int:
    """A whole number, also one of numpy; not a bool."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise wrong(value, field, "a whole number", example)


def number(value: Any, field: str, example: str = "1.5", *, infinite: bool = False) -> float:
    """A number, also one of numpy; not a bool, and not NaN."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong(value, field, "a number", example)
    try:
        read = float(value)
    except OverflowError:
        raise Refused(
            f"{field}: {value!r:.60} is too large a number; write one such as {example}", field=field
        ) from None
    if isnan(read) or not (infinite or isfinite(read)):
        raise Refused(f"{field}: {value!r:.60} is not a number; write one such as {example}", field=field)
    return read


def flag(value: Any, field: str) -> bool:
    """True or False; also 1 and 0."""
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if type(value).__module__ == "numpy" and type(value).__name__.startswith("bool"):
        return bool(value)
    raise wrong(value, field, "True or False", f"{field}=True")


def word(value: Any, field: str, example: str) -> str:
    """A word of a command line: text, a path, or a number as Python prints it."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bool) or not isinstance(value, str | Real):
        raise wrong(value, field, "text or a number", example)
    return checked_text(str(value), field)


def file_path(value: Any, field: str, example: str) -> str:
    """A path, as text or as a path object."""
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise wrong(value, field, "a path", example)
    return checked_text(path, field)


def several(value: Any, field: str, example: str) -> tuple[Any, ...]:
    """The entries of a list or another iterable, in its order. Text, bytes and mappings are not accepted."""
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        raise wrong(value, field, "a list", example)
    return tuple(value)


def texts(value: Any, field: str, example: str) -> tuple[str, ...]:
    """The texts of a list. A single text counts as a list of one."""
    if isinstance(value, str):
        return (text(value, field),)
    return tuple(text(one, field, example) for one in several(value, field, example))


def mapping(value: Any, field: str, example: str) -> Mapping[str, Any]:
    """A mapping whose keys are texts."""
    if not isinstance(value, Mapping):
        raise wrong(value, field, "a mapping", example)
    for key in value:
        if not isinstance(key, str):
            raise wrong(key, f"a key of {field}", "text", example)
        checked_text(key, field)
    return value


def job_id_of(value: Any, field: str = "id") -> str:
    """The id of a job: text, a whole number, or an object with an id, like `JobHandle` and `JobRow`."""
    if isinstance(value, str):
        return checked_text(value, field)
    named = getattr(value, "id", None)
    return named if isinstance(named, str) else str(_whole_id(value, field))


def one_job_id(value: Any) -> str:
    """The same for one job. Raises NotFound for an id that is not a single part of a path."""
    name = job_id_of(value)
    if not name or "/" in name:
        raise NotFound(f"there is no job {name!r}; `corral ps --all` lists all jobs", field="id")
    return name


def job_ids(value: Any, field: str = "ids") -> tuple[str, ...]:
    """The ids of jobs in a list. A single id counts as a list of one."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(job_id_of(one, field) for one in several(value, field, "[17, 18]"))
    return (job_id_of(value, field),)


def _whole_id(value: Any, field: str) -> int:
    try:
        return whole(value, field)
    except Refused:
        raise wrong(value, field, "the id of a job", _EXAMPLE_ID) from None


def optional(check: Callable[..., Any], value: Any, *rest: Any) -> Any:
    """The result of `check` for the value. None stays None, which means not given."""
    return None if value is None else check(value, *rest)


def named_arguments(method: F) -> F:
    """A decorator: a keyword that the method does not have is Refused, with the most similar keyword."""
    known = [one.name for one in signature(method).parameters.values() if one.kind is not Parameter.POSITIONAL_ONLY]

    @wraps(method)
    def checked(self: Any, *args: Any, **given: Any) -> Any:
        for name in given:
            if name not in known:
                hint = nearest(name, known[1:])
                raise Refused(f"{name} is not an argument of {method.__name__}(); {hint}".rstrip("; "), field=name)
        return method(self, *args, **given)

    return checked  # type: ignore[return-value]


def _kind(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
