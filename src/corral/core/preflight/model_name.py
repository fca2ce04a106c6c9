"""Facts from a model's name: the number of its parameters, and from that its approximate shape."""

import re

from corral.core.model.units import DECIMAL, WHOLE
from corral.core.preflight.model_config import ModelShape

_MIXTURE = re.compile(rf"(?<![a-z0-9.])({WHOLE})x({DECIMAL})b(?![a-z0-9])")
_BILLIONS = re.compile(rf"(?<![a-z0-9.])({DECIMAL})b(?![a-z0-9])")
_MILLIONS = re.compile(rf"(?<![a-z0-9.])({WHOLE})m(?![a-z0-9])")
_MIXTURE_SHARED = 0.83
"""Experts share attention: Mixtral 8x7B has 46.7 billion parameters, 0.83 of 56."""

_TYPICAL = (
    # billions, layers, hidden, heads, kv heads, head dim, intermediate, vocab
    (0.5, 24, 896, 14, 2, 64, 4864, 151936),
    (1.5, 28, 1536, 12, 2, 128, 8960, 151936),
    (3.0, 28, 3072, 24, 8, 128, 8192, 128256),
    (8.0, 32, 4096, 32, 8, 128, 14336, 128256),
    (14.0, 48, 5120, 40, 8, 128, 13824, 152064),
    (32.0, 64, 5120, 40, 8, 128, 27648, 152064),
    (70.0, 80, 8192, 64, 8, 128, 28672, 128256),
    (405.0, 126, 16384, 128, 8, 128, 53248, 128256),
)
"""Shapes of widely used open models by size, only used to estimate cache and working space."""


def billions_in(name: str) -> float | None:
    """The billions of parameters in a name: 70 of "Llama-3-70B", 46.5 of "Mixtral-8x7B", 0.125 of "opt-125m".

    The active parameters of a mixture ("A3B") do not count; "17b" is 17, not 7. None if the name has no size.
    """
    text = name.lower().rstrip("/").rsplit("/", maxsplit=1)[-1]
    mixture = _MIXTURE.search(text)
    if mixture is not None:
        return int(mixture[1]) * float(mixture[2]) * _MIXTURE_SHARED
    billions = _BILLIONS.search(text)
    if billions is not None:
        return float(billions[1])
    millions = _MILLIONS.search(text)
    return None if millions is None else int(millions[1]) / 1000


def quantization_in(name: str) -> str | None:
    """The quantisation in a name, None if there is none."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return next((word for word in words if word in ("awq", "gptq", "fp8", "gguf", "nvfp4", "mxfp4")), None)


def typical_shape(billions: float) -> ModelShape:
    """The shape of the common model with the nearest size, by ratio."""
    row = min(_TYPICAL, key=lambda row: max(row[0] / billions, billions / row[0]))
    _, layers, hidden, heads, kv_heads, head_dim, intermediate, vocab = row
    return ModelShape(layers, hidden, heads, kv_heads, head_dim, intermediate, vocab)
