"""Reads a node's GPUs from the labels of GPU feature discovery. Other software may have written these labels too."""

import re
from collections.abc import Mapping

from corral.core.model.devices.means import Means
from corral.core.model.version import Version, version_of
from corral.vendors.vendor import GpuLabels

GPU = "nvidia.com/gpu"
"""The resource of whole GPUs. A longer name with this beginning is another resource."""

SLICES = "nvidia.com/mig-"
"""The beginning of the resources of MIG slices, if a node offers several profiles."""

PLUGIN_SETS = ("nvidia-device-plugin-ds", "nvidia-mps-device-plugin-daemonset", "gpu-manager-daemonset")
"""The DaemonSets that give out whole devices, parts by MPS, and parts by GPU-Manager."""

_LEAST_CUDA = re.compile(r"cuda>=([0-9]{1,3}\.[0-9]{1,3})", re.ASCII)

SHARED = "-SHARED"
"""The suffix of a product if its GPU is offered as several devices."""


def read_gpu_labels(labels: Mapping[str, str]) -> GpuLabels:
    """The GPUs of a node by its labels. If a version has a new label and an old one, the new one counts."""
    written = labels.get("nvidia.com/gpu.product") or ""
    product, profile = _product(written.removesuffix(SHARED))
    replicas = _number(labels, "nvidia.com/gpu.replicas") or 1
    strategy = labels.get("nvidia.com/gpu.sharing-strategy")
    return GpuLabels(
        product=product,
        profile=profile,
        memory_mib=_number(labels, "nvidia.com/gpu.memory") or None,
        compute=_pair(labels, "nvidia.com/gpu.compute"),
        replicas=replicas,
        shared_by=_means(strategy) if replicas > 1 or written.endswith(SHARED) else None,
        driver_version=_driver_version(labels),
        cuda_version=_pair(labels, "nvidia.com/cuda.runtime-version") or _pair(labels, "nvidia.com/cuda.runtime"),
    )


def _means(strategy: str | None) -> Means:
    """The means of sharing. If the strategy is unknown, nothing enforces the shares: this counts as time slices."""
    return Means.MPS if strategy == "mps" else Means.TIMESLICE


def _product(product: str) -> tuple[str | None, str | None]:
    match = re.fullmatch(r"(.+)-MIG-([1-9][0-9]?g\.[1-9][0-9]{0,3}gb(?:\.me)?)", product)
    return (match[1], match[2]) if match else (product or None, None)


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


def model_of(product: str) -> str:
    """The model of a product, as the driver writes it."""
    return product.replace("NVIDIA-", "NVIDIA ", 1)


def runtime_of(env: Mapping[str, str]) -> Version | None:
    """The CUDA version of a program, by the variables that NVIDIA's images have; None if they do not say it."""
    least = _LEAST_CUDA.search(env.get("NVIDIA_REQUIRE_CUDA", ""))
    return version_of(env.get("CUDA_VERSION", "")) or (version_of(least[1]) if least else None)
