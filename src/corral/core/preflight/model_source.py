"""Find a model on this machine: a directory, or a name in the local Hugging Face cache. Nothing is downloaded."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.core.model.errors import Refused
from corral.core.preflight.model_config import shape_of
from corral.core.preflight.model_shape import ModelShape
from corral.files import names_in, read_start

_MOST_CONFIG_BYTES = 1024 * 1024
_MOST_WEIGHT_BYTES = 2**53
_MOST_INDEX_BYTES = 32 * 1024 * 1024
"""An index names every tensor; that of a model with 256 experts in each layer has 9 MB."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model on this machine: its shape, and the size of its weights in bytes (None if the files do not say)."""

    path: str
    shape: ModelShape
    weight_bytes: int | None


def find_model(name: str, env: Mapping[str, str], workdir: Path) -> LocalModel | None:
    """The model in this directory, or of this name in the cache; None if there is neither.

    Raises Refused if the directory has no `config.json`, or one that cannot be parsed.
    """
    path = workdir / name
    if not os.path.isdir(path):
        cached = _cached(name, env)
        if cached is None:
            return None
        path = cached
    config = _read_json(path / "config.json", _MOST_CONFIG_BYTES)
    if config is None:
        raise Refused(f"{path} is not a model directory: it has no config.json", field="model")
    shape = shape_of(config)
    if isinstance(shape, str):
        raise Refused(f"{path / 'config.json'}: {shape}", field="model")
    return LocalModel(str(path), shape, _weight_bytes(path))


def _cached(name: str, env: Mapping[str, str]) -> Path | None:
    home = Path(env.get("HF_HOME") or Path(env.get("HOME", "/")) / ".cache" / "huggingface")
    hub = Path(env.get("HF_HUB_CACHE") or home / "hub")
    snapshots = hub / f"models--{name.replace('/', '--')}" / "snapshots"
    found = [name for name in names_in(snapshots) if os.path.exists(snapshots / name / "config.json")]
    return snapshots / found[-1] if found else None


def _weight_bytes(path: Path) -> int | None:
    index = _read_json(path / "model.safetensors.index.json", _MOST_INDEX_BYTES)
    metadata = (index or {}).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if type(total) is int and 0 < total <= _MOST_WEIGHT_BYTES:
        return total
    try:
        return sum(os.stat(path / name).st_size for name in names_in(path, "*.safetensors")) or None
    except OSError:
        return None


def _read_json(path: Path, most_bytes: int) -> dict[str, Any] | None:
    try:
        text = read_start(path, most_bytes + 1)
        if len(text) > most_bytes:
            raise Refused(f"{path} is larger than any such file is", field="model")
        content = json.loads(text)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", field="model") from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path} is not JSON: {error}", field="model") from None
    if not isinstance(content, dict):
        raise Refused(f"{path} is not a JSON object", field="model")
    return content
