"""The search space: named parameters with their values, and their combinations."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from random import Random
from typing import Any

from corral.core.model.errors import Refused, nearest
from corral.core.model.serving.presets import preset_names

Value = str | int | float | bool
Parameters = Mapping[str, Value]
"""One combination: the value of each parameter by its name."""

Row = tuple[Value, ...]
"""The values alone, in the order of the parameters."""

RANGE_STEPS = 33
"""The number of steps into which a search divides a range: 3 % of it each."""

PARALLEL_FIELDS = (
    *("tp", "pp", "dp", "cp", "dcp", "enable_expert_parallel"),
    *("moe_tp", "moe_ep", "moe_cluster", "moe_dense_tp"),
)
QUANT_FIELDS = ("gemm_dtype", "kvcache_dtype", "attention_dtype", "moe_dtype")


@dataclass(frozen=True, slots=True)
class ListedParameter:
    """A parameter with a list of values."""

    name: str
    values: tuple[Value, ...]

    @property
    def steps(self) -> tuple[Value, ...]:
        """All values; numbers in ascending order, so that neighbours are similar."""
        return tuple(sorted(self.values)) if self.ordered else self.values

    @property
    def ordered(self) -> bool:
        """Whether the values are numbers, so that their order has a meaning."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)

    def draw(self, random: Random) -> Value:
        return random.choice(self.values)


@dataclass(frozen=True, slots=True)
class RangeParameter:
    """A parameter with every number from `low` to `high`; uniform in the logarithm if `log`, only integers if
    `whole`.
    """

    name: str
    low: float
    high: float
    log: bool
    whole: bool

    ordered = True

    @property
    def steps(self) -> tuple[Value, ...]:
        """Values over the range in ascending order: all if they are few, otherwise `RANGE_STEPS` of them."""
        if self.whole and self.high - self.low < RANGE_STEPS:
            return tuple(range(int(self.low), int(self.high) + 1))
        found = [self._at(step / (RANGE_STEPS - 1)) for step in range(RANGE_STEPS)]
        return tuple(dict.fromkeys(found))

    def draw(self, random: Random) -> Value:
        if self.whole and not self.log:
            return random.randint(int(self.low), int(self.high))
        return self._at(random.random())

    def _at(self, part: float) -> Value:
        if self.log:
            value = math.exp(math.log(self.low) + part * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + part * (self.high - self.low)
        value = min(max(value, self.low), self.high)
        return round(value) if self.whole else value


Parameter = ListedParameter | RangeParameter


@dataclass(frozen=True)
class Space:
    """All combinations. The last parameter changes fastest."""

    parameters: tuple[Parameter, ...]

    @cached_property
    def steps(self) -> tuple[tuple[Value, ...], ...]:
        """The values of each parameter; at most `RANGE_STEPS` for a range."""
        return tuple(parameter.steps for parameter in self.parameters)

    @property
    def size(self) -> int | None:
        """The number of combinations; None with a range of real numbers, and beyond 64 bits."""
        counts = [_count(parameter) for parameter in self.parameters]
        size = prod(count or 0 for count in counts)
        return None if None in counts or size >= 1 << 63 else size

    def grid(self) -> Iterator[Parameters]:
        """Yield every combination, in the order in which the values were written; none is kept in memory.

        There must be no range of real numbers.
        """
        values = [_every_value(parameter) for parameter in self.parameters]
        for index in range(prod(map(len, values))):
            yield self.named(_digits(values, index))

    def named(self, values: Sequence[Value]) -> Parameters:
        return {parameter.name: value for parameter, value in zip(self.parameters, values, strict=True)}

    def draw(self, random: Random) -> Parameters:
        """Return a random combination; each value of a parameter is equally likely."""
        return self.named([parameter.draw(random) for parameter in self.parameters])

    def has(self, parameters: Parameters) -> bool:
        """Return whether this is one of the combinations."""
        return list(parameters) == [parameter.name for parameter in self.parameters] and all(
            _has(parameter, parameters[parameter.name]) for parameter in self.parameters
        )


def row_of(parameters: Parameters) -> Row:
    """Return the values of a combination, which identify it."""
    return tuple(parameters.values())


def _every_value(parameter: Parameter) -> Sequence[Value]:
    """Return all values of a list, or of a range of integers."""
    if isinstance(parameter, ListedParameter):
        return parameter.values
    return range(int(parameter.low), int(parameter.high) + 1)


def _count(parameter: Parameter) -> int | None:
    if isinstance(parameter, ListedParameter):
        return len(parameter.values)
    return int(parameter.high) - int(parameter.low) + 1 if parameter.whole else None


def _has(parameter: Parameter, value: Value) -> bool:
    if isinstance(parameter, ListedParameter):
        return value in parameter.values
    return isinstance(value, int | float) and parameter.low <= value <= parameter.high


def _digits(values: Sequence[Sequence[Value]], index: int) -> list[Value]:
    found = []
    for choices in reversed(values):
        index, digit = divmod(index, len(choices))
        found.append(choices[digit])
    return found[::-1]


def read_space(task: Mapping[str, Any]) -> Space:
    """Return the space of a task: its `parameters`, `parallel_config` and `quant_config`, in this order.

    Raises:
        Refused: a value is no list and no range, or nothing is left to try.
    """
    parameters = [
        _read_parameter(name, given)
        for name, given in _group(task, "parameters").items()
        if not (isinstance(given, list) and not given)
    ]
    for group, fields in (("parallel_config", PARALLEL_FIELDS), ("quant_config", QUANT_FIELDS)):
        parameters += _read_fields(group, _group(task, group), fields)
    if not parameters:
        empty = [repr(name) for name in _group(task, "parameters")]
        why = f", for no values are given to {', '.join(empty)}" if empty else ""
        raise Refused(
            f"the task has no parameters to try{why}; give at least one with a list of values", field="parameters"
        )
    return Space(tuple(parameters))


def _group(task: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    given = task.get(name) or {}
    if not isinstance(given, Mapping):
        raise Refused(f"{name} must have names with values, not {given!r}", field=name)
    return given


def _read_fields(group: str, given: Mapping[str, Any], fields: Sequence[str]) -> Iterator[Parameter]:
    prefix = "__parallel__" if group == "parallel_config" else "__quant__"
    for name, value in given.items():
        field = f"{group}.{name}"
        values = value if isinstance(value, list) else [value]
        if name in ("presets", "preset"):
            yield _presets(field, prefix + "preset", values, group.removesuffix("_config"), given)
            continue
        if name not in fields:
            raise Refused(f"{field} is not known; {nearest(name, ('presets', *fields))}", field=field)
        if values:
            yield _listed(field, prefix + name, values)


def _presets(field: str, name: str, values: list[Any], group: str, given: Mapping[str, Any]) -> ListedParameter:
    if {"preset", "presets"} <= given.keys():
        raise Refused(f"{field} is given with the other of `preset` and `presets`; remove one", field=field)
    known = preset_names(group)
    for value in values:
        if value not in known:
            raise Refused(f"{field}: {value!r:.80} is no preset; {nearest(str(value), known)}", field=field)
    if not values:
        raise Refused(f"{field} is empty; name one of {', '.join(known)}", field=field)
    return _listed(field, name, values)


def _read_parameter(name: str, given: Any) -> Parameter:
    field = f"parameters.{name}"
    if isinstance(given, list):
        return _listed(field, name, given)
    if not isinstance(given, Mapping):
        raise Refused(f"{field} is {given!r}; give a list of values, [{given!r}] for this one alone", field=field)
    kind = given.get("type")
    if kind in ("choice", "categorical"):
        _only(field, given, ("type", "values", "choices"))
        values = given.get("values", given.get("choices"))
        if not isinstance(values, list) or not values:
            raise Refused(f"{field} needs a list of `values`", field=field)
        return _listed(field, name, values)
    if kind in ("continuous", "integer"):
        return _range(field, name, given)
    known = ("choice", "categorical", "continuous", "integer")
    raise Refused(f"{field}: type {kind!r} is not known; {nearest(str(kind), known)}", field=field)


def _only(field: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            raise Refused(f"{field}.{key} is not known; {nearest(str(key), known)}", field=f"{field}.{key}")


def _listed(field: str, name: str, values: list[Any]) -> ListedParameter:
    for value in values:
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise Refused(f"{field}: {value!r} is no text, number, true or false", field=field)
    # 1 and true are equal, but a flag with a value is not a bare flag.
    distinct = {(type(value) is bool, value): value for value in values}
    return ListedParameter(name, tuple(distinct.values()))


def _range(field: str, name: str, given: Mapping[str, Any]) -> RangeParameter:
    _only(field, given, ("type", "low", "high", "log"))
    low: Any = given.get("low")
    high: Any = given.get("high")
    log, whole = given.get("log", False), given["type"] == "integer"
    for bound in (low, high):
        if type(bound) not in ((int,) if whole else (int, float)) or not math.isfinite(bound):
            raise Refused(f"{field} needs `low` and `high`, both {'integers' if whole else 'numbers'}", field=field)
    if not isinstance(log, bool):
        raise Refused(f"{field}.log is {log!r}; it is true or false", field=f"{field}.log")
    if low >= high:
        raise Refused(f"{field}: low is {low}, which is not below high, {high}", field=field)
    if log and low <= 0:
        raise Refused(f"{field}: low is {low}; with `log` it must be above 0", field=field)
    return RangeParameter(name, low, high, log, whole)
