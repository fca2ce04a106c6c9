"""Reads a node's GPUs from the labels of AMD's node labeller. Other software may have written these labels too."""

import re
from collections.abc import Mapping

from corral.vendors.vendor import GpuLabels

GPU = "amd.com/gpu"
"""The resource of whole GPUs, or of compute partitions if the device plugin uses one name for all of them."""

_GIB = {"T": 1024 * 1024, "G": 1024, "M": 1}


def read_node_labels(labels: Mapping[str, str]) -> GpuLabels:
    """The product and memory. A partitioned GPU is offered as several devices, each of the mode in the label."""
    mode = (labels.get("amd.com/compute-memory-partition") or "").partition("_")[0].lower()
    profile = mode if mode in ("dpx", "tpx", "qpx", "cpx") else None
    return GpuLabels(
        product=labels.get("amd.com/gpu.product-name") or None,
        profile=profile,
        # No label has the memory of a partition.
        memory_mib=_memory_mib(labels.get("amd.com/gpu.vram") or "") if profile is None else None,
        driver_version=labels.get("amd.com/gpu.driver-version") or None,
    )


def model_of(product: str) -> str:
    """The model of a product, as the driver writes it: labels have underscores instead of spaces."""
    return product.replace("_", " ")


def _memory_mib(text: str) -> int | None:
    """MiB of a size like "192G"."""
    match = re.fullmatch(r"([0-9]{1,6})([MGT])i?B?", text)
    return int(match[1]) * _GIB[match[2]] if match else None
