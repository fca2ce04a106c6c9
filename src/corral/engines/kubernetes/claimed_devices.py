"""Devices that ResourceClaims have been given, by the published types of resource.k8s.io/v1.

Only `corral doctor` reads them: what a claim has is in no pod's requests. So on a node that offers the same devices by
a plugin, too, they can be given twice.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from corral.engines.kubernetes.cluster.objects import mapping, sequence, text
from corral.engines.kubernetes.cluster.resource import ResourceType
from corral.untrusted import Unread, guarded
from corral.vendors.registry import vendors

RESOURCE_CLAIMS = ResourceType("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
"""From Kubernetes 1.34 on."""

_MOST = 128
"""The most devices that a claim can have."""


class ClaimedDevice(NamedTuple):
    """A GPU that a claim has. `pool` is usually the name of its node."""

    claim: str
    driver: str
    pool: str
    device: str


def keep_claimed(item: Mapping[str, Any]) -> tuple[ClaimedDevice, ...] | None:
    """Return the GPUs that a ResourceClaim has been given; None if it has none, or cannot be read."""
    found = guarded("a resource claim", lambda: tuple(_claimed(item)))
    return None if isinstance(found, Unread) or not found else found


def _claimed(item: Mapping[str, Any]) -> Iterable[ClaimedDevice]:
    metadata = mapping(item.get("metadata"))
    devices = mapping(mapping(mapping(item.get("status")).get("allocation")).get("devices"))
    for result in sequence(devices.get("results"))[:_MOST]:
        driver, pool, device = (text(result.get(part)) for part in ("driver", "pool", "device"))
        # An administrator's access to a device takes it from nobody.
        if driver and pool and device and result.get("adminAccess") is not True and driver.endswith(_domains()):
            yield ClaimedDevice(f"{metadata.get('namespace')}/{metadata.get('name')}", driver, pool, device)


def _domains() -> tuple[str, ...]:
    return tuple(vendor.kubernetes.domain.rstrip("/") for vendor in vendors().values())
