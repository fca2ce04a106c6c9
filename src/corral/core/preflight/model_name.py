"""Facts from a model's name: the number of its parameters, the format of its weights, and its approximate shape."""

import re
from dataclasses import replace

from corral.core.model.units import DECIMAL, WHOLE
from corral.core.preflight.model_shape import ModelShape
from corral.core.preflight.weights import layer_weights, table_weights

MOST_OF_NAME, LEAST_OF_NAME = 1.105, 0.9
"""The parameters of models, in proportion to the number in their names.

Names are rounded: "7B" has from 6.65 billion (MPT) to 7.72 (Qwen 1.5).
"""

_SIZE = re.compile(
    rf"(?<!\d\.)(?P<word>[a-z]*)(?<!\d)(?:(?P<experts>{WHOLE})x)?(?P<n>{DECIMAL})(?P<unit>[bmt])(?P<tenth>\d?)(?![a-z0-9])"
)
_ACTIVE = re.compile(rf"b-{WHOLE}e(?![a-z0-9])")
"""The size in "17B-16E" is that of the weights that one token uses."""
_USED_ONLY = ("a", "e")
"""Letters before such a size: "30B-A3B", "E4B"."""
_BILLIONS_PER_UNIT = {"b": 1.0, "m": 0.001, "t": 1000.0}
_MOST_BILLIONS = 100_000
_OF_ONE_EXPERT = 0.78
"""The part of a model that each expert has of its own: of Mistral 7B, whose eight make Mixtral 8x7B."""

_MOST_CHARACTERS = 256
"""The most characters of a name that are read; names at the hub have 96 at most."""

_HASH = re.compile(r"[0-9a-f]{12,}|\d+")
_NO_NAMES = frozenset({"", "snapshots", "main", "model", "models", "weights", "hf", "safetensors", "final", "latest"})


def _words(*words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z0-9])(?:{'|'.join(words)})(?![a-z0-9])")


_FORMATS = (
    (_words("nvfp4", "mxfp4", "fp4"), "fp4"),
    (_words("int8", "8-?bits?", "w8a8", "w8a16", "w8a8-int8"), "int8"),
    (_words("fp8", "float8", "e4m3", "fp8-?dynamic"), "fp8"),
    (_words("awq"), "awq"),
    (_words("gptq"), "gptq"),
    (_words("bnb", "nf4", "bitsandbytes"), "bitsandbytes"),
    (_words("int4", "w4a16", "w4a8", "w4afp8", "4-?bits?"), "int4"),
    (_words("bf16", "bfloat16"), "bfloat16"),
    (_words("fp16", "float16", "f16"), "float16"),
    (_words("fp32", "float32", "f32"), "float32"),
)
_OTHER_FORMATS = _words(
    *("gguf", "ggml", r"i?q[1-8](?:_[0-9a-z]+)*", "exl[23]", "aqlm", "hqq", "quip", "mlx", "vptq", "[1-3]-?bits?"),
    *("int[1-3]", "w[1-3]a16", r"1\.58-?bits?", "bitnet"),
)

_TYPICAL = (
    # billions, layers, hidden, heads, kv heads, head dim, vocab
    (0.1, 12, 768, 12, 12, 64, 32000),
    (0.5, 24, 896, 14, 2, 64, 151936),
    (1.5, 28, 1536, 12, 2, 128, 151936),
    (3.0, 28, 3072, 24, 8, 128, 128256),
    (8.0, 32, 4096, 32, 8, 128, 128256),
    (14.0, 48, 5120, 40, 8, 128, 152064),
    (32.0, 64, 5120, 40, 8, 128, 152064),
    (70.0, 80, 8192, 64, 8, 128, 128256),
    (405.0, 126, 16384, 128, 8, 128, 128256),
)
"""Shapes of widely used open models by size; the width of their feed-forward layers follows from the weights."""
_MOST_TABLES = 0.3
"""The largest part of the weights that tables of tokens have in a typical shape."""


def model_part(name: str) -> str:
    """The part of a path or of a name at the hub that names the model, in lower case.

    It is the last part that is no hash and no usual name of a folder; of a folder of the hub's cache the model. Users
    write names, and reading them takes time: of a long one the end counts.
    """
    parts = name.lower().split("/")
    named = (part for part in reversed(parts) if part not in _NO_NAMES and not _HASH.fullmatch(part))
    return next(named, "").rsplit("--", maxsplit=1)[-1][-_MOST_CHARACTERS:]


def publisher_in(name: str) -> str:
    """The publisher in a name at the hub, or in a folder of the hub's cache, in lower case; "" if it has none."""
    parts = name.lower().split("/")
    cached = next((part.split("--") for part in parts if part.startswith("models--")), None)
    if cached is not None:
        return cached[1]
    return parts[0] if len(parts) == 2 and parts[0] not in (".", "..", "~") else ""


def billions_in(name: str) -> float | str:
    """The billions of parameters in a name: 70 of "Llama-3-70B", 45.2 of "Mixtral-8x7B", 0.125 of "opt-125m".

    Of several sizes the largest counts. The weights that one token uses ("A3B") are none. A sentence says why there is
    none: the name has no size, or only that of the weights that one token uses.
    """
    part = model_part(name)
    if _ACTIVE.search(part):
        return f"the size in {part:.80} is that of the weights which one token uses"
    sizes = [_billions(found) for found in _SIZE.finditer(part) if found["word"] not in _USED_ONLY]
    largest = max(sizes, default=0.0)
    if not 0 < largest <= _MOST_BILLIONS:
        return f"{name:.80} is not here, no model of that name is known, and it states no size such as 7B"
    return largest


def _billions(found: re.Match[str]) -> float:
    size = float(found["n"] + (f".{found['tenth']}" if found["tenth"] and "." not in found["n"] else ""))
    if found["experts"]:
        size *= int(found["experts"]) * _OF_ONE_EXPERT + 1 - _OF_ONE_EXPERT
    return size * _BILLIONS_PER_UNIT[found["unit"]]


def format_in(name: str) -> str | None:
    """The format of the weights that a name states ("awq", "int8", "bfloat16"), None if it states none."""
    part = model_part(name).replace("_", "-")
    return next((format_ for form, format_ in _FORMATS if form.search(part)), None)


def other_format_in(name: str) -> str | None:
    """The format that a name states if its size is not known here: "gguf", "exl2", "3bit"."""
    found = _OTHER_FORMATS.search(model_part(name))
    return None if found is None else found[0]


def typical_shape(billions: float) -> ModelShape:
    """The shape of the common model with the nearest size, by ratio, with feed-forward layers that make this size."""
    row = min(_TYPICAL, key=lambda row: max(row[0] / billions, billions / row[0]))
    _, layers, hidden, heads, kv_heads, head_dim, vocab = row
    weights = billions * 1e9
    vocab = max(1, min(vocab, int(_MOST_TABLES * weights / (2 * hidden))))
    bare = ModelShape(layers, hidden, heads, kv_heads, head_dim, 0, vocab)
    left = weights - table_weights(bare) - layer_weights(bare)
    return replace(bare, intermediate=max(1, round(left / (3 * hidden * layers))))
