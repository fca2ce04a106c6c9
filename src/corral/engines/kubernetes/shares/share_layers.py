"""The software that gives pods parts of GPUs, and the meaning of one unit of its resources."""

from collections.abc import Mapping
from functools import cache

from corral.core.sharing.definitions import Catalogue, own_catalogue
from corral.engines.kubernetes.cluster.amounts import Amounts
from corral.engines.kubernetes.cluster.gpu_resources import gpus_of
from corral.vendors.registry import vendors
from corral.vendors.vendor import ShareLayer, Vendor

BY_UUID = "corral.dev/devices"
"""By what a container takes a device that it gets by no resource: its UUID, which Corral writes on the pod."""


@cache
def share_layers() -> tuple[tuple[ShareLayer, Vendor], ...]:
    """Return all layers with their vendors."""
    return tuple((layer, vendor) for vendor in vendors().values() for layer in vendor.kubernetes.shares)


def counted_layers() -> tuple[ShareLayer, ...]:
    """Return the layers that leave it to kube-scheduler, or to an extender of it, on which node a pod runs."""
    return tuple(layer for layer, _ in share_layers() if layer.by_core)


@cache
def layer_of_resource() -> Mapping[str, tuple[ShareLayer, Vendor]]:
    """Return the layer of each resource by which pods ask for parts."""
    return {name: (layer, vendor) for layer, vendor in share_layers() for name in layer.resources}


def has_devices(amounts: Amounts) -> bool:
    """Return whether these amounts have whole GPUs or parts of some."""
    return bool(amounts.others) and (
        gpus_of(amounts) > 0 or any(name in layer_of_resource() for name in amounts.others)
    )


def unit_of(name: str, catalogue: Catalogue | None = None) -> int:
    """Return how much one unit of a resource comes to; 1 for a name that the site has disabled."""
    found = (catalogue or own_catalogue()).resources.get(name)
    return 1 if found is None else found.grants.unit
