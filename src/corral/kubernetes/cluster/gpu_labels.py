"""What GPU feature discovery says of a node's GPUs in its labels, which others than it may have written."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

SharingStrategy = Literal["none", "mps", "time-slicing"]
_STRATEGIES: Mapping[str, SharingStrategy] = {"none": "none", "mps": "mps", "time-slicing": "time-slicing"}


@dataclass(frozen=True, slots=True)
class GpuLabels:
    """A node's GPUs by its labels. What is missing, or makes no sense, is None.

    Attributes:
        product: as "NVIDIA-A100-SXM4-80GB", without what a shared or sliced one has at its end.
        profile: of MIG slices in the strategy "single", as "1g.5gb".
        count: how many there are; of MIG slices in the strategy "single", how many slices.
        memory_mib: of each.
        family: as "ampere".
        compute: compute capability, major and minor.
        replicas: by how many one GPU is shared.
        sharing_strategy: by what means.
        mig_capable: whether slices can be made of them.
        mig_strategy: none, single or mixed.
        mps_capable: whether MPS shares them.
        driver_version: as "550.54.15".
        cuda_version: the newest that the driver runs, major and minor.
    """

    product: str | None = None
    profile: str | None = None
    count: int | None = None
    memory_mib: int | None = None
    family: str | None = None
    compute: tuple[int, int] | None = None
    replicas: int | None = None
    sharing_strategy: SharingStrategy | None = None
    mig_capable: bool | None = None
    mig_strategy: str | None = None
    mps_capable: bool | None = None
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None


def read_gpu_labels(labels: Mapping[str, str]) -> GpuLabels:
    """Where a driver's or CUDA's version has a new label and an old one, the new one counts."""
    product, profile = _product(labels.get("nvidia.com/gpu.product"))
    return GpuLabels(
        product=product,
        profile=profile,
        count=_number(labels, "nvidia.com/gpu.count"),
        memory_mib=_number(labels, "nvidia.com/gpu.memory") or None,
        family=labels.get("nvidia.com/gpu.family") or None,
        compute=_pair(labels, "nvidia.com/gpu.compute"),
        replicas=_number(labels, "nvidia.com/gpu.replicas"),
        sharing_strategy=_STRATEGIES.get(labels.get("nvidia.com/gpu.sharing-strategy", "")),
        mig_capable=_truth(labels, "nvidia.com/mig.capable"),
        mig_strategy=labels.get("nvidia.com/mig.strategy") or None,
        mps_capable=_truth(labels, "nvidia.com/mps.capable"),
        driver_version=_driver_version(labels),
        cuda_version=_pair(labels, "nvidia.com/cuda.runtime-version") or _pair(labels, "nvidia.com/cuda.runtime"),
    )


def _product(written: str | None) -> tuple[str | None, str | None]:
    if not written:
        return None, None
    product = written.removesuffix("-SHARED")
    match = re.fullmatch(r"(.+)-MIG-([1-9][0-9]?g\.[1-9][0-9]{0,3}gb(?:\.me)?)", product)
    return (match[1], match[2]) if match else (product, None)


def _driver_version(labels: Mapping[str, str]) -> str | None:
    full = labels.get("nvidia.com/cuda.driver-version.full")
    if full and re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,5}){1,3}", full):
        return full
    for prefix, last in (("nvidia.com/cuda.driver-version", "revision"), ("nvidia.com/cuda.driver", "rev")):
        parts = [labels.get(f"{prefix}.{part}") for part in ("major", "minor", last)]
        known = [part for part in parts if part]
        if parts[0] and parts[1] and all(re.fullmatch(r"[0-9]{1,5}", part) for part in known):
            return ".".join(known)
    return None


def _number(labels: Mapping[str, str], name: str) -> int | None:
    text = labels.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _pair(labels: Mapping[str, str], prefix: str) -> tuple[int, int] | None:
    major, minor = _number(labels, f"{prefix}.major"), _number(labels, f"{prefix}.minor")
    return None if major is None or minor is None else (major, minor)


def _truth(labels: Mapping[str, str], name: str) -> bool | None:
    return {"true": True, "false": False}.get(labels.get(name, ""))
