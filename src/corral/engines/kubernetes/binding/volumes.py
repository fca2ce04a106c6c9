"""Volumes of a pod: kinds that exist on every node, and claims whose location must be checked."""

from collections.abc import Mapping
from typing import Any

from corral.core.model.errors import Refused
from corral.engines.kubernetes.cluster.objects import mapping, sequence

Json = Mapping[str, Any]

ANYWHERE = frozenset(
    {
        *("emptyDir", "configMap", "secret", "projected", "downwardAPI", "hostPath", "nfs", "image", "gitRepo"),
        *("cephfs", "glusterfs", "azureFile", "csi"),
    }
)
"""Kinds of volumes that are available on every node."""

HOW = "Corral does not look at where volumes are; use one that every node reaches, or another scheduler"


def claims_of(spec: Json, pod: str) -> tuple[str, ...]:
    """Return the names of the volume claims that a pod uses. Raises Refused for volumes that may exist on some nodes
    only.
    """
    claims = []
    for volume in sequence(spec.get("volumes")):
        name = str(volume.get("name"))
        if "persistentVolumeClaim" in volume:
            claims.append(str(mapping(volume["persistentVolumeClaim"]).get("claimName") or ""))
        elif "ephemeral" in volume:
            claims.append(f"{pod}-{name}")
        elif kinds := set(volume) - {"name"} - ANYWHERE:
            raise Refused(f"volumes: {name:.60} is of the kind {min(kinds):.60}; {HOW}", field="volumes")
    return tuple(claims)


def claim_refusal(claim: Json) -> str | None:
    """Return why a pod that uses this PersistentVolumeClaim cannot be served, whatever its volume; None if it can."""
    name = str(mapping(claim.get("metadata")).get("name"))
    spec = mapping(claim.get("spec"))
    if "ReadWriteOncePod" in (spec.get("accessModes") or ()):
        return f"volumes: the claim {name:.80} is for one pod alone (ReadWriteOncePod); {HOW}"
    if not spec.get("volumeName"):
        return f"volumes: the claim {name:.80} has no volume yet, which may decide where the pod runs; {HOW}"
    return None


def volume_refusal(volume: Json) -> str | None:
    """Return why a pod that uses this PersistentVolume cannot be served; None if every node reaches the volume."""
    if mapping(mapping(volume.get("spec")).get("nodeAffinity")).get("required"):
        name = str(mapping(volume.get("metadata")).get("name"))
        return f"volumes: the volume {name:.80} is available on some nodes only; {HOW}"
    return None
