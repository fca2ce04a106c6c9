"""Checks that a task names each kind of parallelism once: engines count only one of two values. Pure."""

from collections.abc import Iterator

from corral.core.model.errors import Refused
from corral.core.model.serving.parallelism import axis_of, flag_of
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.search.space import PARALLEL_FIELDS

_FLAGS = frozenset(flag_of(field) for field in PARALLEL_FIELDS)


def check_named_once(spec: TuningSpec) -> None:
    """Raise Refused if two keys of a task give the same size or switch of parallelism.

    A preset is no such key: a field given besides takes precedence.
    """
    known: dict[str, str] = {}
    for key, name in _keys(spec):
        kind = axis_of(name) or flag_of(name)
        if kind not in _FLAGS:
            continue
        if kind in known:
            raise Refused(f"{known[kind]} and {key} both give {kind}, and only one would count; remove one", field=key)
        known[kind] = key


def _keys(spec: TuningSpec) -> Iterator[tuple[str, str]]:
    """Yield the keys that give values, as in the task's file, and their names."""
    for group in ("parameters", "parallel_config"):
        for name, given in getattr(spec, group).items():
            if given != []:
                yield f"{group}.{name}", name
