"""The parameter `power-limit`: a limit of the GPUs of an experiment, and no flag of its inference server. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.jobs.job import MAX_POWER_LIMIT_W
from corral.core.model.serving.parallelism import bare_name

NAME = "power-limit"


def is_power_limit(name: str) -> bool:
    """Return whether a parameter of this name is the power limit."""
    return bare_name(name).replace("_", "-") == NAME


def power_limit_w_of(parameters: Mapping[str, Any]) -> int | None:
    """Return the power limit of a combination in watts, None if it has none. Raises Refused for an invalid one."""
    given = [value for name, value in parameters.items() if is_power_limit(name)]
    check_power_limits(given)
    return next((value for value in given if value is not False), None)


def check_power_limits(values: Iterable[Any]) -> None:
    """Raise Refused for values of the parameter that are neither whole watts nor false, which is no limit."""
    for value in values:
        if value is not False and not (type(value) is int and 1 <= value <= MAX_POWER_LIMIT_W):
            words = f"write whole watts from 1 to {MAX_POWER_LIMIT_W}, or false for no limit"
            raise Refused(f"parameters.{NAME}: {value!r:.40} is no power limit; {words}", field=f"parameters.{NAME}")
