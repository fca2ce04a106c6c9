"""Checks of programs for AMD's devices."""

from collections.abc import Iterator

from corral.core.model.version import dotted
from corral.core.ports.preflight import Effect, Finding, Place, Workload


def cuda_on_amd(work: Workload, place: Place) -> Iterator[Finding]:
    """Block a program that brings the CUDA runtime: it was built for NVIDIA's devices."""
    if work.runtime is None:
        return
    what = f"the program brings CUDA {dotted(work.runtime)} and {place.model} is AMD's"
    why = "CUDA finds no device there, and its libraries have no code for one"
    fix = "install a build for ROCm; or ask for NVIDIA's GPUs: --vendor nvidia"
    yield Finding(Effect.BLOCK, "cuda-on-amd", what, why, fix)
