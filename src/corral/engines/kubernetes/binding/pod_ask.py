"""Reads the request of a pod that others created, or the reason why Corral cannot serve the pod."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import nan
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.jobs.container import MAX_IMAGE_LENGTH
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.placing.placement_rules import IdleFirst
from corral.core.model.version import Version, version_of
from corral.core.ports.images import ContainerProgram
from corral.engines.kubernetes.binding.volumes import claims_of
from corral.engines.kubernetes.cluster.amounts import Amounts, requests_of
from corral.engines.kubernetes.cluster.gpu_resources import gpu_resources, gpus_of
from corral.engines.kubernetes.cluster.objects import annotations, labels, mapping, sequence
from corral.engines.kubernetes.cluster.objects import owner as owner_of
from corral.engines.kubernetes.cluster.quantities import BadQuantity
from corral.engines.kubernetes.inventory.pod_placement_rules import placement_rules
from corral.engines.kubernetes.shares.pod_shares import OWN_NAMES, ContainerShare, PodShares, vendor_name_of
from corral.engines.kubernetes.shares.share_layers import layer_of_resource

Json = Mapping[str, Any]

MIB = 1 << 20
MOST_WORDS = 20
MOST_WORD_LENGTH = 200
MOST_DIGITS = 18
MOST_ARGUMENTS, MOST_VARIABLES, MOST_VALUE = 1000, 1000, 16 * 1024

QUEUE, PRIORITY, PROJECT = "corral.dev/queue", "corral.dev/priority", "corral.dev/project"
NAME = "corral.dev/name"
"""The name of the job within its namespace, for pods whose own names say less."""
IDLE_FIRST = "corral.dev/idle-first"
"""Ranks nodes by their idle GPUs: "30,50", below which a GPU is idle, in percent of its use and of its memory. Also
"30,50,whole-nodes-last".
"""
WHOLE_NODES_LAST = "whole-nodes-last"
MIN_CUDA, FORCE = "corral.dev/min-cuda", "corral.dev/force"
"""The least CUDA version of the driver, as "12.4"; "true" has a pod wait although preflight says that it cannot run."""
GANG, GANG_SIZE = "corral.dev/gang", "corral.dev/gang-size"
QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "kai.scheduler/queue")
"""Labels of other schedulers by which a pod names its queue."""

JOBSET = "jobset.sigs.k8s.io/jobset-name"
POD_GROUP, POD_GROUP_SIZE = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"

_UNDERSTOOD = frozenset(
    {
        *("activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy"),
        *("enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers"),
        *("hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeSelector", "os", "overhead"),
        *("preemptionPolicy", "priority", "priorityClassName", "readinessGates", "resources", "restartPolicy"),
        *("runtimeClassName", "schedulerName", "schedulingGates", "securityContext", "serviceAccount"),
        *("serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain", "tolerations", "volumes"),
        *("terminationGracePeriodSeconds", "topologySpreadConstraints", "nominatedNodeName"),
    }
)
"""Fields of a pod's specification that Corral honours, or that do not restrict where the pod may run."""


@dataclass(frozen=True, slots=True)
class PodGang:
    """The pods that start together: a name within a namespace, and how many; None if only a JobSet says it."""

    namespace: str
    name: str
    size: int | None


@dataclass(frozen=True, slots=True)
class PodAsk:
    """The request of a pod.

    Attributes:
        pod: which pod.
        account: its service account.
        owner: the object that made it, as "Job/train", or "".
        request: of one member.
        program: of its first container with GPUs, else of its first.
        force: let it wait although preflight says that it cannot run.
        name: of its job, within its namespace; None is the pod's.
        share: the part of a GPU that one of its containers asks for; None if none does.
        command: of its first container, or its image.
        claims: volume claims whose location must be checked.
        gang: the pods that start together with it, itself included; None for a pod that starts alone.
    """

    pod: PodRef
    account: str
    owner: str
    request: Request
    command: tuple[str, ...]
    queue: str | None = None
    project: str | None = None
    priority: int | None = None
    time_limit_s: float | None = None
    claims: tuple[str, ...] = ()
    gang: PodGang | None = None
    name: str | None = None
    share: ContainerShare | None = None
    program: ContainerProgram | None = None
    force: bool = False


def is_gated(item: Json) -> bool:
    """Return whether a scheduling gate blocks the pod."""
    return bool(sequence(mapping(item.get("spec")).get("schedulingGates")))


def read_ask(item: Json, names: PodShares = OWN_NAMES) -> PodAsk:
    """Read the request of a Pod object, which is untrusted. Raises Refused for settings that Corral cannot honour.

    `names` reads parts of GPUs.
    """
    metadata, spec = mapping(item.get("metadata")), mapping(item.get("spec"))
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    noted, marked = annotations(metadata), labels(metadata)
    _refuse_unknown(spec)
    share = names.asked(spec, noted)
    account = str(spec.get("serviceAccountName") or "default")
    owner = owner_of(metadata)
    deadline_s = spec.get("activeDeadlineSeconds")
    queue = next((marked[label] for label in QUEUE_LABELS if marked.get(label)), None)
    return PodAsk(
        PodRef(namespace, name, str(metadata.get("uid") or "")),
        account,
        "" if owner is None else str(owner),
        _request(spec, noted, marked, namespace, share),
        _command(spec),
        queue=noted.get(QUEUE) or queue,
        project=noted.get(PROJECT) or None,
        priority=_whole(noted, PRIORITY),
        time_limit_s=float(deadline_s) if isinstance(deadline_s, int) and deadline_s > 0 else None,
        claims=claims_of(spec, name),
        gang=_gang(namespace, noted, marked),
        name=noted.get(NAME) or None,
        share=share,
        program=_program(spec),
        force=noted.get(FORCE) == "true",
    )


def _refuse_unknown(spec: Json) -> None:
    for field in spec:
        if field not in _UNDERSTOOD:
            raise Refused(f"{field!s:.60}: Corral does not understand this field; remove it, or use another scheduler")
    for container in (*sequence(spec.get("containers")), *sequence(spec.get("initContainers"))):
        if any(port.get("hostPort") for port in sequence(container.get("ports"))):
            raise Refused(
                f"hostPort: the container {container.get('name')!s:.60} takes a port of its node, and Corral does not "
                "know which are taken; use a Service"
            )


def _request(
    spec: Json, noted: Mapping[str, str], marked: Mapping[str, str], namespace: str, share: ContainerShare | None
) -> Request:
    try:
        amounts = requests_of(spec)
    except (BadQuantity, AttributeError, TypeError) as error:
        raise Refused(f"resources: {error}", field="resources") from None
    _refuse_other_resources(amounts)
    whole = next(((name, vendor.name) for name, vendor in gpu_resources().items() if amounts.of(name)), None)
    request = Request(
        devices=gpus_of(amounts) if share is None else 0,
        vendor=None if whole is None else whole[1],
        offered_as=None if whole is None else whole[0],
        cpu_milli=amounts.cpu_milli,
        host_memory_mib=-(-amounts.memory_bytes // MIB),
        disk_mib=-(-amounts.ephemeral_storage_bytes // MIB),
        min_cuda=_version(noted, MIN_CUDA),
        rules=replace(placement_rules(spec, marked, namespace), idle_first=_idle_first(noted.get(IDLE_FIRST))),
    )
    return request if share is None else share.request(replace(request, vendor=vendor_name_of(share)))


def _idle_first(written: str | None) -> IdleFirst | None:
    if written is None:
        return None
    parts = [part.strip() for part in written.split(",")]
    try:
        utilization, memory = map(float, parts[:2])
    except ValueError:
        utilization = memory = nan
    if not (0 <= utilization <= 100 and 0 <= memory <= 100) or parts[2:] not in ([], [WHOLE_NODES_LAST]):
        raise Refused(
            f"{IDLE_FIRST}: {written!r:.60} is no ranking; write two percentages, as 30,50, and {WHOLE_NODES_LAST} "
            "behind a comma to take nodes that are free as a whole last",
            field=IDLE_FIRST,
        )
    return IdleFirst(utilization, memory, keeps_whole=WHOLE_NODES_LAST in parts)


def _refuse_other_resources(amounts: Amounts) -> None:
    # Whole names are compared: a resource whose name only begins like that of whole GPUs is another resource.
    known = {**gpu_resources(), **layer_of_resource()}
    others = sorted(name for name in amounts.others if name not in known)
    if others:
        words = f"ask for {' or '.join(gpu_resources())}, a part of one, CPU, memory and storage"
        raise Refused(f"resources: Corral does not count {others[0]!s:.80}; {words}")
    makers = [resource for resource in gpu_resources() if amounts.of(resource)]
    if len(makers) > 1:
        raise Refused(f"resources: a pod gets GPUs of one maker; ask for {' or '.join(makers)}", field="resources")


def _command(spec: Json) -> tuple[str, ...]:
    first: Json = next(iter(sequence(spec.get("containers"))), {})
    words = [*_words(first.get("command")), *_words(first.get("args"))] or [str(first.get("image") or "pod")]
    printable = ("".join(c if c.isprintable() else " " for c in word[:MOST_WORD_LENGTH]) for word in words[:MOST_WORDS])
    return tuple(word or " " for word in printable)


def _program(spec: Json) -> ContainerProgram | None:
    containers = sequence(spec.get("containers"))
    first: Json = next(filter(_takes_gpus, containers), next(iter(containers), {}))
    image = first.get("image")
    if not isinstance(image, str) or not image or len(image) > MAX_IMAGE_LENGTH:
        return None
    env = {
        str(one["name"]): str(one.get("value") or "")[:MOST_VALUE]
        for one in sequence(first.get("env"))[:MOST_VARIABLES]
        if "name" in one and "valueFrom" not in one
    }
    command, args = (tuple(_words(first.get(part))[:MOST_ARGUMENTS]) for part in ("command", "args"))
    return ContainerProgram(image, command, args, env, forced_by=f'the annotation {FORCE}: "true" has it wait anyway')


def _takes_gpus(container: Json) -> bool:
    limits = mapping(mapping(container.get("resources")).get("limits"))
    return any(resource in limits for resource in gpu_resources())


def _version(noted: Mapping[str, str], name: str) -> Version | None:
    written = noted.get(name)
    version = None if written is None else version_of(written)
    if written is not None and version is None:
        raise Refused(f"{name}: {written!r:.40} is not a version; write one such as 12.4", field=name)
    return version


def _words(written: object) -> list[str]:
    return [str(word) for word in written] if isinstance(written, list) else []


def _gang(namespace: str, noted: Mapping[str, str], marked: Mapping[str, str]) -> PodGang | None:
    if noted.get(GANG):
        size = _whole(noted, GANG_SIZE)
        if size is None:
            raise Refused(f"{GANG}: it needs {GANG_SIZE}, how many pods the gang has", field=GANG)
        return PodGang(namespace, noted[GANG], _positive(size, GANG_SIZE))
    if GANG_SIZE in noted:
        raise Refused(f"{GANG_SIZE}: it needs {GANG}, a name for the gang", field=GANG_SIZE)
    if marked.get(POD_GROUP):
        size = _whole(noted, POD_GROUP_SIZE)
        if size is None:
            raise Refused(f"{POD_GROUP}: it needs the annotation {POD_GROUP_SIZE}", field=POD_GROUP)
        return PodGang(namespace, marked[POD_GROUP], _positive(size, POD_GROUP_SIZE))
    if marked.get(JOBSET):
        return PodGang(namespace, marked[JOBSET], None)
    return None


def _positive(size: int, field: str) -> int:
    if not 1 <= size <= 10_000:
        raise Refused(f"{field}: {size} is not a size of a gang; give 1 to 10000", field=field)
    return size


def _whole(noted: Mapping[str, str], name: str) -> int | None:
    written = noted.get(name)
    if written is None:
        return None
    digits = written.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS):
        raise Refused(f"{name}: {written!r:.40} is not a whole number of at most {MOST_DIGITS} digits", field=name)
    return int(written)
