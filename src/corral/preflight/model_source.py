"""Finding a model on this machine: a directory, or a name in the local Hugging Face cache. Nothing is downloaded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.model.errors import Refused
from corral.preflight.model_config import ModelShape, shape_of

_LARGEST_JSON = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model that lies here: its shape, and the bytes of its weights where the files tell them."""

    path: Path
    shape: ModelShape
    weight_bytes: int | None


def find_model(name: str, env: Mapping[str, str], workdir: Path) -> LocalModel | None:
    """The model of this directory or cached name, None when it is neither.

    Raises Refused when there is a directory without a `config.json`, or with one that cannot be understood.
    """
    path = workdir / name
    if not path.is_dir():
        cached = _cached(name, env)
        if cached is None:
            return None
        path = cached
    config = _read_json(path / "config.json")
    if config is None:
        raise Refused(f"{path} has no config.json, so it is no model directory; name one that has", field="model")
    shape = shape_of(config)
    if isinstance(shape, str):
        raise Refused(f"{path / 'config.json'}: {shape}", field="model")
    return LocalModel(path, shape, _weight_bytes(path))


def _cached(name: str, env: Mapping[str, str]) -> Path | None:
    home = Path(env.get("HF_HOME") or Path(env.get("HOME", "/")) / ".cache" / "huggingface")
    hub = Path(env.get("HF_HUB_CACHE") or home / "hub")
    snapshots = hub / f"models--{name.replace('/', '--')}" / "snapshots"
    try:
        found = sorted(path for path in snapshots.iterdir() if (path / "config.json").exists())
    except OSError:
        return None
    return found[-1] if found else None


def _weight_bytes(path: Path) -> int | None:
    index = path / "model.safetensors.index.json"
    if index.exists():
        metadata = (_read_json(index) or {}).get("metadata")
        total = metadata.get("total_size") if isinstance(metadata, dict) else None
        if isinstance(total, int) and total > 0:
            return total
    sizes = [file.stat().st_size for file in sorted(path.glob("*.safetensors"))]
    return sum(sizes) or None


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise Refused(f"{path} is larger than any such file is", field="model")
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", field="model") from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path} is not JSON: {error}", field="model") from None
    if not isinstance(content, dict):
        raise Refused(f"{path} is not a JSON object", field="model")
    return content
