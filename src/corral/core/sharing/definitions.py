"""Resource names of other systems, as data: each definition has a key, and the meaning of one unit of it."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.requested_devices import HOST_RESOURCES
from corral.core.model.units import parse_amount
from corral.files import read_whole


class Quantity(StrEnum):
    """The quantity that an amount of a resource counts."""

    SHARE = "share"
    DEVICES = "devices"
    MEMORY = "memory"
    MEMORY_PERCENT = "memory_percent"
    CORES = "cores"
    SLICES = "slices"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of one unit in Corral. `resources.toml` explains the fields."""

    quantity: Quantity
    unit: int
    whole_at: int | None = None
    most: int | None = None
    splits: bool = False
    with_part: str | None = None
    needs: str | None = None
    excludes: tuple[str, ...] = ()
    means: Means | None = None


@dataclass(frozen=True, slots=True)
class Resource:
    """One key of another system.

    Attributes:
        default_value: the amount for a key without an amount, or for a required key that is missing; "" for none.
        description_en, description_zh: for people, in English and in Chinese; "" if the definition has none.
        limits, requests: the policies of its limit and its request. A submission to Corral has one amount for both.
    """

    key: str
    data_type: str
    group: str
    limits: str
    requests: str
    grants: Meaning
    default_value: str = ""
    description_en: str = ""
    description_zh: str = ""

    @property
    def required(self) -> bool:
        """Whether a request with another key of its group must include this key, or gets its default."""
        return "required" in (self.limits, self.requests)

    @property
    def descriptions(self) -> dict[str, str]:
        """The existing descriptions, by language."""
        every = {"en": self.description_en, "zh": self.description_zh}
        return {language: text for language, text in every.items() if text}

    def match(self, key: str) -> str | None:
        """The text that the star of the definition matches in `key` ("" without a star); None if the key does not
        match.
        """
        prefix, star, suffix = self.key.partition("*")
        if not star:
            return "" if key == self.key else None
        if key.startswith(prefix) and key.endswith(suffix) and len(key) > len(prefix) + len(suffix):
            return key[len(prefix) : len(key) - len(suffix)]
        return None


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The definitions by key, the keys that are not about GPUs and are ignored, and those that the site disabled."""

    resources: Mapping[str, Resource]
    ignored: frozenset[str]
    disabled: frozenset[str] = frozenset()

    def find(self, key: str) -> tuple[Resource, str]:
        """The definition of a key, and what its star matches. Raises Refused, which names the most similar key."""
        for resource in self.resources.values():
            matched = resource.match(key)
            if matched is not None:
                return resource, matched
        if key in self.disabled:
            raise Refused(f"{key}: this site has disabled this resource name; use another", field=key)
        raise Refused(
            f"{key}: this resource name is not defined here; {nearest(key, [*HOST_RESOURCES, *self.resources])}",
            field=key,
        )


class NamesInForce:
    """The resource names of a site whose cluster may define some of them anew while the server runs.

    Attributes:
        catalogue: the names that count now. It is replaced as a whole, so any thread may read it.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue


def amount_of(resource: Resource, key: str, text: str) -> Fraction:
    """The amount in a text for a key of this definition, in its units. Raises Refused with the key."""
    number = parse_amount(text, field=key)
    meaning = resource.grants
    if resource.data_type == "integer" and number.denominator != 1:
        raise Refused(f"{key}: {text} is not a whole number; ask for {max(1, int(number))}", field=key)
    if meaning.most is not None and number > meaning.most:
        raise Refused(f"{key}: {text} is too much; the most that can be asked for is {meaning.most}", field=key)
    if meaning.whole_at is not None and number > meaning.whole_at and number % meaning.whole_at:
        below = int(number // meaning.whole_at * meaning.whole_at)
        raise Refused(
            f"{key}: {text} is neither below {meaning.whole_at} nor a multiple of it; "
            f"ask for {below} or {below + meaning.whole_at}",
            field=key,
        )
    return number


_MOST_BYTES = 4 * 1024 * 1024
_CHOICES = {
    "dataType": ("integer", "number"),
    "limits": ("disabled", "required", "optional"),
    "requests": ("disabled", "required", "fromLimits"),
}
_FIELDS = {
    "key": "key",
    "dataType": "data_type",
    "group": "group",
    "limits": "limits",
    "requests": "requests",
}
_OPTIONAL_FIELDS = {
    "defaultValue": "default_value",
    "descriptionEn": "description_en",
    "descriptionZh": "description_zh",
}
_UNANSWERABLE = {("disabled", "disabled"), ("disabled", "fromLimits")}
"""Limits and requests of a key that no request could name: no limit is allowed, and no other request."""

_ENABLED = {True: True, False: False, "true": True, "false": False}
"""Values of `enabled`: booleans of TOML, and texts of a label."""

_MEANING_TYPES: dict[str, type] = {
    "quantity": str,
    "unit": int,
    "whole_at": int,
    "most": int,
    "splits": bool,
    "with_part": str,
    "needs": str,
    "excludes": list,
    "means": str,
}


def load_catalogue(site_files: Sequence[Path] = ()) -> Catalogue:
    """The definitions that come with Corral. Those in the site's files are added, or replace others by key.

    Raises Refused, with the file, the definition and the field, for anything that cannot be parsed.
    """
    sources = [("resources.toml", files("corral.core.sharing").joinpath("resources.toml").read_bytes())]
    for path in site_files:
        try:
            sources.append((str(path), read_whole(path, _MOST_BYTES)))
        except OSError as error:
            raise Refused(f"{path}: cannot be read: {error.strerror}", field=str(path)) from None
    resources: dict[str, Resource] = {}
    ignored: set[str] = set()
    disabled: set[str] = set()
    for name, content in sources:
        table = _parse(name, content)
        ignored.update(table.get("ignored", ()))
        for entry in table.get("resource", ()):
            resource, enabled = _resource(name, entry)
            (disabled.discard if enabled else disabled.add)(resource.key)
            resources[resource.key] = resource
    for key in disabled:
        del resources[key]
    return Catalogue(resources, frozenset(ignored), frozenset(disabled))


@cache
def own_catalogue() -> Catalogue:
    """The definitions that come with Corral."""
    return load_catalogue()


def redefined(catalogue: Catalogue, where: str, fields: Mapping[str, str], *, enabled: bool) -> Catalogue:
    """The definitions with one of them changed by fields that lack the meaning, which stays as it was.

    `where` names their source for messages. Raises Refused for a key without a meaning, and for invalid fields.
    """
    key = fields.get("key", "")
    known = catalogue.resources.get(key)
    if known is None and key in catalogue.disabled:
        return catalogue
    if known is None:
        raise Refused(f"nobody says what a unit of {key!r:.100} means; the file of resource_names can", field=key)
    changed, _ = _resource(where, {**fields, "grants": {"quantity": known.grants.quantity.value, "unit": 1}})
    resources = {**catalogue.resources, key: replace(changed, grants=known.grants)}
    _refuse_default(where, where, resources[key])
    if enabled:
        return replace(catalogue, resources=resources)
    del resources[key]
    return replace(catalogue, resources=resources, disabled=catalogue.disabled | {key})


def _parse(name: str, content: bytes) -> dict[str, Any]:
    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"{name}: {error}", field=name) from None
    for key in table:
        if key not in ("resource", "ignored"):
            raise Refused(f"{name}: unknown key {key!r}; {nearest(key, ['resource', 'ignored'])}", field=name)
    if not _is_list(table.get("ignored", []), str):
        raise Refused(f"{name}: ignored must be a list of texts", field=name)
    if not _is_list(table.get("resource", []), dict):
        raise Refused(f"{name}: resource must be tables, each begun by [[resource]]", field=name)
    return table


def _is_list(value: Any, of: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, of) for item in value)


def _resource(name: str, entry: dict[str, Any]) -> tuple[Resource, bool]:
    """The definition, and whether it is enabled."""
    where = f"{name}: resource {entry.get('key', '?')!r}"
    needed = [*_FIELDS, "grants"]
    known = [*needed, *_OPTIONAL_FIELDS, "enabled"]
    for field in entry:
        if field not in known:
            raise Refused(f"{where}: unknown field {field!r}; {nearest(field, known)}", field=name)
    for field in needed:
        if field not in entry:
            raise Refused(f"{where}: {field} is missing", field=name)
    for field, choices in _CHOICES.items():
        if entry[field] not in choices:
            raise Refused(f"{where}: {field} is {entry[field]!r}; write one of {', '.join(choices)}", field=name)
    texts = {}
    for field, attribute in (_FIELDS | _OPTIONAL_FIELDS).items():
        if not isinstance(entry.get(field, ""), str):
            raise Refused(f"{where}: {field} must be a text in quotes", field=name)
        texts[attribute] = entry.get(field, "")
    if (texts["limits"], texts["requests"]) in _UNANSWERABLE:
        raise Refused(
            f"{where}: limits is {texts['limits']!r} and requests is {texts['requests']!r}, so no request could "
            "name it; write enabled = false to take it away, or requests = 'required'",
            field=name,
        )
    enabled = entry.get("enabled", True)
    if not isinstance(enabled, bool | str) or enabled not in _ENABLED:
        raise Refused(f"{where}: enabled must be true or false", field=name)
    if not isinstance(entry["grants"], dict):
        raise Refused(f"{where}: grants must be a table, begun by [resource.grants]", field=name)
    resource = Resource(**texts, grants=_meaning(name, where, entry["grants"]))
    _refuse_default(name, where, resource)
    return resource, _ENABLED[enabled]


def _refuse_default(name: str, where: str, resource: Resource) -> None:
    """Raise Refused if the default is not a valid amount."""
    if resource.default_value:
        try:
            amount_of(resource, resource.key, resource.default_value)
        except Refused as refused:
            raise Refused(f"{where}: defaultValue: {refused}", field=name) from None


def _meaning(name: str, where: str, entry: dict[str, Any]) -> Meaning:
    for field, value in entry.items():
        if field not in _MEANING_TYPES:
            raise Refused(f"{where}: unknown field grants.{field}; {nearest(field, _MEANING_TYPES)}", field=name)
        if type(value) is not _MEANING_TYPES[field]:
            raise Refused(f"{where}: grants.{field} must be of type {_MEANING_TYPES[field].__name__}", field=name)
    if not _is_list(entry.get("excludes", []), str):
        raise Refused(f"{where}: grants.excludes must be a list of texts", field=name)
    for field in ("quantity", "unit"):
        if field not in entry:
            raise Refused(f"{where}: grants.{field} is missing", field=name)
    for field, choices in (("quantity", [q.value for q in Quantity]), ("means", [m.value for m in Means])):
        if field in entry and entry[field] not in choices:
            raise Refused(f"{where}: grants.{field}: {entry[field]!r}; {nearest(entry[field], choices)}", field=name)
    quantity, unit = Quantity(entry["quantity"]), entry["unit"]
    means = Means(entry["means"]) if "means" in entry else None
    if unit < 1:
        raise Refused(f"{where}: grants.unit is {unit}; a unit must come to 1 or more", field=name)
    rest = {field: value for field, value in entry.items() if field not in ("quantity", "means", "unit", "excludes")}
    return Meaning(quantity=quantity, unit=unit, means=means, excludes=tuple(entry.get("excludes", ())), **rest)
