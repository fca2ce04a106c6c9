"""Checks whether the object behind a job's volume exists: its claim, configuration or secret."""

from collections.abc import Mapping

from corral.core.model.errors import CorralError
from corral.core.model.jobs.container import Volume, VolumeKind
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import NoSuchObject
from corral.engines.kubernetes.cluster.resource import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS, ResourceType

LOOK_S = 2.0
"""A submission waits no longer for the API server's answer."""

OBJECTS: Mapping[VolumeKind, ResourceType] = {
    VolumeKind.CLAIM: PERSISTENT_VOLUME_CLAIMS,
    VolumeKind.CONFIG_MAP: CONFIG_MAPS,
    VolumeKind.SECRET: SECRETS,
}


def absence(cluster: Cluster, volume: Volume) -> str | None:
    """Return the object that the volume needs and that is missing, such as "Secret keys in namespace jobs".

    None if it exists, or if the check is forbidden or unanswered: the pod's events tell later.
    """
    resource = OBJECTS.get(volume.kind)
    if resource is None:
        return None
    try:
        cluster.get(resource, volume.source, cluster.namespace, timeout_s=LOOK_S)
    except NoSuchObject:
        return f"{resource.kind} {volume.source} in namespace {cluster.namespace}"
    except CorralError:
        return None
    return None
