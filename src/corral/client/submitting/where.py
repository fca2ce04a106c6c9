"""Reads options on where a job may run and how fast it runs there."""

import re
from collections.abc import Mapping, Sequence
from math import isfinite

from corral.core.model.devices.host_list import expand_hosts
from corral.core.model.errors import Refused, nearest
from corral.core.model.placing.split import Strategy

_VERSION = re.compile(r"\d{1,7}(\.\d{1,7})*")


def parse_speeds(given: str | Mapping[str, float] | None, *, field: str = "speed") -> tuple[tuple[str, float], ...]:
    """The relative speed of the job on each model: "v100=1,k80=0.2", or numbers by model; 0 means it cannot run.

    Raises Refused for values that are not numbers from 0 up, and for a repeated model.
    """
    if given is None:
        return ()
    pairs = [_pair(one, field, "MODEL=SPEED") for one in given.split(",")] if isinstance(given, str) else given.items()
    speeds: dict[str, float] = {}
    for model, written in pairs:
        if model in speeds:
            raise Refused(f"{field}: {model} is given twice; remove one of them", field=field)
        speeds[model] = _speed(model, written, field)
    return tuple(speeds.items())


def parse_labels(given: Mapping[str, str] | None, *, field: str = "label") -> tuple[tuple[str, str], ...]:
    """Labels of a node, sorted by key. Raises Refused for an empty key or value."""
    for key, value in (given or {}).items():
        if not (key.strip() and str(value).strip()):
            raise Refused(f"{field}: {key}={value} is not a label; it needs a key and a value", field=field)
    return tuple(sorted((key.strip(), str(value).strip()) for key, value in (given or {}).items()))


def parse_nodes(given: str | Sequence[str] | None, *, field: str) -> tuple[str, ...]:
    """Names of nodes, each once, from lists like "gpu-[01-03,07]". Raises Refused for an invalid list."""
    lists = [given] if isinstance(given, str) else given or ()
    return tuple(dict.fromkeys(name for one in lists for name in expand_hosts(one, field=field)))


def parse_version(text: str | None, *, field: str) -> tuple[int, ...] | None:
    """A dotted version: "550.54" is (550, 54). Raises Refused for anything else."""
    if text is None:
        return None
    if _VERSION.fullmatch(text.strip()) is None:
        raise Refused(f"{field}: {text!r} is not a version; write numbers with dots, such as 550.54", field=field)
    return tuple(int(part) for part in text.strip().split("."))


def parse_strategy(text: str | None, *, field: str) -> Strategy | None:
    """The way to split a share over several devices: "evenly" or "fill". Raises Refused for anything else."""
    if text is None:
        return None
    try:
        return Strategy(text.strip().lower())
    except ValueError:
        raise Refused(f"{field}: {text!r:.60} is not a way to split; {nearest(text, Strategy)}", field=field) from None


def parse_cuda(text: str | None, *, field: str) -> tuple[int, int] | None:
    """A CUDA version by its first two numbers: "12.1" is (12, 1), "12" is (12, 0)."""
    parts = parse_version(text, field=field)
    return None if parts is None else (parts[0], parts[1] if len(parts) > 1 else 0)


def _pair(text: str, field: str, form: str) -> tuple[str, str]:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not (key and equals and value):
        raise Refused(f"{field}: {text.strip()!r} has no value; write {form}", field=field)
    return key, value


def _speed(model: str, written: str | float, field: str) -> float:
    try:
        speed = float(written)
    except ValueError:
        speed = -1.0
    if not (isfinite(speed) and speed >= 0):
        raise Refused(
            f"{field}: {written} is not a speed for {model}; 1 is normal, 0.5 half as fast, 0 cannot run there",
            field=field,
        )
    return speed
