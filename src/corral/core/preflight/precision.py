"""Number formats: their names, their sizes, and the hardware that supports them."""

from dataclasses import dataclass

from corral.core.model.version import Version

_NAMES = {
    "float32": ("float32", "fp32", "float", "f32"),
    "tf32": ("tf32",),
    "float16": ("float16", "fp16", "half", "f16"),
    "bfloat16": ("bfloat16", "bf16"),
    "fp8": ("fp8", "fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "float8_e5m2", "e4m3", "e5m2", "fbgemm_fp8"),
    "int8": ("int8", "w8a8", "w8a8_int8", "i8"),
    "fp4": ("fp4", "nvfp4", "mxfp4", "modelopt_fp4"),
    "int4": ("int4", "w4a16"),
    "awq": ("awq", "awq_marlin"),
    "gptq": ("gptq", "gptq_marlin"),
    "bitsandbytes": ("bitsandbytes", "bnb", "nf4"),
    "gguf": ("gguf",),
}
_CANONICAL = {spelling: name for name, spellings in _NAMES.items() for spelling in spellings}

BYTES_PER_WEIGHT = {
    "float32": 4.0,
    "tf32": 4.0,
    "float16": 2.0,
    "bfloat16": 2.0,
    "fp8": 1.0,
    "int8": 1.024,
    "fp4": 0.5625,
    "int4": 0.52,
    "awq": 0.52,
    "gptq": 0.52,
    "bitsandbytes": 0.52,
    "gguf": 0.56,
}
"""Bytes per quantised weight with its scales: integers with a 16-bit scale and a zero point per 128 weights, FP4 with
an 8-bit scale per 16."""


@dataclass(frozen=True, slots=True)
class Support:
    """The lowest compute capability that runs a format natively, and the lowest that runs it at all (None: any)."""

    native: Version
    works: Version | None
    below: str
    instead: str


SUPPORT = {
    "bfloat16": Support((8, 0), (8, 0), "", "--dtype=half"),
    "tf32": Support((8, 0), None, "it runs as plain FP32 there, without tensor cores", "--dtype=half"),
    "float16": Support((7, 0), None, "there are no FP16 tensor cores before Volta, so it is slow", "--dtype=float32"),
    "fp8": Support((8, 9), (8, 0), "weights are kept in FP8 but computed in 16 bits", "--dtype=half"),
    "fp4": Support(
        (10, 0),
        (8, 0),
        "weights are kept in FP4 but computed in 16 bits",
        "--quantization awq",
    ),
    "int8": Support((7, 5), None, "there are no INT8 tensor cores before Turing, so it is slow", "--dtype=half"),
    "awq": Support((7, 5), (7, 5), "", "--quantization gptq"),
    "gptq": Support((6, 0), (6, 0), "", "--dtype=half"),
}
"""NVIDIA's table of compute capabilities, and vLLM's of quantisation by hardware: FP8, FP4 weight-only from Ampere."""


def canonical(name: str | None) -> str | None:
    """The canonical name of a format ("half" and "torch.float16" are "float16"); None for "auto" and unknown ones."""
    if name is None:
        return None
    return _CANONICAL.get(name.strip().lower().removeprefix("torch.").replace("-", "_"))


def known_names() -> tuple[str, ...]:
    """Every spelling that `canonical` understands, sorted."""
    return tuple(sorted(_CANONICAL))
