"""Parts that objects of every kind have, read from JSON with untrusted fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from sys import intern
from typing import Any

ANNOTATION_PREFIXES = (
    "corral.dev/",
    "kueue.x-k8s.io/",
    "kai.scheduler/",
    "hami.io/",
    "volcano.sh/",
    "tencent.com/",
    "ome.io/",
    "serving.kserve.io/",
)
ANNOTATIONS = frozenset({"gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "pod-group-name"})
"""Annotations that Corral reads. Others can be as large as the object itself and are not kept."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of an object, as a Job is of a pod."""

    kind: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list; none if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: object) -> str | None:
    """Return the value if it is a non-empty text, else None."""
    return value if isinstance(value, str) and value else None


def number(value: object) -> int | None:
    """Return the value if it is a whole number, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def time_s(value: object) -> float | None:
    """Return a time of the API in seconds since 1970; None if it is invalid or before 1970, as the placeholder
    0001-01-01.
    """
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        since_1970_s = moment.timestamp() if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
    return None if since_1970_s is None or since_1970_s < 0 else since_1970_s


def labels(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    """Return all labels. Many objects have equal labels, so equal texts are kept once."""
    return _texts(metadata.get("labels"))


def annotations(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations that Corral reads."""
    written = mapping(metadata.get("annotations"))
    return _texts(
        {name: written[name] for name in written if name in ANNOTATIONS or name.startswith(ANNOTATION_PREFIXES)}
    )


def owner(metadata: Mapping[str, Any]) -> Owner | None:
    """Return the controller among the owners of an object, None if there is none."""
    for reference in sequence(metadata.get("ownerReferences")):
        if reference.get("controller") is True:
            kind, name, uid = (str(reference.get(part) or "") for part in ("kind", "name", "uid"))
            return Owner(intern(kind), intern(name), intern(uid))
    return None


_NOTHING: Mapping[str, str] = {}


def _texts(written: object) -> Mapping[str, str]:
    kept = {intern(name): intern(value) for name, value in mapping(written).items() if isinstance(value, str)}
    return kept or _NOTHING
