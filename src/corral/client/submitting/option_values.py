"""Checks the values of a job's options by type. Values with a plain meaning are accepted, all others are Refused."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from numbers import Real
from typing import Any

from corral.client.submitting import arguments
from corral.core.model.errors import Refused, nearest
from corral.core.model.field import Kind
from corral.core.model.jobs.array_indices import MAX_ARRAY_SIZE
from corral.declared.option_fields import OptionField
from corral.declared.option_fields import options as declared_options

Check = Callable[[Any, str], Any]

Given = Mapping[str, Any]
"""The given options, with values of checked types."""


def checked_options(options: Mapping[str, Any], spell: Callable[[str], str]) -> Given:
    """The given options, each with a value of an allowed type. A value of None means not given.

    `spell` turns the name of an option into the user's spelling, for errors. Raises Refused.
    """
    known = declared_options()
    for name in options:
        if name not in known:
            raise Refused(f"{name} is not an option of a job; {nearest(str(name), known)}", field=name)
    return {name: _check_of(known[name])(value, spell(name)) for name, value in options.items() if value is not None}


def command_words(command: Any) -> tuple[str, ...]:
    """The words of a command; numbers and paths become text. Raises Refused if it is not a list of words."""
    if isinstance(command, str):
        raise Refused(
            f"command: {command!r} is one string; give a list of arguments, or ['sh', '-c', {command!r}]",
            field="command",
        )
    example = "['python', 'train.py']"
    return tuple(arguments.word(one, "command", "'5'") for one in arguments.several(command, "command", example))


def _text(example: str) -> Check:
    return lambda value, field: arguments.text(value, field, repr(example))


def _texts(example: str) -> Check:
    return lambda value, field: arguments.texts(value, field, example)


def _number(example: str) -> Check:
    return lambda value, field: _plain_number(value, field, example)


def _path(example: str) -> Check:
    return lambda value, field: arguments.file_path(value, field, repr(example))


def _text_or_number(example: str) -> Check:
    def check(value: Any, field: str) -> Any:
        if isinstance(value, str):
            return arguments.text(value, field)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise arguments.wrong(value, field, "text or a number", example)
        return _plain_number(value, field, example)

    return check


def _plain_number(value: Any, field: str, example: str) -> int | float:
    """A number that stays whole if it is whole: it then prints as the user wrote it."""
    read = arguments.number(value, field, example)
    return arguments.whole(value, field) if hasattr(value, "__index__") else read


def _mapping_of(check: Check, example: str) -> Check:
    def checked(value: Any, field: str) -> Any:
        return {key: check(one, f"{field}: {key}") for key, one in arguments.mapping(value, field, example).items()}

    return checked


def _word(value: Any, field: str) -> str:
    return arguments.word(value, field, "'1'")


def _variable(value: Any, field: str) -> str | None:
    return None if value is None else _word(value, field)


def _speed(value: Any, field: str) -> Any:
    if isinstance(value, str):
        return arguments.text(value, field)
    return _mapping_of(_text_or_number("0.5"), "{'v100': 1, 'k80': 0.2}")(value, field)


def _version(value: Any, field: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return arguments.text(value, field, "'12.1'")


def _compute(value: Any, field: str) -> str:
    if isinstance(value, float):
        return str(value)
    return arguments.text(value, field, "'8.0'")


def _array(value: Any, field: str) -> str:
    """The text of the indices, from text or from whole numbers."""
    if isinstance(value, str):
        return arguments.text(value, field)
    if isinstance(value, bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        try:
            last = max(1, arguments.whole(value, field)) - 1
        except Refused:
            raise arguments.wrong(value, field, "indices", "'0-4', '0,3,5-7' or range(5)") from None
        raise Refused(
            f"{field}: {value!r} is one number; for so many jobs write '0-{last}' or range({value!r}), "
            f"for this index alone '{value!r}'",
            field=field,
        )
    indices = [arguments.whole(one, field, "range(5)") for one in islice(value, MAX_ARRAY_SIZE + 1)]
    if not indices:
        raise Refused(f"{field}: there are no indices in it; write some such as '0-4' or range(5)", field=field)
    return ",".join(map(str, indices))


def _gpus(value: Any, field: str) -> int | float | str:
    if isinstance(value, bool) or not isinstance(value, str | Real):
        raise Refused(f"{field}: {value!r:.60} is not a number of GPUs; write one such as 2 or 0.5", field=field)
    return arguments.text(value, field) if isinstance(value, str) else _plain_number(value, field, "2 or 0.5")


def _template(value: Any, field: str) -> Any:
    if isinstance(value, Mapping):
        return arguments.mapping(value, field, "{'spec': {}}")
    return arguments.file_path(value, field, "'pod.yaml'")


def _params(value: Any, field: str) -> Mapping[str, Any]:
    return arguments.mapping(value, field, "{'lr': [0.1, 0.01]}")


_LABELS = _mapping_of(_word, "{'cuda-major-version': '12'}")

_OF_KINDS: dict[Kind, Callable[[str], Check]] = {
    Kind.FLAG: lambda example: arguments.flag,
    Kind.WHOLE: lambda example: arguments.whole,
    Kind.NUMBER: _number,
    Kind.TEXT: _text,
    Kind.TEXTS: _texts,
    Kind.TEXT_OR_NUMBER: _text_or_number,
    Kind.MEMORY: _text,
    Kind.PATH: _path,
}

_OWN: dict[str, Check] = {
    "gpus": _gpus,
    "resource": _mapping_of(_text_or_number("0.5"), "{'cuda.shares': 0.5}"),
    "min_compute": _compute,
    "min_driver": _version,
    "min_cuda": _version,
    "label": _LABELS,
    "prefer": _LABELS,
    "speed": _speed,
    "after": arguments.job_ids,
    "env": _mapping_of(_variable, "{'NAME': 'value'}"),
    "pod_template": _template,
    "array": _array,
    "params": _params,
}


def _check_of(option: OptionField) -> Check:
    """The check that reads the value of an option."""
    return _OWN[option.name] if option.kind is Kind.OWN else _OF_KINDS[option.kind](option.option.example)
