"""Compare two versions of the settings, by the keys of the file and with values as the file writes them."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any, NamedTuple

from corral.config.docker import DockerSettings
from corral.config.kubernetes import KubernetesSettings
from corral.config.prices import price_in_words
from corral.config.settings import KEY_OF, Settings
from corral.config.site import KEYS_OF_GROUPS, KEYS_OF_QUOTAS
from corral.config.tuner import TunerSettings
from corral.core.model.devices.joined_host import HostEntry
from corral.core.model.devices.price import Price
from corral.core.model.queues.queue import Quota
from corral.core.model.units import format_duration, format_memory, format_share
from corral.core.model.version import dotted
from corral.wire import to_plain

UNTOLD = frozenset({"places"})
"""Fields about the file itself, which are not compared."""

_HOUR_S, _DAY_S = 3600.0, 86400.0


class Difference(NamedTuple):
    """A setting with its old and its new value; None means not set."""

    setting: str
    old: str | None
    new: str | None


def differences(before: Settings, after: Settings, names: frozenset[str]) -> tuple[Difference, ...]:
    """The differing settings among these names of `Settings`, in the order of its fields."""
    old, new = told(before, names), told(after, names)
    return tuple(Difference(key, old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key))


def told(settings: Settings, names: frozenset[str]) -> dict[str, str]:
    """The values of these settings by key, as the file would write them.

    For queues, projects, pools and quotas, only values that differ from the default.
    """
    words: dict[str, str] = {}
    for field in fields(Settings):
        if field.name not in names or field.name in UNTOLD:
            continue
        value = getattr(settings, field.name)
        if field.name in KEYS_OF_GROUPS:
            for group in value:
                at = f"{field.name}.{group.name}"
                words[at] = "defined"
                words |= _of_group(at, group, KEYS_OF_GROUPS[field.name])
        elif isinstance(value, Quota):
            words |= _of_group(field.name, value, KEYS_OF_QUOTAS)
        elif isinstance(value, KubernetesSettings | DockerSettings | TunerSettings):
            words |= _of_group(field.name, value, {})
        elif value is not None:
            key = KEY_OF[field.name]
            words[key] = f"{value / _HOUR_S:g}" if key.endswith("_hours") else _text(field.name, value)
    return words


def _of_group(at: str, group: Any, keys: Mapping[str, str]) -> dict[str, str]:
    told: dict[str, str] = {}
    for field in fields(group):
        value = getattr(group, field.name)
        if field.name == "name" or value is None or value == field.default:
            continue
        key = f"{at}.{keys.get(field.name, field.name)}"
        if isinstance(value, Quota):
            told |= _of_group(key, value, KEYS_OF_QUOTAS)
        elif not (field.default is MISSING and not value):
            told[key] = _text(field.name, value)
    return told


def _text(name: str, value: Any) -> str:
    """The text of a setting's value. The end of the name is the unit."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, int | float):
        return _amount(name, value)
    if name == "min_compute":
        return dotted(value)
    if isinstance(value, tuple):
        return ", ".join(_parts(value)) or "none"
    return str(value)


def _amount(name: str, value: float) -> str:
    if name.endswith("_milli") or "_milli_" in name:
        return format_share(int(value))
    if name.endswith("_mib"):
        return format_memory(int(value))
    if name.endswith("_s"):
        exact = value % 60 == 0 and (value < _DAY_S or value % _HOUR_S == 0)
        return format_duration(value) if exact and value else f"{value:g}s"
    return f"{value:g}"


def _parts(values: tuple[Any, ...]) -> Iterator[str]:
    for value in values:
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
            name, said = value
            yield f"{name}: {_text('', said) if isinstance(said, int | float | str | Enum) else to_plain(said)}"
        elif isinstance(value, Price):
            yield price_in_words(value)
        elif isinstance(value, HostEntry):
            given = {key: said for key, said in to_plain(value).items() if said is not None}
            yield value.name if len(given) == 1 else f"{{{', '.join(f'{key}: {said}' for key, said in given.items())}}}"
        else:
            yield str(value)
