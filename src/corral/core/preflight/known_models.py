"""Models that are known by their names: families whose configs are widely known, in `known_models.toml`."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from corral.core.preflight.family_defaults import sizes
from corral.core.preflight.model_config import shape_of
from corral.core.preflight.model_name import model_part, publisher_in
from corral.core.preflight.model_shape import ModelShape

_TOKEN = re.compile(r"[a-z]+|\d+(?:\.\d+)?")
_SIZE = re.compile(r"\d[bmt](?![a-z])|\dx\d")
_KINDS = frozenset({"vl", "vision", "omni", "audio", "moe", "draft", "eagle", "lora", "tiny", "random"})
"""Words in a name that mean another shape than the family's own, unless a known name has them too."""

_HEADLESS = frozenset({"embedding", "embeddings", "reranker"})
"""Words of models without the table from vectors to tokens."""
_USED_ONLY = ("a", "e", "x")
"""Words before the size of one expert, or of what one token uses: "A3B", "8x7B"."""

Tokens = tuple[str, ...]


@lru_cache(maxsize=256)
def known_shape(name: str) -> ModelShape | None:
    """The shape of the model with this name, None if none is known.

    A known name is found in a longer one if its parts follow each other there: "llama-3.1 8b" in
    "Meta-Llama-3.1-8B-Instruct". The longest counts. A known name without a size is none in a name with one: a model
    that was distilled from another has that one's name too. Some are known of one publisher, and may be meant where
    none is named.
    """
    part = model_part(name)
    words = tuple(_TOKEN.findall(part))
    sized, kinds = _SIZE.search(part) is not None, _KINDS & {*words}
    publishers = ("", publisher_in(name))
    found = [
        one
        for one in _known()
        if one.sized == sized
        and kinds <= {*one.words}
        and (one.publisher in publishers or not publishers[1])
        and _follow(one.parts, words)
    ]
    if not found:
        return None
    shape = max(found, key=lambda one: len(one.words)).shape
    return replace(shape, tied=True) if _HEADLESS & {*words} else shape


@dataclass(frozen=True, slots=True)
class _KnownName:
    """A name in its parts; `sized` if it has a size."""

    parts: tuple[Tokens, ...]
    sized: bool
    shape: ModelShape
    publisher: str

    @property
    def words(self) -> Tokens:
        return tuple(word for part in self.parts for word in part)


@cache
def _known() -> tuple[_KnownName, ...]:
    read = tomllib.loads(files("corral.core.preflight").joinpath("known_models.toml").read_text())
    return tuple(
        _KnownName(
            tuple(tuple(_TOKEN.findall(part)) for part in name.split()),
            _SIZE.search(name) is not None,
            _shape(model),
            model.get("publisher", ""),
        )
        for model in read["model"]
        for name in model["names"]
    )


def _shape(model: Mapping[str, Any]) -> ModelShape:
    shape = shape_of({"model_type": model["family"], **sizes(*model["sizes"]), **model.get("more", {})})
    if isinstance(shape, str):
        raise ValueError(f"known_models.toml: {model['names']}: {shape}")
    return shape


def _follow(parts: Sequence[Tokens], words: Tokens) -> bool:
    """Whether the parts follow each other in the words, each without a gap."""
    place = 0
    for part in parts:
        found = (at for at in range(place, len(words)) if words[at : at + len(part)] == part and _begins(words, at))
        at = next(found, None)
        if at is None:
            return False
        place = at + len(part)
    return True


def _begins(words: Tokens, at: int) -> bool:
    """Whether a size may begin there, or a name."""
    return at == 0 or not words[at][0].isdigit() or words[at - 1] not in _USED_ONLY
