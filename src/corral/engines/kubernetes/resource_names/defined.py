"""The resource names that a cluster defines in ConfigMaps, as a site's own definitions. Pure.

A ConfigMap says how a name is asked for, and not what a unit of it means. So it changes the names that Corral knows, by
its own definitions or by the site's file, and defines no other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.printable import printable
from corral.core.sharing.definitions import Catalogue, own_catalogue, redefined
from corral.engines.kubernetes.cluster.objects import labels, mapping
from corral.engines.kubernetes.resource_names.written import ENABLED_LABEL, MANAGED_BY, NAME_PREFIX, OURS
from corral.untrusted import guarded

MOST_CHARACTERS = 1000
"""The most characters of a value in a definition; descriptions are sentences."""
_FIELDS = ("key", "dataType", "defaultValue", "descriptionZh", "descriptionEn", "group", "limits", "requests")


@dataclass(frozen=True, slots=True)
class Defined:
    """One definition: the name of its ConfigMap and its fields, or why it makes no sense."""

    config_map: str
    fields: Mapping[str, str]
    enabled: bool = True
    nonsense: str | None = None


def read_definition(item: Mapping[str, Any]) -> Defined | None:
    """Read a ConfigMap, which is untrusted. None for another one, and for those that Corral has published itself."""
    metadata = mapping(item.get("metadata"))
    name, marked = str(metadata.get("name") or ""), labels(metadata)
    if not name.startswith(NAME_PREFIX) or marked.get(MANAGED_BY) == OURS:
        return None
    written = mapping(item.get("data"))
    fields = {field: str(written[field]) for field in _FIELDS if field in written}
    long = next((field for field, value in fields.items() if len(value) > MOST_CHARACTERS), None)
    if long is not None:
        return Defined(name, {}, nonsense=f"{long} has more than {MOST_CHARACTERS} characters")
    fields = {field: printable(value) for field, value in fields.items()}
    enabled = marked.get(ENABLED_LABEL)
    if enabled not in ("true", "false"):
        return Defined(name, fields, nonsense=f"its label {ENABLED_LABEL} is neither true nor false")
    return Defined(name, fields, enabled == "true")


def with_definitions(
    base: Catalogue | None, definitions: Iterable[Defined]
) -> tuple[Catalogue, tuple[tuple[Defined, str], ...]]:
    """Return the resource names with these definitions, and those that make no sense, each with the reason.

    One that makes no sense changes nothing. Of two that define the same name the first by its ConfigMap's name counts.
    """
    catalogue = base or own_catalogue()
    wrong: list[tuple[Defined, str]] = []
    by: dict[str, str] = {}
    for one in sorted(definitions, key=lambda one: one.config_map):
        key = one.fields.get("key", "")
        if one.nonsense is not None:
            wrong.append((one, one.nonsense))
        elif key in by:
            wrong.append((one, f"{by[key]} defines {key:.100}, too"))
        else:
            read = guarded(f"ConfigMap {one.config_map:.100}", partial(_defined, catalogue, one))
            if isinstance(read, Catalogue):
                catalogue, by[key] = read, one.config_map
            else:
                wrong.append((one, str(read)))
    return catalogue, tuple(wrong)


def _defined(catalogue: Catalogue, one: Defined) -> Catalogue | Refused:
    try:
        return redefined(catalogue, "data", one.fields, enabled=one.enabled)
    except Refused as refused:
        return refused
