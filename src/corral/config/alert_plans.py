"""Read the rules of `alerts`. A missing value comes from Corral's own rule of that name, or is the default."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from corral.config.alert_condition import When, parse_when
from corral.config.groups import one, several
from corral.config.keys import keys_of
from corral.config.readers import text
from corral.core.model.errors import Refused
from corral.core.model.field import Field
from corral.core.model.severity import Severity

if TYPE_CHECKING:
    from pathlib import Path

    from yaml.nodes import Node, ScalarNode

MOST_RULES = 100
_MOST_CHANNELS = 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
_DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class AlertPlan:
    """A rule as written in the settings. None means that the file does not say."""

    name: str
    when: When | None = None
    for_s: Annotated[float | None, Field(least=0, most=30 * _DAY_S)] = None
    clear: Annotated[float | None, Field(least=-1e12, most=1e12)] = None
    severity: Severity | None = None
    to: tuple[str, ...] | None = None


def _name(node: "ScalarNode") -> str:
    if not _NAME.fullmatch(node.value):
        raise Refused(
            f"{node.value!r:.60} cannot be the name of a rule; write letters, digits, dots and dashes, such as gpu-hot"
        )
    return str(node.value)


def _when(node: "ScalarNode") -> When:
    return parse_when(str(node.value))


def _to(path: "Path", node: "Node") -> tuple[str, ...]:
    names = tuple(dict.fromkeys(several(text)(path, node)))
    if len(names) > _MOST_CHANNELS:
        raise Refused(f"{len(names)} channels are too many; at most {_MOST_CHANNELS} are allowed")
    return names


ALERT_KEYS = keys_of(AlertPlan, name=one(_name), when=one(_when), to=_to)
"""The keys of a rule."""
