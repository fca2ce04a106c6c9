"""The resources by which nodes offer whole GPUs and pods ask for them: one of each vendor."""

from collections.abc import Mapping
from functools import cache

from corral.core.model.devices.device import FIRST_VENDOR
from corral.engines.kubernetes.cluster.amounts import Amounts
from corral.engines.kubernetes.cluster.node_facts import NodeFacts
from corral.vendors.registry import vendor_named, vendors
from corral.vendors.vendor import GpuLabels, Vendor


@cache
def gpu_resources() -> Mapping[str, Vendor]:
    """Return the vendor of each resource of whole GPUs, by the resource's name. The name is also the key of the taint
    of GPU nodes.
    """
    return {vendor.kubernetes.gpu: vendor for vendor in vendors().values()}


def gpus_of(amounts: Amounts) -> int:
    """Return the number of whole GPUs, of any vendor."""
    return sum(amounts.of(resource) for resource in gpu_resources()) if amounts.others else 0


def gpu_resource(vendor: str | None) -> str:
    """Return the resource of a vendor's GPUs; None means the first vendor."""
    return vendor_named(vendor or FIRST_VENDOR).kubernetes.gpu


def vendor_of_node(facts: NodeFacts) -> Vendor:
    """Return the vendor of a node's GPUs. A node that offers GPUs of two vendors counts as one of the first vendor."""
    others = {**facts.allocatable.others, **facts.capacity.others}
    offered = (vendor for resource, vendor in gpu_resources().items() if others.get(resource))
    return next(offered, vendor_named(FIRST_VENDOR))


def gpu_labels(facts: NodeFacts) -> GpuLabels:
    """Return the GPUs as the node's labels describe them."""
    return vendor_of_node(facts).kubernetes.read_labels(facts.labels)
