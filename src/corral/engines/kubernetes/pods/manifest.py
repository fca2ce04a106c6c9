"""A launch as the pod that runs it, and the service by which the members of a gang find each other. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.jobs.container import Volume, VolumeKind
from corral.core.model.jobs.job import Job
from corral.core.model.placing.placement_rules import Toleration
from corral.core.model.runs.launch import Launch, LaunchPhase, member_of
from corral.engines.kubernetes.cluster.gpu_resources import gpu_resource
from corral.engines.kubernetes.cluster.placement_fields import REQUIRED
from corral.engines.kubernetes.inventory.planned_devices import note_of
from corral.engines.kubernetes.pods.names import (
    ALLOCATION,
    CHECKPOINT_GRACE,
    DESCRIBED,
    ENDING,
    FINALIZER,
    LAUNCH,
    MEMBERS,
    NODE,
    PREFIX,
    RANK,
    SERVER,
    TOMBSTONE,
    Names,
    label_value,
)
from corral.engines.kubernetes.pods.site import PodSite
from corral.engines.kubernetes.pods.template import read_template
from corral.engines.kubernetes.shares.placed_share import PlacedShare
from corral.vendors.registry import vendors

Json = dict[str, Any]

CONTAINER = "main"
MASTER_PORT = 29500
"""The port of the master. Each pod has a network of its own, so the same port is free in all of them."""

SCRATCH = "/corral/scratch"
"""The mount point of each pod's own directory, CORRAL_SCRATCH."""

NOBODY = "corral.dev-nobody"
"""The scheduler name of pods that must never run."""

_INDICES = "CORRAL_GPU_INDICES"
"""A variable of the host that pods do not get: a container sees only its own GPUs, counted from 0, by the device
plugin.
"""


WHOLE = PlacedShare(None, ())


def pod_of(
    launch: Launch,
    names: Names,
    namespace: str,
    site: PodSite,
    *,
    kill_grace_s: float,
    placed: PlacedShare = WHOLE,
    now: float = 0.0,
) -> Json:
    """Return the pod of one member. `placed` are its devices as the software of its node knows them, `now` is Unix
    seconds.

    Raises Refused if a pod cannot satisfy the job, BackendFailed if one of its GPUs is gone.
    """
    job, container = launch.job, launch.job.spec.container
    if container is None:
        raise Refused("image: this job has no container", field="image")
    template = _template(launch, site)
    volumes, mounts = _volumes(container.volumes)
    spec = {
        **template["spec"],
        "containers": [_container(launch, template["spec"], mounts, placed)],
        "volumes": [*template["spec"].get("volumes", ()), *volumes],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(kill_grace_s),
        "enableServiceLinks": False,
        "automountServiceAccountToken": container.service_account is not None,
        **_placed(launch.node, [*template["spec"].get("volumes", ()), *volumes]),
    }
    if launch.job.spec.request.rules is not None:
        spec["tolerations"] = [_toleration(one) for one in launch.job.spec.request.rules.tolerations]
    if container.service_account is not None:
        spec["serviceAccountName"] = container.service_account
    if launch.members > 1:
        spec |= {"hostname": names.pod(launch.id), "subdomain": names.service(launch.allocation_id)}
    metadata = {
        "name": names.pod(launch.id),
        "namespace": namespace,
        "labels": {
            **template["metadata"].get("labels", {}),
            **_labels(launch.id, names),
            **_described(job, label=True),
        },
        "annotations": {
            **template["metadata"].get("annotations", {}),
            **_described(job, label=False),
            LAUNCH: launch.id,
            MEMBERS: str(launch.members),
            NODE: launch.node,
            **_checkpoint(job),
            **(placed.notes(launch.node, now, None) if launch.uses else {}),
            **note_of(launch, placed.parts),
        },
        "finalizers": [FINALIZER],
    }
    return {"metadata": metadata, "spec": spec}


def service_of(launch: Launch, names: Names, namespace: str) -> Json:
    """Return the headless service of a gang. It gives each member a name in the cluster's DNS once its pod has an
    address.
    """
    return {
        "metadata": {
            "name": names.service(launch.allocation_id),
            "namespace": namespace,
            "labels": {SERVER: names.tag, ALLOCATION: label_value(launch.allocation_id)},
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {SERVER: names.tag, ALLOCATION: label_value(launch.allocation_id)},
        },
    }


def tombstone_of(launch_id: str, names: Names, namespace: str, site: PodSite, *, ran: bool) -> Json:
    """Return a pod that never runs and has the name of a launch's pod: a late request finds the name taken."""
    return {
        "metadata": {
            "name": names.pod(launch_id),
            "namespace": namespace,
            "labels": {**_labels(launch_id, names), TOMBSTONE: "true"},
            "annotations": {LAUNCH: launch_id, **({ENDING: LaunchPhase.DEAD.value} if ran else {})},
        },
        "spec": {
            "schedulerName": NOBODY,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [{"name": CONTAINER, "image": site.image or "never-runs", "command": ["false"]}],
        },
    }


def literal(text: str) -> str:
    """Return the text escaped for Kubernetes, which would otherwise replace $(NAME) by a variable."""
    return text.replace("$", "$$")


def _template(launch: Launch, site: PodSite) -> Json:
    container = launch.job.spec.container
    text = None if container is None else container.pod_template
    # This is read again, because the site's rules may have changed since the job was submitted.
    return {"metadata": {}, "spec": {}} if text is None else read_template(text, site.allowed)


def _container(launch: Launch, spec: Mapping[str, Any], mounts: Sequence[Json], placed: PlacedShare) -> Json:
    own: Mapping[str, Any] = next(iter(spec.get("containers", ())), {})
    job, env = launch.job, _environment(launch)
    assert job.spec.container is not None, "asked for before"
    made = {
        **own,
        "name": CONTAINER,
        "image": job.spec.container.image,
        "command": [literal(word) for word in job.spec.command],
        "env": [*(one for one in own.get("env") or () if one.get("name") not in env), *_variables(env)],
        "volumeMounts": [*(own.get("volumeMounts") or ()), *mounts],
        "resources": _resources(launch, placed),
    }
    if job.spec.workdir != "/":
        made["workingDir"] = job.spec.workdir
    return made


def _environment(launch: Launch) -> dict[str, str]:
    makers = vendors().values()
    host = {_INDICES, *(name for vendor in makers for name in vendor.visible(()) if name in vendor.of_the_host)}
    env = {name: value for name, value in launch.env if name not in host} | {"CORRAL_SCRATCH": SCRATCH}
    # Otherwise an image that shows all devices by default would show every GPU of its node.
    void = {} if launch.uses else {name: value for vendor in makers for name, value in vendor.void.items()}
    return env | void


def _variables(env: Mapping[str, str]) -> list[Json]:
    return [{"name": name, "value": literal(value)} for name, value in sorted(env.items())]


def _resources(launch: Launch, placed: PlacedShare) -> Json:
    """Return the resources of the member. GPUs, CPUs and memory are both requested and limited; the disk is only
    requested.

    A node that offers slices as GPUs has slices of one profile only; the profile was matched when the node was chosen.
    On a node whose software gives parts of GPUs, they have that software's names.
    """
    request = launch.job.spec.request
    if not request.whole and placed.shared is None:
        raise BackendFailed(f"node {launch.node} gives whole GPUs now, and this job asks for a part of one")
    if len(launch.uses) != request.devices:
        raise BackendFailed(
            f"node {launch.node} has only {len(launch.uses)} of the {request.devices} GPUs that were chosen"
        )
    limits: dict[str, str] = {}
    if request.devices:
        limits |= placed.limits() or {gpu_resource(request.vendor): str(request.devices)}
    if launch.cpu_milli:
        limits["cpu"] = f"{launch.cpu_milli}m"
    if launch.host_memory_mib:
        limits["memory"] = f"{launch.host_memory_mib}Mi"
    disk = {"ephemeral-storage": f"{request.disk_mib}Mi"} if request.disk_mib else {}
    return {"limits": limits, "requests": {**limits, **disk}}


def _placed(node: str, volumes: Sequence[Mapping[str, Any]]) -> Json:
    """Return the fields that put the pod on its node.

    The planner has decided, so the pod is bound from its beginning, and only its kubelet can still refuse it. A volume
    claim may need the cluster's scheduler to bind it. Then the pod goes to that scheduler, with this node as the only
    choice.
    """
    if not any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in volumes):
        return {"nodeName": node}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {REQUIRED: {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def _volumes(volumes: Sequence[Volume]) -> tuple[list[Json], list[Json]]:
    made: list[Json] = [{"name": "corral-scratch", "emptyDir": {}}]
    mounts: list[Json] = [{"name": "corral-scratch", "mountPath": SCRATCH}]
    for number, volume in enumerate(volumes):
        name = f"corral-{number}"
        match volume.kind:
            case VolumeKind.HOST_PATH:
                source: Json = {"hostPath": {"path": volume.source, "type": "Directory"}}
            case VolumeKind.CLAIM:
                source = {"persistentVolumeClaim": {"claimName": volume.source}}
            case VolumeKind.CONFIG_MAP:
                source = {"configMap": {"name": volume.source}}
            case VolumeKind.SECRET:
                source = {"secret": {"secretName": volume.source}}
        made.append({"name": name, **source})
        mounts.append({"name": name, "mountPath": volume.target, "readOnly": volume.read_only})
    return made, mounts


def _checkpoint(job: Job) -> dict[str, str]:
    if job.spec.checkpoint_signal is None:
        return {}
    return {CHECKPOINT_GRACE: str(math.ceil(job.spec.checkpoint_grace_s))}


def _toleration(toleration: Toleration) -> Json:
    value = {"operator": "Exists"} if toleration.value is None else {"operator": "Equal", "value": toleration.value}
    effect = {} if toleration.effect is None else {"effect": toleration.effect.value}
    return {**({"key": toleration.key} if toleration.key else {}), **value, **effect}


def _labels(launch_id: str, names: Names) -> dict[str, str]:
    allocation_id, rank = member_of(launch_id)
    return {SERVER: names.tag, ALLOCATION: label_value(allocation_id), RANK: str(rank)}


def _described(job: Job, *, label: bool) -> dict[str, str]:
    spec = job.spec
    values = (spec.user, spec.project, spec.queue, job.id, spec.name)
    return {
        PREFIX + name: label_value(value) if label else value for name, value in zip(DESCRIBED, values, strict=True)
    }
